package gateway

import (
	"context"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

// An owner is the host of a client that has the upstream for itself: what the
// client says is handed on.
type owner struct{ c *client }

func (o owner) greet(ctx context.Context, x *Exchange, m jsonrpc.Message) jsonrpc.Message {
	return o.c.g.initialize(ctx, x, m)
}

func (o owner) greeted(m jsonrpc.Message) error {
	g := o.c.g
	if err := g.server.Initialized(m); err != nil {
		return err
	}
	if g.hasTools.Load() { // whoever needs the list first would wait for it
		o.c.requests.spawn(func() { _, _ = g.tools.get(o.c.requests.life) })
	}
	return nil
}

func (o owner) proceed() { o.c.g.server.Proceed() }

func (o owner) answer(ctx context.Context, x *Exchange, m jsonrpc.Message) jsonrpc.Message {
	return o.c.g.answer(ctx, x, m)
}

func (o owner) hear(ctx context.Context, m jsonrpc.Message) error { return o.c.g.notify(ctx, m) }

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
