package gateway

import (
	"context"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/upstream"
)

// common is a hub's upstream as the gateway sees it: it is there when it is needed,
// and nothing is sent before the handshake is made.
type common struct{ h *hub }

func (c common) Ready(ctx context.Context) (upstream.Session, error) {
	if _, err := c.h.greeting(ctx); err != nil {
		return nil, &upstream.UnreachableError{Name: c.h.g.options.Scope.Upstream, Err: err}
	}
	server, err := c.h.dialled()
	if err != nil {
		return nil, err
	}
	return server.Ready(ctx)
}

func (c common) Initialize(ctx context.Context, params []byte) (jsonrpc.Message, error) {
	server, err := c.h.dialled()
	if err != nil {
		return jsonrpc.Message{}, err
	}
	return server.Initialize(ctx, params)
}

func (c common) Initialized(m jsonrpc.Message) error {
	server, err := c.h.dialled()
	if err != nil {
		return err
	}
	return server.Initialized(m)
}

func (c common) Proceed() {}

// Failed is nil, which is never closed, where the upstream has not been needed yet.
func (c common) Failed() <-chan struct{} {
	if server := c.current(); server != nil {
		return server.Failed()
	}
	return nil
}

func (c common) Err() error {
	if server := c.current(); server != nil {
		return server.Err()
	}
	return nil
}

func (c common) Close(ctx context.Context) error {
	if server := c.current(); server != nil {
		return server.Close(ctx)
	}
	return nil
}

func (c common) current() upstream.Server {
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	return c.h.server
}
