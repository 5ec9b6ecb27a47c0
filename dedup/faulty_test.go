package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// A fault is what happens to an operation of a store.
type fault string

const (
	refused  fault = "refused, and not written"
	lost     fault = "in doubt, and not written"
	obscured fault = "in doubt, but written"
)

var (
	faults      = []fault{refused, lost, obscured}
	errInjected = errors.New("injected")
)

func (f fault) err() error {
	if f == refused {
		return errInjected
	}
	return fmt.Errorf("%w: %w", dedup.ErrAmbiguous, errInjected)
}

// A faulty store fails one of its operations. Its fields are set while nobody
// uses it.
type faulty struct {
	dedup.Store
	fault  fault
	moves  bool                              // count moves only
	in     atomic.Int64                      // the operations until the fault; 0: there is none
	before func()                            // called once, when the next move is about to be written
	after  func()                            // called once, when the next move is written and has not returned
	seen   func([]dedup.Entry) []dedup.Entry // changes what Unsettled returns
	late   func([]dedup.Entry) []dedup.Entry // changes what Overdue returns

	locked atomic.Bool  // every write is refused
	tried  atomic.Int64 // the writes so far

	doubted dedup.OwnerID // whose life cannot be told
	cause   error
}

// failNext lets the next operation fail.
func (f *faulty) failNext(how fault) {
	f.fault = how
	f.in.Store(1)
}

// strike reports whether this operation is the one that fails.
func (f *faulty) strike(move bool) bool {
	return (move || !f.moves) && f.in.Load() > 0 && f.in.Add(-1) == 0
}

func (f *faulty) write(move bool, do func() error) error {
	f.tried.Add(1)
	if f.locked.Load() {
		return errInjected
	}
	if !f.strike(move) {
		return do()
	}
	if f.fault == obscured {
		_ = do() // whatever came of it cannot be told
	}
	return f.fault.err()
}

func (f *faulty) Claim(ctx context.Context, q dedup.Query, decide func(dedup.Surroundings) (dedup.Change, bool)) error {
	return f.write(false, func() error { return f.Store.Claim(ctx, q, decide) })
}

func (f *faulty) Move(ctx context.Context, id dedup.OperationID, decide func(dedup.Entry, time.Time) (dedup.Change, bool)) error {
	if before := f.before; before != nil {
		f.before = nil
		before()
	}
	err := f.write(true, func() error { return f.Store.Move(ctx, id, decide) })
	if after := f.after; after != nil {
		f.after = nil
		after()
	}
	return err
}

func (f *faulty) Find(ctx context.Context, q dedup.Query) (dedup.Surroundings, error) {
	if f.strike(false) {
		return dedup.Surroundings{}, errInjected
	}
	return f.Store.Find(ctx, q)
}

func (f *faulty) Unsettled(ctx context.Context) ([]dedup.Entry, error) {
	if f.strike(false) {
		return nil, errInjected
	}
	entries, err := f.Store.Unsettled(ctx)
	if f.seen != nil {
		entries = f.seen(entries)
	}
	return entries, err
}

func (f *faulty) Overdue(ctx context.Context, limit int) ([]dedup.Entry, error) {
	if f.strike(false) {
		return nil, errInjected
	}
	entries, err := f.Store.Overdue(ctx, limit)
	if f.late != nil {
		entries = f.late(entries)
	}
	return entries, err
}

func (f *faulty) Alive(owner dedup.OwnerID) (bool, error) {
	if f.strike(false) {
		return false, errInjected
	}
	if owner == f.doubted {
		return false, f.cause
	}
	return f.Store.Alive(owner)
}
