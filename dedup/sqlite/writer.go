package sqlite

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// maxGroup is how many writes share a commit at most.
const maxGroup = 256

// A writing is one caller's write.
type writing struct {
	// apply runs within a transaction, perhaps more than once. Its error means
	// that the transaction is to be given up.
	apply func(s *session) (outcome, error)
	// taken is set by whoever comes first: the writer, which then finishes it, or
	// the caller, who has lost patience.
	taken    atomic.Bool
	outcome  outcome
	answered chan error
}

// An outcome is what a write came to, provided that it is committed.
type outcome struct {
	wrote dedup.OperationID // zero where no operation was written
	other bool              // something else was written
	err   error             // what the caller is told although the transaction is sound
}

func (o outcome) writes() bool { return o.other || !o.wrote.IsZero() }

// A writer commits what all callers of this process write, from one goroutine
// and over one connection.
type writer struct {
	dsn     string
	at      location
	tallies *tallies
	watch   *watch

	queue   chan *writing
	stopped chan struct{} // closed when the goroutine has ended

	mu     sync.RWMutex // held for writing to close the queue, for reading to send
	closed bool

	// The rest belongs to the goroutine.
	session *session     // nil after an error from which the next write starts anew
	commits atomic.Int64 // transactions that were committed, each with one sync to disk; tests read it
}

// start makes sure that the ledger can be written, and starts the goroutine.
func (w *writer) start() error {
	if err := w.begin(); err != nil {
		return err
	}
	// In a file that may only be read, SQLite begins to write and fails later.
	err := w.session.exec("UPDATE meta SET since = since")
	if w.abandon(); err != nil {
		w.drop()
		return err
	}
	w.queue = make(chan *writing, maxGroup)
	w.stopped = make(chan struct{})
	go w.run()
	return nil
}

// write has apply run and committed, and returns what it came to. When ctx ends
// before the writer has begun, nothing is written.
func (w *writer) write(ctx context.Context, apply func(*session) (outcome, error)) error {
	o := &writing{apply: apply, answered: make(chan error, 1)}
	if err := w.send(ctx, o); err != nil {
		return err
	}
	select {
	case err := <-o.answered:
		return err
	case <-ctx.Done():
		if o.taken.CompareAndSwap(false, true) {
			return ctx.Err()
		}
		return <-o.answered
	}
}

func (w *writer) send(ctx context.Context, o *writing) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.closed {
		return ErrClosed
	}
	select {
	case w.queue <- o:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stop finishes what was sent, writes the tallies, and ends the goroutine.
func (w *writer) stop() {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.queue)
	}
	w.mu.Unlock()
	<-w.stopped
}

func (w *writer) run() {
	defer close(w.stopped)
	var rested <-chan time.Time // nil while no count rests
	for {
		select {
		case first, ok := <-w.queue:
			if !ok {
				w.flush()
				w.drop()
				return
			}
			w.settle(w.gather(first), true)
		case <-w.tallies.waiting:
			if rested == nil {
				rested = time.After(maxTallyRest)
			}
		case <-rested:
			rested = nil
			w.flush()
		}
	}
}

// gather takes what waits, once the goroutines that can run have had a turn: on a
// busy machine many are about to write, and on an idle one it costs nothing.
func (w *writer) gather(first *writing) []*writing {
	group := take(nil, first)
	runtime.Gosched()
	for len(group) < maxGroup && len(w.queue) > 0 {
		group = take(group, <-w.queue) // nobody else receives
	}
	return group
}

// take adds a write to a group, unless its caller has given up.
func take(group []*writing, o *writing) []*writing {
	if o.taken.CompareAndSwap(false, true) {
		return append(group, o)
	}
	return group
}

// settle runs a group in one transaction and answers its callers. When one of
// its writes cannot be run, each gets a transaction of its own, so that none
// fails for another's reason.
func (w *writer) settle(group []*writing, withTallies bool) {
	if len(group) == 0 {
		return // all have given up
	}
	again, err := w.transact(group, withTallies)
	if again {
		for _, o := range group {
			w.settle([]*writing{o}, false)
		}
		return
	}
	for _, o := range group {
		o.answer(err)
	}
}

func (o *writing) answer(err error) {
	switch {
	case err == nil:
		err = o.outcome.err
	case errors.Is(err, dedup.ErrAmbiguous) && !o.outcome.writes():
		// What was read stood beside writes that may not have happened.
		err = fmt.Errorf("read beside a failed write: %v", err)
	}
	o.answered <- err
}

// transact runs a group in one transaction. again means that nothing was written,
// for a reason that need not concern each of the group.
func (w *writer) transact(group []*writing, withTallies bool) (again bool, err error) {
	if err := w.begin(); err != nil {
		return false, err
	}
	var wrote []dedup.OperationID
	writes := false
	for _, o := range group {
		if o.outcome, err = o.apply(w.session); err != nil {
			w.abandon()
			return len(group) > 1, err
		}
		if !o.outcome.wrote.IsZero() {
			wrote = append(wrote, o.outcome.wrote)
		}
		writes = writes || o.outcome.writes()
	}
	if !writes {
		w.abandon()
		return false, nil
	}
	if withTallies {
		counts := w.tallies.take()
		if err := w.session.tally(counts); err != nil {
			w.tallies.giveBack(counts)
			w.abandon()
			return true, err
		}
	}
	if err := w.commit(); err != nil {
		return false, err
	}
	w.watch.wake(wrote)
	return false, nil
}

// flush writes the tallies alone. When that fails they wait for the next commit.
func (w *writer) flush() {
	counts := w.tallies.take()
	if counts.empty() {
		return
	}
	if w.begin() != nil {
		w.tallies.giveBack(counts)
		return
	}
	if err := w.session.tally(counts); err != nil {
		w.abandon()
		w.tallies.giveBack(counts)
		return
	}
	_ = w.commit() // a count may be lost, and is not written twice
}

// begin starts a transaction. When it fails, nothing was written.
func (w *writer) begin() (err error) {
	if w.session == nil {
		if w.session, err = newSession(w.at, w.dsn); err != nil {
			w.session = nil
			return err
		}
	}
	if err := w.session.start(); err != nil {
		w.drop()
		return err
	}
	return nil
}

// abandon ends a transaction of which nothing shall remain. After some errors
// SQLite has ended it already; then the connection is given up too, so that
// nothing can run outside a transaction.
func (w *writer) abandon() {
	if w.session.undo() != nil {
		w.drop()
	}
}

// commit makes the transaction durable. Its error is dedup.ErrAmbiguous unless
// it is certain that nothing was written.
func (w *writer) commit() error {
	if err := w.at.check(); err != nil {
		w.abandon()
		return err
	}
	err := w.session.commit()
	if err == nil {
		w.commits.Add(1)
		return nil
	}
	if w.session.undo() == nil {
		return err // the transaction still stood, and is rolled back now
	}
	w.drop()
	return fmt.Errorf("%w: %w", dedup.ErrAmbiguous, err)
}

func (w *writer) drop() {
	if w.session != nil {
		_ = w.session.conn.close() // whatever state it is in
		w.session = nil
	}
}
