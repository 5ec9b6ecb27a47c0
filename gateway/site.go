package gateway

import (
	"context"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/toolschema"
)

// A face is what requests of the modern era meet: one upstream, or several that look
// like one.
type face interface {
	// greeting is the result of a handshake, with our instructions in it.
	greeting(ctx context.Context) ([]byte, error)
	// identity is the serverInfo of results, raw; nil where it is not known.
	identity() []byte
	// serve answers a request. level is the least severe of the log messages that it
	// wants; zero: it wants none.
	serve(ctx context.Context, x *Exchange, m jsonrpc.Message, level severity) jsonrpc.Message
	// attend lets somebody hear of what is granted of a filter, until leave is called.
	// hear must not block.
	attend(ctx context.Context, asked mcp.SubscriptionFilter, hear func(jsonrpc.Message) bool) (granted mcp.SubscriptionFilter, leave func())
	// find returns a tool by the name that clients know.
	find(ctx context.Context, name string) (toolschema.Tool, error)
}

// An estate is what stands behind the gateway, when it comes to the end of it.
type estate interface {
	// drain lets what runs end, and takes nothing new from the clients. When ctx ends,
	// or the upstream fails, it gives up what still runs: whoever waits for it is told
	// how its operation stands. When it returns, nothing runs any more.
	drain(ctx context.Context, clients ...*exchanges)
	// linger lets what runs end, and listens for late answers, until one of the
	// contexts ends or the upstream fails.
	linger(contexts ...context.Context)
	// close ends what was started. When it returns, nothing is left of it.
	close(ctx context.Context)
	// failed is closed where it has failed for good, and the gateway with it; err says
	// why. It may be nil.
	failed() <-chan struct{}
	err() error
}

// A site is a face and an estate that clients share.
type site interface {
	face
	estate
	// welcome makes the client of a session a guest.
	welcome(c *client, s *session)
	// ready says why a call would not be sent now.
	ready(ctx context.Context) error
}
