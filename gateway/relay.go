package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
	"github.com/mcp-idem/mcp-idem/toolschema"
	"github.com/mcp-idem/mcp-idem/upstream"
)

// codeUnavailable is the JSON-RPC error of a request that could not be handed on,
// or whose answer was lost. The range is free for implementations.
const codeUnavailable = -32000

// A cancelledError is the cause of a context whose client has cancelled the
// request, with the client's own words.
type cancelledError struct{ notification jsonrpc.Message }

func (*cancelledError) Error() string { return "the client cancelled the request" }

// tell tells the upstream that the call is cancelled.
func (e *cancelledError) tell(session upstream.Session, call *upstream.Call) {
	if params, err := rawjson.ParseObject(e.notification.Params); err == nil {
		_ = session.Notify(e.notification.With("params", params.Set("requestId", call.ID()))) // a lost one changes nothing
	}
}

// relay hands a request on as it came, and its response back as it came.
func (g *Gateway) relay(ctx context.Context, x *Exchange, request jsonrpc.Message) jsonrpc.Message {
	aboutTask := isAboutTask(request)
	if aboutTask && !g.admitsToTask(ctx, x, request) {
		return jsonrpc.ErrorReply(request.ID, errNoTask)
	}
	session, err := g.reach(ctx)
	if err != nil {
		return jsonrpc.ErrorReply(request.ID, unavailable(err))
	}
	answer, err := g.forward(ctx, session, x, request, func(answer jsonrpc.Message) {
		if answer.Result != nil {
			g.state.learn(request) // in the order in which the upstream has granted them
		}
		if !aboutTask { // else the ledger is told first
			x.respond(answer)
		}
	})
	if err != nil {
		return jsonrpc.ErrorReply(request.ID, unavailable(err))
	}
	g.hearOfTask(request, answer)
	return answer
}

// notify hands a notification on as it came.
func (g *Gateway) notify(ctx context.Context, m jsonrpc.Message) error {
	session, err := g.reach(ctx)
	if err != nil {
		return err
	}
	return session.Notify(m)
}

// reach waits until the upstream can be written to, but not for long.
func (g *Gateway) reach(ctx context.Context) (upstream.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, g.options.ReachWithin)
	defer cancel()
	return g.server.Ready(ctx)
}

// forward sends a request in its turn and waits for its answer, which answered gets
// the moment that it is there. When the client cancels the request, the upstream is
// told so in the client's words.
func (g *Gateway) forward(ctx context.Context, session upstream.Session, x *Exchange, request jsonrpc.Message, answered func(jsonrpc.Message)) (jsonrpc.Message, error) {
	request, unfollow := g.progress.follow(request, x.tell, nil)
	defer unfollow()
	x.turn.wait(ctx)
	call, err := session.SendTo(ctx, request, upstream.Listener{Answered: answered, Notified: g.hears(x)})
	x.turn.leave()
	if err != nil {
		return jsonrpc.Message{}, err
	}
	defer call.Forget()
	answer, err := call.Wait(ctx)
	if err != nil {
		g.progress.givenUp()
	}
	var cancelled *cancelledError
	if err != nil && errors.As(context.Cause(ctx), &cancelled) {
		cancelled.tell(session, call)
	}
	return answer, err
}

// hears takes what the upstream says about a request on the request's own stream.
func (g *Gateway) hears(x *Exchange) func(jsonrpc.Message) {
	return func(m jsonrpc.Message) {
		if m.Method == "notifications/progress" {
			g.progress.heard(m)
			return
		}
		x.tell(m)
	}
}

func unavailable(err error) *jsonrpc.Error {
	return &jsonrpc.Error{Code: codeUnavailable, Message: err.Error()}
}

// pass hands a call on whose tool needs no key.
func (j *journey) pass(ctx context.Context) jsonrpc.Message {
	if j.reach(ctx) {
		j.forwardUnkeyed(ctx)
	}
	return j.reply()
}

// forwardUnkeyed sends a call without claiming anything, and hands the answer on
// as it came.
func (j *journey) forwardUnkeyed(ctx context.Context) {
	request := j.request
	if j.bad == nil {
		request = request.With("params", j.call.Forward(j.tool, "", ""))
	}
	began := time.Now()
	answer, err := j.g.forward(ctx, j.session, j.from, request, func(answer jsonrpc.Message) {
		if j.g.tasks.strangers {
			j.g.tasks.remember(taskOf(answer.Result).id, j.g.namespace(j.from))
		}
		j.from.respond(answer)
	})
	j.upstreamTook = time.Since(began)
	var unsent *upstream.NotSent
	switch {
	case err == nil:
		j.passed = answer
	case errors.As(err, &unsent):
		j.told = tellUnreachable(err.Error())
	case j.tool.Class == toolschema.ClassReadOnly:
		j.failure = unavailable(err)
	default:
		j.told = tellUnguarded(err)
	}
}

// tellUnguarded: a call that nobody records was sent, and its answer is lost.
func tellUnguarded(err error) told {
	advice := "Tell the user, and go on without it."
	return told{
		text:    "EFFECT_UNKNOWN: the call was sent, but its answer was lost (" + err.Error() + "). It MAY have been executed, and this tool's calls are not recorded. " + advice,
		outcome: Outcome{Outcome: EffectUnknown, Effect: effectUnknown}.next(actAskHuman, 0, advice),
	}
}
