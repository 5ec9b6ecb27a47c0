package gateway

import (
	"context"
	"errors"

	"github.com/rs/zerolog"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

// A client is one client's session. Its messages are taken one after the other, so
// that a cancellation always finds its request; every request then has a goroutine
// of its own, and one that takes long delays nobody.
type client struct {
	log       zerolog.Logger
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

// newClient returns a client without a host, which its maker gives it. It ends with
// life, at the latest.
func newClient(life context.Context, log zerolog.Logger, out outlet) *client {
	c := &client{log: log, out: out, requests: newExchanges(life, out), caller: newCaller(func(m jsonrpc.Message) { out.put(m, nil) })}
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
			c.log.Warn().Err(err).Str("method", m.Method).Msg("a notification of the client was lost")
		}
	})
	if !taken {
		turn.leave()
		c.log.Warn().Str("method", m.Method).Msg("a notification of the client was lost: too many wait")
	}
}
