package gateway

import (
	"context"
	"io"
	"sync"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

// MaxQueuedBytes is how much is kept for a client that does not read. Over it,
// notifications are dropped, and no more requests are read; responses are kept,
// and only those to MaxRequestsInFlight requests can follow.
const MaxQueuedBytes = 64 << 20

// An outbox is the one writer towards a client. Putting something into it never
// waits for the client: an upstream's answers are recorded however slowly the
// client reads. It is safe for concurrent use.
type outbox struct {
	w *jsonrpc.Writer

	mu     sync.Mutex
	queue  []jsonrpc.Message
	bytes  int
	closed bool
	err    error
	room   *sync.Cond
	wake   chan struct{} // has room for one
	done   chan struct{}
}

func newOutbox(w io.Writer) *outbox {
	o := &outbox{w: jsonrpc.NewWriter(w), wake: make(chan struct{}, 1), done: make(chan struct{})}
	o.room = sync.NewCond(&o.mu)
	go o.write()
	return o
}

// put queues a message; false means that it was dropped.
func (o *outbox) put(m jsonrpc.Message) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || o.err != nil || (m.IsNotification() && o.bytes > MaxQueuedBytes) {
		return false
	}
	o.queue = append(o.queue, m)
	o.bytes += len(m.Raw())
	o.poke()
	return true
}

func (o *outbox) poke() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

func (o *outbox) write() {
	defer close(o.done)
	for range o.wake {
		for {
			m, ok, last := o.next()
			if last {
				return
			}
			if !ok {
				break
			}
			if err := o.w.Write(m); err != nil {
				o.fail(err)
				return
			}
		}
	}
}

// fail gives up what is queued: the client is gone.
func (o *outbox) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err, o.queue, o.bytes = err, nil, 0
	o.room.Broadcast()
}

// waitForRoom returns when no more than MaxQueuedBytes wait for the client, or
// nothing will be written any more.
func (o *outbox) waitForRoom() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.bytes > MaxQueuedBytes && o.err == nil && !o.closed {
		o.room.Wait()
	}
}

// next takes the next message; last means that there is none and will be none.
func (o *outbox) next() (m jsonrpc.Message, ok, last bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) == 0 {
		return m, false, o.closed
	}
	m = o.queue[0]
	o.queue = o.queue[1:]
	o.bytes -= len(m.Raw())
	o.room.Broadcast()
	return m, true, false
}

// close writes what is queued, unless ctx ends first.
func (o *outbox) close(ctx context.Context) {
	o.mu.Lock()
	o.closed = true
	o.room.Broadcast()
	o.poke()
	o.mu.Unlock()
	select {
	case <-o.done:
	case <-ctx.Done():
	}
}
