package upstreamtest

import (
	"slices"
	"sync"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

// An ending comes once.
type ending struct {
	once sync.Once
	come chan struct{}
}

func newEnding() *ending { return &ending{come: make(chan struct{})} }

func (e *ending) end() { e.once.Do(func() { close(e.come) }) }

// A hub tells those who listen what belongs to no request. The zero value has
// none.
type hub struct {
	mu        sync.Mutex
	listeners []*listener
}

// A listener is one client that listens.
type listener struct {
	send func(jsonrpc.Message) // called under the hub's lock
	over *ending               // nil for one that listens for ever
}

func (h *hub) join(l *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listeners = append(h.listeners, l)
}

func (h *hub) leave(l *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listeners = slices.DeleteFunc(h.listeners, func(other *listener) bool { return other == l })
}

func (h *hub) tell(m jsonrpc.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.listeners {
		l.send(m)
	}
}

// close ends the listening of all that listen not for ever.
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.listeners {
		if l.over != nil {
			l.over.end()
		}
	}
}

// room is how many messages wait for a slow listener before it loses some.
const room = 64

// attend calls say with everything that the hub tells, until it is over or the
// client has gone. It calls first as soon as nothing is missed any more.
func (h *hub) attend(gone <-chan struct{}, over *ending, first func(), say func(jsonrpc.Message)) {
	queue := make(chan jsonrpc.Message, room)
	me := &listener{over: over, send: func(m jsonrpc.Message) {
		select {
		case queue <- m:
		default:
		}
	}}
	h.join(me)
	defer h.leave(me)
	first()
	for {
		select {
		case m := <-queue:
			say(m)
		case <-over.come:
			return
		case <-gone:
			return
		}
	}
}
