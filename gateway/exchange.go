package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// An Exchange is one request of a client, and the response to it.
type Exchange struct {
	*Caller
	era era
	// server is the identity that the upstream has given of itself, raw, for a
	// response of the modern era; nil where it is not known.
	server []byte
	// level is the least severe of the log messages that a request of the modern era
	// wants, where they are told apart by requests; zero: it wants none.
	level severity
	// lasting says that the request is answered when it is cancelled, too: that is how
	// it ends.
	lasting bool
	// keys are the harness's keys that came beside the message.
	keys []string
	// stream, if not nil, is the one on which the response goes.
	stream *stream
	// turn is the request's among those that are handed on. Who does not hand it on
	// leaves the line.
	turn *turn
	// respond, if not nil, takes the response the moment that it is there, so that
	// nothing the upstream sent behind it comes before it. Only the first counts.
	respond func(jsonrpc.Message)
	// notify, if not nil, takes what the client is told of the request before the
	// response, in place of Caller.send.
	notify func(jsonrpc.Message)
	over   atomic.Bool // the response was given
}

// tell tells the client something about the request, unless that is over.
func (x *Exchange) tell(m jsonrpc.Message) {
	switch {
	case x.over.Load():
	case x.notify != nil:
		x.notify(m)
	default:
		x.send(m)
	}
}

// An outlet takes what is said to a client: a response, or something about a
// request, with the request's exchange; or what is about none. It must not block;
// false means that it was dropped.
type outlet interface {
	put(m jsonrpc.Message, about *Exchange) bool
}

// exchanges are a client's open requests, by id. The zero value is not ready; see
// newExchanges.
type exchanges struct {
	out outlet

	closed chan struct{} // closed by close: the client says no more

	life context.Context // of the requests
	end  context.CancelCauseFunc

	handlers sync.WaitGroup
	mu       sync.Mutex
	open     map[string][]openRequest // by id; more than one only by HTTP
	inFlight int                      // of them
	notices  int                      // notifications that wait to be handed on
	closing  bool
}

// An openRequest is a request whose response has not been given.
type openRequest struct {
	x      *Exchange
	cancel context.CancelCauseFunc
}

// newExchanges returns exchanges that end with a context, at the latest.
func newExchanges(life context.Context, out outlet) *exchanges {
	e := &exchanges{out: out, open: map[string][]openRequest{}, closed: make(chan struct{})}
	e.life, e.end = context.WithCancelCause(life)
	return e
}

// begin registers a request and has it handled on a goroutine of its own. A
// request that cannot be taken is answered with an error; taken is false then.
func (e *exchanges) begin(m jsonrpc.Message, x *Exchange, handle func(context.Context, *Exchange) jsonrpc.Message) (taken bool) {
	ctx, cancel, err := e.register(m, x)
	if err != nil {
		x.turn.leave()
		e.out.put(jsonrpc.ErrorReply(m.ID, err), x)
		return false
	}
	var once sync.Once
	x.respond = func(reply jsonrpc.Message) { once.Do(func() { e.finish(ctx, m, reply, x) }) }
	x.notify = func(m jsonrpc.Message) { e.out.put(m, x) }
	go func() {
		defer e.handlers.Done()
		defer cancel(nil)
		defer x.turn.leave()
		x.respond(handle(ctx, x))
	}()
	return true
}

// register takes a request in. By HTTP an id may come again while the first request
// with it is open: there are clients that send again when a connection breaks, each
// response has a stream of its own, and whether the call is the same says its key.
func (e *exchanges) register(m jsonrpc.Message, x *Exchange) (context.Context, context.CancelCauseFunc, *jsonrpc.Error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	key := jsonrpc.IDKey(m.ID)
	switch {
	case e.closing:
		return nil, nil, &jsonrpc.Error{Code: codeUnavailable, Message: "the gateway is being shut down; nothing was sent"}
	case e.open[key] != nil && x.stream == nil:
		return nil, nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "a request with this id is still open, and goes on; this one was not sent"}
	case e.inFlight >= MaxRequestsInFlight:
		return nil, nil, &jsonrpc.Error{Code: codeUnavailable, Message: fmt.Sprintf("%d requests are open already; nothing was sent", MaxRequestsInFlight)}
	}
	ctx, cancel := context.WithCancelCause(e.life)
	e.open[key] = append(e.open[key], openRequest{x, cancel})
	e.inFlight++
	e.handlers.Add(1)
	return ctx, cancel, nil
}

// finish writes the response. The id is free before that: whoever has the response
// may use it again.
func (e *exchanges) finish(ctx context.Context, m, reply jsonrpc.Message, x *Exchange) {
	var cancelled *cancelledError
	silent := errors.As(context.Cause(ctx), &cancelled) // a cancelled request gets no response
	e.mu.Lock()
	key := jsonrpc.IDKey(m.ID)
	e.open[key] = slices.DeleteFunc(e.open[key], func(o openRequest) bool { return o.x == x })
	if len(e.open[key]) == 0 {
		delete(e.open, key)
	}
	e.inFlight--
	e.mu.Unlock()
	x.over.Store(true)
	if !silent || x.lasting || x.stream != nil { // a stream that ends without an answer leaves clients waiting
		e.out.put(x.era.answer(m.Method, reply, x.server), x)
	}
}

// cancel ends a request's context. What the request does about it is its own
// business: an unkeyed one tells the upstream, a keyed one goes on.
func (e *exchanges) cancel(m jsonrpc.Message) {
	params, err := rawjson.ParseObject(m.Params)
	if err != nil {
		return
	}
	id, _ := params.Get("requestId")
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, o := range e.open[jsonrpc.IDKey(id)] {
		o.cancel(&cancelledError{m})
	}
}

// spawn runs f on a goroutine that close waits for, unless that has begun. Of
// these, too, there are no more than MaxRequestsInFlight; over it f is not run.
func (e *exchanges) spawn(f func()) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing || e.notices >= MaxRequestsInFlight {
		return false
	}
	e.notices++
	e.handlers.Go(func() {
		f()
		e.mu.Lock()
		e.notices--
		e.mu.Unlock()
	})
	return true
}

// close lets no new request begin.
func (e *exchanges) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closing {
		e.closing = true
		close(e.closed)
	}
}
