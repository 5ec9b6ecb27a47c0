package upstream

import (
	"context"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

// A Server is one MCP server behind the gateway, over all its connections. It is
// safe for concurrent use.
type Server interface {
	// Initialize makes the handshake with the params of a client's initialize,
	// and returns the response, a result or an error, whose id the caller replaces
	// by the client's. The params of a request that was answered with a result
	// serve for later connections too.
	//
	// Where the params have a member clientCapabilities of the modern era in their
	// _meta, a server of that era is told those capabilities in place of the params'
	// own, and one of the legacy era nothing of them.
	Initialize(ctx context.Context, params []byte) (jsonrpc.Message, error)
	// Initialized hands on the client's notifications/initialized, which
	// completes the handshake.
	Initialized(m jsonrpc.Message) error
	// Proceed says that the client goes on although it has not sent
	// notifications/initialized. Before initialize has been answered with a result
	// it does nothing.
	Proceed()
	// Ready returns a session on which something can be sent now. It waits for
	// one, through restarts, and fails with an *UnreachableError.
	Ready(ctx context.Context) (Session, error)
	// Failed is closed when the server has failed for good; Err then says why.
	Failed() <-chan struct{}
	// Err returns the *StartError of a server that has failed for good, else nil.
	Err() error
	// Close ends the connection, and the server where it was started here. What was
	// open is lost. When it returns nothing is left. Its error is the cause of a ctx
	// that ended before. It may be called again.
	Close(ctx context.Context) error
}

// A Listener hears of one call. Its functions may be nil. They are called on the
// goroutine that reads, must not block, and must not wait for anything of this
// server.
type Listener struct {
	// Answered is called once with the response, in which the caller's id is put
	// back, before anything that the server sent behind it is handed on; and never
	// when the answer is lost or forgotten.
	Answered func(jsonrpc.Message)
	// Notified is called with each notification that came on the call's own
	// stream, before the response, where the transport has such streams. Others, and
	// all where it is nil, go to the Handler.
	Notified func(jsonrpc.Message)
}

// A Session is one connection to a server. What is sent on it is sent once, or
// provably not at all. It is safe for concurrent use.
type Session interface {
	// Send is SendTo for those who only Wait for the response.
	Send(ctx context.Context, m jsonrpc.Message) (*Call, error)
	// SendTo writes m, which is a request, and in which only the id is replaced by
	// one of ours, besides what the server's era demands. Where _meta says what the
	// client can do (io.modelcontextprotocol/clientCapabilities), a modern server is
	// told that of this request, and a legacy one is not.
	//
	// It returns when all of it has been written, or when ctx ends and a part of it
	// has.
	//
	// What is heard of the call goes to l, perhaps before SendTo returns. Wait
	// returns the same response, after l.Answered has returned.
	//
	// Every error is a *NotSent: then not one byte has left, and none will. Without
	// an error the request may have been executed, whatever Wait says later.
	SendTo(ctx context.Context, m jsonrpc.Message, l Listener) (*Call, error)
	// Notify queues a notification behind what is being sent, and does not wait for
	// it to be written. Its error is a *NotSent.
	Notify(m jsonrpc.Message) error
	// Reply queues the response to a request of the server, as Notify queues a
	// notification.
	Reply(m jsonrpc.Message) error
}
