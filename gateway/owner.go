package gateway

import (
	"context"
	"fmt"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/upstream"
)

// An owner is a client that has an upstream for itself, as the two see each other:
// what the client says is handed on, and what the upstream asks and says goes to it.
type owner struct {
	c *client
	g *Gateway
	// say tells the client what the upstream says of its own accord.
	say func(jsonrpc.Message) bool
}

func newOwner(c *client, g *Gateway) owner {
	return owner{c, g, func(m jsonrpc.Message) bool { return c.out.put(m, nil) }}
}

func (o owner) greet(ctx context.Context, x *Exchange, m jsonrpc.Message) jsonrpc.Message {
	return o.g.initialize(ctx, x, m)
}

func (o owner) greeted(m jsonrpc.Message) error {
	if err := o.g.server.Initialized(m); err != nil {
		return err
	}
	if o.g.hasTools.Load() { // whoever needs the list first would wait for it
		o.c.requests.spawn(func() { _, _ = o.g.tools.get(o.c.requests.life) })
	}
	return nil
}

func (o owner) proceed() { o.g.server.Proceed() }

func (o owner) answer(ctx context.Context, x *Exchange, m jsonrpc.Message) jsonrpc.Message {
	return o.g.answer(ctx, x, m)
}

func (o owner) hear(ctx context.Context, m jsonrpc.Message) error { return o.g.notify(ctx, m) }

// Request hands the upstream's request to the client.
func (o owner) Request(s upstream.Session, m jsonrpc.Message) {
	asked, ok := o.c.questions.ask(question{session: s, of: o.g, theirs: m.ID}, m)
	if !ok {
		_ = s.Reply(jsonrpc.ErrorReply(m.ID, &jsonrpc.Error{Code: codeUnavailable, Message: fmt.Sprintf("%d requests to the client are open already", MaxRequestsInFlight)}))
		return
	}
	if !o.c.out.put(asked, nil) {
		o.c.questions.answer(asked, &jsonrpc.Error{Code: codeUnavailable, Message: "the client cannot be asked"})
	}
}

// Notification hands the upstream's notification to the client.
func (o owner) Notification(m jsonrpc.Message) {
	ok := true
	switch m.Method {
	case "notifications/tools/list_changed":
		o.g.tools.invalidate()
		o.c.requests.spawn(func() { o.toolsChanged(m) })
		return
	case "notifications/progress":
		o.g.progress.heard(m)
		return
	case "notifications/cancelled":
		if m, ok = o.c.questions.cancelled(o.g, m); !ok {
			return
		}
	}
	if !o.say(m) {
		o.g.log.Warn().Str("method", m.Method).Msg("a notification was dropped: the client does not read")
	}
}

var toolsChanged = jsonrpc.Notification("notifications/tools/list_changed", nil)

// toolsChanged passes a change of the tools on, where what is offered differs.
func (o owner) toolsChanged(m jsonrpc.Message) {
	if o.g.tools.refresh(o.c.requests.life) && o.g.announces.Load() {
		o.say(m)
	}
}

// upstreamBack tells the upstream what the client had told it, and the client what
// has become of the tools.
func (o owner) upstreamBack(s upstream.Session) {
	o.restore(s)
	o.c.requests.spawn(func() { o.toolsChanged(toolsChanged) })
}

func (o owner) restore(s upstream.Session) {
	o.c.requests.spawn(func() { o.g.state.restore(o.g.life, s) })
}

// upstreamGone tells the client that nobody waits for its answers any more.
func (o owner) upstreamGone() {
	for _, notice := range o.c.questions.void(o.g) {
		o.c.out.put(notice, nil)
	}
}

// answer finds who answers a request.
func (g *Gateway) answer(ctx context.Context, x *Exchange, m jsonrpc.Message) jsonrpc.Message {
	switch m.Method {
	case "tools/call":
		return g.Call(ctx, x, m)
	case "tools/list":
		return g.tools.list(ctx, m)
	}
	return g.relay(ctx, x, m)
}
