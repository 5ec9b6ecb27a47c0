package main

import (
	"math"
	"sync"
	"time"
)

// What an event of a person came to.
const (
	resolved = "resolved"
	refused  = "refused"
)

// An event is a call, or a person's word, from its beginning to its end.
type event struct {
	id       int // its place in the history
	key      int
	amount   int  // of a call
	person   bool // it is a person's word
	executed bool // what the person says

	// invoked and returned are counted from the beginning of the history. A call
	// without an answer returns when its gateway is dead; if that is not known, never.
	invoked, returned time.Duration
	answered          bool
	said              said
	at                time.Time // of the end, by the clock that effects are dated by
}

// A history is what everybody did, and was told. It is safe for concurrent use.
type history struct {
	began time.Time

	mu     sync.Mutex
	events []event
}

func newHistory() *history { return &history{began: time.Now()} }

// never is when a call returns of which nobody knows whether it goes on.
const never time.Duration = math.MaxInt64

// begin notes the beginning of a call.
func (h *history) begin(key, amount int) int {
	return h.add(event{key: key, amount: amount})
}

// beginResolve notes the beginning of a person's word.
func (h *history) beginResolve(key int, executed bool) int {
	return h.add(event{key: key, person: true, executed: executed})
}

func (h *history) add(e event) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	e.id, e.invoked, e.returned = len(h.events), time.Since(h.began), never
	h.events = append(h.events, e)
	return e.id
}

// end notes the end of an event.
func (h *history) end(id int, s said) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := &h.events[id]
	e.at = time.Now()
	e.returned, e.answered, e.said = time.Since(h.began), true, s
}

// lose notes the end of a gateway as the end of a call that it has not answered.
func (h *history) lose(id int, gone time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events[id].returned = gone.Sub(h.began)
}

// byKey are the events of each key, in the order in which they began.
func byKey(events []event) map[int][]event {
	all := map[int][]event{}
	for _, e := range events {
		all[e.key] = append(all[e.key], e)
	}
	return all
}
