package gateway

import (
	"context"
	"sync"
)

// A line has those who send take turns in the order in which they came, although
// each is on a goroutine of its own: what a client sends one behind the other
// reaches the upstream that way. The zero value is an empty line.
type line struct {
	mu      sync.Mutex
	waiting []*turn
}

// A turn is where somebody stands in a line. A nil turn is in no line: it has come
// already.
type turn struct {
	line *line
	come chan struct{} // closed when nobody is before it any more, or it was given up
	here bool          // come is closed
	left bool
}

// join takes the last place of the line.
func (l *line) join() *turn {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &turn{line: l, come: make(chan struct{})}
	l.waiting = append(l.waiting, t)
	if len(l.waiting) == 1 {
		t.arrive()
	}
	return t
}

// arrive is called with the line's lock held.
func (t *turn) arrive() {
	if !t.here {
		t.here = true
		close(t.come)
	}
}

// wait returns when the turn has come or was given up, or ctx has ended.
func (t *turn) wait(ctx context.Context) {
	if t == nil {
		return
	}
	select {
	case <-t.come:
		return
	default:
	}
	select {
	case <-t.come:
	case <-ctx.Done():
	}
}

// leave gives the turn up, come or not. Leaving twice is leaving once.
func (t *turn) leave() {
	if t == nil {
		return
	}
	l := t.line
	l.mu.Lock()
	defer l.mu.Unlock()
	t.left = true
	t.arrive()
	for len(l.waiting) > 0 && l.waiting[0].left {
		l.waiting = l.waiting[1:]
	}
	if len(l.waiting) > 0 {
		l.waiting[0].arrive()
	}
}
