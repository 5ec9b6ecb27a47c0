package upstream

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

var errForgotten = errors.New("nobody listens for the answer any more")

// A Call is one request that was sent, at least in part. It is safe for
// concurrent use.
type Call struct {
	owner   interface{ take(id string) *Call } // whose table the call is in
	id      []byte                             // ours, on the wire
	theirs  []byte                             // the caller's
	opens   *opening                           // nil for all but what begins a handshake of a Process
	whole   atomic.Bool                        // every byte has been written
	heard   func(jsonrpc.Message)              // told of the answer before anything behind it; may be nil
	settled chan struct{}
	answer  jsonrpc.Message // set before settled is closed
	err     error           // likewise
}

// ID returns the raw id under which the request was sent: the one to name in a
// notifications/cancelled.
func (c *Call) ID() []byte { return c.id }

// Wait returns the response, with the caller's id in it and every other byte as
// the server wrote it. It fails with a *LostError when no answer can come any
// more, for good; and with the cause of ctx when that ends first: the call then
// stays open, and Wait can be called again.
func (c *Call) Wait(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case <-c.settled:
		return c.answer, c.err
	default:
	}
	select {
	case <-c.settled:
		return c.answer, c.err
	case <-ctx.Done():
		return jsonrpc.Message{}, context.Cause(ctx)
	}
}

// Forget stops listening. A later answer is a stray, of which the Observer is
// told; a Wait gets a *LostError. On a call that has its answer it does nothing.
func (c *Call) Forget() {
	if c.owner.take(string(c.id)) == c {
		c.lose(Forgotten, errForgotten)
	}
}

// deliver and lose settle the call. Only who took it out of the session's table
// may call one of them, once.

func (c *Call) deliver(m jsonrpc.Message) {
	c.answer = m.With("id", c.theirs)
	if c.heard != nil {
		c.heard(c.answer)
	}
	close(c.settled)
}

func (c *Call) lose(cause LossCause, err error) {
	c.err = &LostError{Cause: cause, Err: err}
	close(c.settled)
}
