package gateway

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/upstream"
)

// A client is one client's session. Its messages are taken one after the other, so
// that a cancellation always finds its request; every request then has a goroutine
// of its own, and one that takes long delays nobody.
type client struct {
	g         *Gateway
	host      host
	caller    *Caller
	out       outlet
	requests  *exchanges // of the client
	questions questions  // of the upstream
	asking    asking     // of the gateway's own
	order     line       // in which what is handed on was sent

	// The handshake, as the one who takes messages has seen it.
	shaken      chan struct{} // closed when initialize is answered; nil before it came
	initialized bool          // the client has said so, or goes on without
}

// A host is what a client meets in place of the upstream. What it does may take as
// long as the upstream takes.
type host interface {
	// greet answers initialize.
	greet(ctx context.Context, x *Exchange, m jsonrpc.Message) jsonrpc.Message
	// greeted takes notifications/initialized.
	greeted(m jsonrpc.Message) error
	// proceed takes note that the client goes on without having said so.
	proceed()
	// answer answers any other request.
	answer(ctx context.Context, x *Exchange, m jsonrpc.Message) jsonrpc.Message
	// hear takes any other notification.
	hear(ctx context.Context, m jsonrpc.Message) error
}

// newClient returns a client that owns the upstream of g: its handshake is handed
// on, and the upstream's requests go to it. It ends with life, at the latest.
func newClient(life context.Context, g *Gateway, out outlet) *client {
	c := &client{g: g, out: out, requests: newExchanges(life, out), caller: newCaller(func(m jsonrpc.Message) { out.put(m, nil) })}
	c.host = owner{c}
	c.caller.ask = c.ask
	return c
}

// takeMessage takes one message of the client's, which was parsed already, perhaps in
// vain. x is the exchange that an answer to a message that is none belongs to; it may
// be nil.
func (c *client) takeMessage(m jsonrpc.Message, err error, x *Exchange) {
	var bad *jsonrpc.Error
	switch {
	case errors.As(err, &bad) && m.Method == "" && m.ID != nil:
		c.answered(m, bad) // a response, as far as one can know
	case bad != nil:
		c.out.put(jsonrpc.ErrorReply(m.ID, bad), x)
	case m.IsResponse():
		c.answered(m, nil)
	case m.IsNotification():
		c.takeNotification(m)
	default:
		c.takeRequest(m, x)
	}
}

// takeRequest has a request handled. What comes behind an initialize waits for its
// answer, so that a client that sends everything at once still shakes hands first.
func (c *client) takeRequest(m jsonrpc.Message, x *Exchange) {
	switch m.Method {
	case "ping":
		c.out.put(jsonrpc.Result(m.ID, []byte(`{}`)), x)
	case "initialize":
		x.turn = c.order.join()
		shaken := make(chan struct{})
		if c.requests.begin(m, x, func(ctx context.Context, x *Exchange) jsonrpc.Message {
			defer close(shaken)
			return c.host.greet(ctx, x, m)
		}) {
			c.shaken = shaken
		}
	default:
		if m.Method != "tools/list" { // that is answered from here
			x.turn = c.order.join()
		}
		shaken := c.proceed()
		c.requests.begin(m, x, func(ctx context.Context, x *Exchange) jsonrpc.Message {
			shaken(ctx)
			return c.host.answer(ctx, x, m)
		})
	}
}

// proceed returns what a message waits for that comes behind the handshake. The
// client is taken to go on without notifications/initialized, if it has not sent it.
func (c *client) proceed() func(context.Context) {
	shaken, goesOn := c.shaken, !c.initialized
	if shaken == nil {
		return func(context.Context) {}
	}
	c.initialized = true
	return func(ctx context.Context) {
		select {
		case <-shaken:
			if goesOn {
				c.host.proceed()
			}
		case <-ctx.Done():
		}
	}
}

func (c *client) takeNotification(m jsonrpc.Message) {
	var hand func(context.Context) error
	switch m.Method {
	case "notifications/cancelled":
		c.requests.cancel(m)
		return
	case "notifications/initialized":
		c.initialized = true
		hand = func(context.Context) error { return c.host.greeted(m) }
	default:
		hand = func(ctx context.Context) error { return c.host.hear(ctx, m) }
	}
	shaken, turn := c.proceed(), c.order.join()
	taken := c.requests.spawn(func() {
		defer turn.leave()
		shaken(c.requests.life)
		turn.wait(c.requests.life)
		if err := hand(c.requests.life); err != nil {
			c.g.log.Warn().Err(err).Str("method", m.Method).Msg("a notification of the client was lost")
		}
	})
	if !taken {
		turn.leave()
		c.g.log.Warn().Str("method", m.Method).Msg("a notification of the client was lost: too many wait")
	}
}

// Request hands the upstream's request to the client.
func (c *client) Request(s upstream.Session, m jsonrpc.Message) {
	asked, ok := c.questions.ask(s, m)
	if !ok {
		_ = s.Reply(jsonrpc.ErrorReply(m.ID, &jsonrpc.Error{Code: codeUnavailable, Message: fmt.Sprintf("%d requests to the client are open already", MaxRequestsInFlight)}))
		return
	}
	if !c.out.put(asked, nil) {
		c.questions.answer(asked, &jsonrpc.Error{Code: codeUnavailable, Message: "the client cannot be asked"})
	}
}

// Notification hands the upstream's notification to the client.
func (c *client) Notification(m jsonrpc.Message) {
	ok := true
	switch m.Method {
	case "notifications/tools/list_changed":
		c.g.tools.invalidate()
		c.requests.spawn(func() { c.toolsChanged(m) })
		return
	case "notifications/progress":
		c.g.progress.heard(m)
		return
	case "notifications/cancelled":
		if m, ok = c.questions.cancelled(m); !ok {
			return
		}
	}
	if !c.out.put(m, nil) {
		c.g.log.Warn().Str("method", m.Method).Msg("a notification was dropped: the client does not read")
	}
}

var toolsChanged = jsonrpc.Notification("notifications/tools/list_changed", nil)

// toolsChanged passes a change of the tools on, where what is offered differs.
func (c *client) toolsChanged(m jsonrpc.Message) {
	if c.g.tools.refresh(c.requests.life) && c.g.announces.Load() {
		c.out.put(m, nil)
	}
}

// upstreamBack tells the upstream what the client had told it, and the client what
// has become of the tools.
func (c *client) upstreamBack(s upstream.Session) {
	c.requests.spawn(func() { c.g.state.restore(c.g.life, s) })
	c.requests.spawn(func() { c.toolsChanged(toolsChanged) })
}

// upstreamGone tells the client that nobody waits for its answers any more.
func (c *client) upstreamGone() {
	for _, notice := range c.questions.void() {
		c.out.put(notice, nil)
	}
}
