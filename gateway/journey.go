package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/toolschema"
	"github.com/mcp-idem/mcp-idem/upstream"
)

// A journey is one tools/call on its way. Each step fills what the next ones
// need; a step that ends the journey leaves what the caller is told in told, or
// in failure where the protocol has an error for it. Nothing of it is shared.
type journey struct {
	g       *Gateway
	from    *Exchange
	request jsonrpc.Message // as it came; never changed
	started time.Time

	call     toolschema.Call
	bad      *toolschema.CallError // what is wrong with the call; nil: nothing
	tool     toolschema.Tool
	carrier  toolschema.KeySource // who the key is taken from
	keyText  string               // the key as the caller wrote it; never logged
	asked    dedup.Request
	settings toolSettings // empty until ask
	wait     *patience    // nil until the ledger was asked
	input    *input       // what the call says to a question of the upstream's; nil: nothing
	rounds   int          // questions that the client was asked by the gateway
	// unrecorded: the call goes on with one that nobody has recorded.
	unrecorded bool
	session    upstream.Session

	obstacle *obstacle // nil: the call may run, as far as one knows
	told     told
	failure  *jsonrpc.Error
	passed   jsonrpc.Message // the upstream's own response, handed on

	upstreamTook time.Duration
	ledgerTook   time.Duration
}

// An obstacle is why a call cannot run. What is on record of its key is told all
// the same: the tool may have been another one when the call was executed.
type obstacle struct {
	told    told
	failure *jsonrpc.Error // where the protocol has an error for it
}

func (g *Gateway) begin(from *Exchange, request jsonrpc.Message) *journey {
	return &journey{g: g, from: from, request: request, started: time.Now()}
}

// reply is the response to the caller.
func (j *journey) reply() jsonrpc.Message {
	switch {
	case j.failure != nil:
		return jsonrpc.ErrorReply(j.request.ID, j.failure)
	case j.passed.IsResponse():
		return j.passed
	}
	return jsonrpc.Result(j.request.ID, j.told.bytes(j.tool))
}

// parse reads what the caller says. What is wrong with arguments or key matters
// only where the tool needs a key: a reader gets them as they came.
func (j *journey) parse() bool {
	call, err := toolschema.ParseCall(j.request.Params, j.from.keys...)
	j.call = call
	if err == nil {
		return true
	}
	if errors.As(err, &j.bad) && j.bad.Reason != toolschema.ReasonParams {
		return true
	}
	j.failure = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "tools/call: " + err.Error() + "; nothing was sent"}
	return false
}

// leaveOrder gives up the call's turn among what is handed on as it came.
func (j *journey) leaveOrder() { j.from.turn.leave() }

// findTool learns what the tool is. A tool that the upstream does not list is
// not called: nobody could say what calling it twice would do.
func (j *journey) findTool(ctx context.Context) {
	if j.g.tools.known(j.call.Name).Name == "" {
		j.leaveOrder() // reading the tools takes a while, and nobody behind needs them
	}
	tool, stale, err := j.g.tools.find(ctx, j.call.Name)
	j.tool = tool
	var refused *jsonrpc.Error
	switch {
	case err == nil && stale && !tool.Keyed() && j.call.Source != toolschema.KeyNone:
		// Who sends a key wants it kept, and the tool may need one by now.
		j.tool = toolschema.Tool{Name: tool.Name}
		j.obstacle = &obstacle{told: tellUnreachable("its tools have changed, and cannot be read")}
	case err == nil && tool.Problem != "" && j.g.options.Policy.OnProblem != toolschema.OnProblemHarness:
		j.obstacle = &obstacle{told: tellUnkeyable(tool.Problem)}
	case err == nil:
	case errors.As(err, &refused):
		j.obstacle = &obstacle{failure: refused}
	case errors.Is(err, errNoSuchTool):
		name := j.g.options.Policy.Prefix + j.call.Name
		message := "Unknown tool: " + name
		if problem := j.g.tools.whyDropped(j.call.Name); problem != "" {
			message = "Tool " + name + " is not offered: " + problem
		}
		j.obstacle = &obstacle{failure: &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: message + "; nothing was sent"}}
	default:
		j.obstacle = &obstacle{told: tellUnreachable(err.Error())}
	}
}

// hindered ends the journey where there is an obstacle.
func (j *journey) hindered() bool {
	if j.obstacle == nil {
		return false
	}
	j.told, j.failure = j.obstacle.told, j.obstacle.failure
	return true
}

// needsKey reports whether the call goes by the ledger: its tool has side effects,
// or it carries a key, which then is looked up whatever the tool is today.
func (j *journey) needsKey() bool {
	if j.tool.Keyed() || j.bad != nil {
		return j.tool.Keyed()
	}
	if j.call.Source == toolschema.KeyNone {
		return false
	}
	_, refusal := j.key()
	return refusal == nil
}

// lookUp answers from the ledger, if there is something to answer. A call whose
// operation is running waits for it.
func (j *journey) lookUp(ctx context.Context) bool {
	if j.wait == nil {
		j.wait = j.patience(ctx)
	}
	for {
		began := time.Now()
		verdict, ok, err := j.g.ledger.Look(ctx, j.asked)
		j.ledgerTook += time.Since(began)
		if err != nil && !j.tool.Keyed() && ctx.Err() == nil {
			j.g.log.Error().Err(err).Str("tool", j.call.Name).Msg("the ledger could not be read; the call needs no key, and is handed on")
			return false
		}
		if err != nil {
			j.ledgerFailed(ctx, err)
			return true
		}
		if !ok {
			return false
		}
		if stray, is := verdict.(dedup.Stray); is && stray.Entry.ID.IsZero() && !j.tool.Keyed() {
			j.unrecorded = true
			return false // it goes on with a call that was not recorded either
		}
		busy, isBusy := verdict.(dedup.Busy)
		if isBusy && j.wait.until(j.g.ledger, busy) {
			continue
		}
		j.told = j.tell(ctx, verdict)
		return true
	}
}

// reach waits until the upstream can be written to.
func (j *journey) reach(ctx context.Context) bool {
	session, err := j.g.reach(ctx)
	if err != nil {
		j.told = tellUnreachable(err.Error())
		return false
	}
	j.session = session
	return true
}

// claim asks the ledger for leave to run; nil where it cannot be had. A call
// whose caller is gone by now is not begun.
func (j *journey) claim(ctx context.Context) dedup.Verdict {
	if ctx.Err() != nil {
		j.told = tellUnreachable(context.Cause(ctx).Error())
		return nil
	}
	if most := j.g.options.MaxAttempts; j.g.running.Load() >= int64(most) {
		j.told = tellUnreachable(fmt.Sprintf("%d calls run already", most))
		return nil
	}
	began := time.Now()
	verdict, err := j.g.ledger.Begin(ctx, j.asked)
	j.ledgerTook += time.Since(began)
	if err != nil {
		j.ledgerFailed(ctx, err)
		return nil
	}
	return verdict
}

// tell finds the words for a verdict that is no leave to run.
func (j *journey) tell(ctx context.Context, v dedup.Verdict) told {
	switch v := v.(type) {
	case dedup.Replay:
		j.from.owns(v.Entry.ID)
		return tellReplay(v.Entry)
	case dedup.Busy:
		if v.Entry.State == dedup.Unknown {
			return j.g.tellUnknown(v.Entry, false)
		}
		return tellRunning(v.Entry)
	case dedup.Asked:
		j.from.owns(v.Entry.ID)
		return tellAsked(v.Entry)
	case dedup.Stray:
		return tellStray(v)
	case dedup.Lost:
		return j.g.tellUnknown(v.Entry, false)
	case dedup.Conflict:
		return j.g.tellConflict(v)
	case dedup.Duplicate:
		return j.g.tellDuplicate(v, j.g.resultID(ctx, j.from, v.Entry))
	case dedup.Expired:
		return tellExpired(v.Entry)
	}
	panic("gateway: a lease is no answer")
}

func (j *journey) ledgerFailed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		j.told = tellUnreachable(context.Cause(ctx).Error()) // that is no fault of the ledger
		return
	}
	j.g.log.Error().Err(err).Str("tool", j.call.Name).Msg("the ledger could not be used; the call was not sent")
	j.told = tellLedger()
}

// end frees what the journey holds, and writes its line into the log.
func (j *journey) end() {
	if j.wait != nil {
		j.wait.stop()
	}
	j.log()
}

// log writes the one line of a call. It never holds keys, arguments or results.
func (j *journey) log() {
	event := j.g.log.Info()
	if j.told.outcome.Outcome == EffectUnknown {
		event = j.g.log.Warn()
	}
	event = event.Str("tool", j.call.Name).Dur("took_ms", time.Since(j.started))
	if j.failure != nil {
		event.Int("code", j.failure.Code).Msg("call refused")
		return
	}
	o := j.told.outcome
	if o.Outcome != "" {
		event = event.Str("outcome", o.Outcome).Bool("was_replay", o.WasReplay).Dur("ledger_ms", j.ledgerTook)
	}
	if o.OperationID != nil {
		event = event.Str("operation_id", *o.OperationID).Int("attempt", *o.Attempt)
	}
	if o.Reason != nil {
		event = event.Str("reason", *o.Reason)
	}
	if j.upstreamTook > 0 {
		event = event.Dur("upstream_ms", j.upstreamTook)
	}
	event.Msg("call")
}
