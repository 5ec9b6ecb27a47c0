package sqlite

import (
	"sync"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// watch tells waiters of this process what its writer has committed.
type watch struct {
	closed chan struct{} // closed when the store is

	mu      sync.Mutex
	waiting map[dedup.OperationID]map[chan struct{}]struct{}
}

func newWatch() *watch {
	return &watch{closed: make(chan struct{}), waiting: map[dedup.OperationID]map[chan struct{}]struct{}{}}
}

// subscribe returns a channel that holds a value after a commit that wrote the
// operation, and what ends the subscription.
func (w *watch) subscribe(id dedup.OperationID) (woken <-chan struct{}, end func()) {
	c := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting[id] == nil {
		w.waiting[id] = map[chan struct{}]struct{}{}
	}
	w.waiting[id][c] = struct{}{}
	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.waiting[id], c)
		if len(w.waiting[id]) == 0 {
			delete(w.waiting, id)
		}
	}
}

// wake tells the waiters of operations that these were written.
func (w *watch) wake(ids []dedup.OperationID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		for c := range w.waiting[id] {
			select {
			case c <- struct{}{}:
			default: // it will look anyway
			}
		}
	}
}
