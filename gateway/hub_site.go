package gateway

import (
	"context"
	"errors"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/toolschema"
)

// serve answers a request of the modern era.
func (h *hub) serve(ctx context.Context, x *Exchange, m jsonrpc.Message, level severity) jsonrpc.Message {
	welcome, err := h.greeting(ctx)
	x.server = h.identity()
	if m.Method == "server/discover" {
		if err != nil {
			return jsonrpc.ErrorReply(m.ID, unavailable(err))
		}
		return jsonrpc.Result(m.ID, discovery(welcome))
	}
	if level != 0 {
		h.heed(ctx, level)
	}
	return h.g.answer(ctx, x, m)
}

// attend is part of face.
func (h *hub) attend(ctx context.Context, asked mcp.SubscriptionFilter, hear func(jsonrpc.Message) bool) (mcp.SubscriptionFilter, func()) {
	granted := h.grant(asked)
	s := &subscriber{uris: map[string]bool{}, hear: hear, wants: func(method string) bool { return admitsChange(granted, method) }}
	h.join(s)
	granted.ResourceSubscriptions = h.subscribeAll(ctx, s, granted.ResourceSubscriptions)
	return granted, func() { h.leave(s) }
}

// find is part of face.
func (h *hub) find(ctx context.Context, name string) (toolschema.Tool, error) {
	tool, _, err := h.g.tools.find(ctx, name)
	return tool, err
}

// welcome is part of site.
func (h *hub) welcome(c *client, s *session) {
	guest := newGuest(h, s, func(m jsonrpc.Message) bool { return s.put(m, nil) })
	c.host, s.depart = guest, guest.depart
}

// ready is part of site.
func (h *hub) ready(ctx context.Context) error {
	if h.renews { // it is started when it is needed
		return nil
	}
	if _, err := h.g.server.Ready(ctx); err != nil {
		return errors.New("the server is not ready")
	}
	return nil
}

func (h *hub) drain(ctx context.Context, clients ...*exchanges) { h.g.drain(ctx, clients...) }
func (h *hub) linger(contexts ...context.Context)               { h.g.linger(contexts...) }

func (h *hub) close(ctx context.Context) {
	h.g.close(ctx)
	h.work.Wait()
}

// failed is never closed where the upstream is dialled anew: its end is not ours.
func (h *hub) failed() <-chan struct{} {
	if h.renews {
		return nil
	}
	return h.g.failed()
}

func (h *hub) err() error { return h.g.err() }
