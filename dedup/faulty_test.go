package dedup_test

import (
	"context"
	"errors"
	"fmt"
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

// A faulty store fails one of its operations. It is used by one goroutine.
type faulty struct {
	dedup.Store
	fault fault
	in    int    // the operations until the fault; 0: there is none
	after func() // called once, when the next move is written and has not returned

	doubted dedup.OwnerID // whose life cannot be told
	cause   error
}

// failNext lets the next operation fail.
func (f *faulty) failNext(how fault) { f.fault, f.in = how, 1 }

// strike reports whether this operation is the one that fails.
func (f *faulty) strike() bool {
	if f.in == 0 {
		return false
	}
	f.in--
	return f.in == 0
}

func (f *faulty) write(do func() error) error {
	if !f.strike() {
		return do()
	}
	if f.fault == obscured {
		_ = do() // whatever came of it cannot be told
	}
	return f.fault.err()
}

func (f *faulty) Claim(ctx context.Context, q dedup.Query, decide func(dedup.Surroundings) (dedup.Change, bool)) error {
	return f.write(func() error { return f.Store.Claim(ctx, q, decide) })
}

func (f *faulty) Move(ctx context.Context, id dedup.OperationID, decide func(dedup.Entry, time.Time) (dedup.Change, bool)) error {
	err := f.write(func() error { return f.Store.Move(ctx, id, decide) })
	if after := f.after; after != nil {
		f.after = nil
		after()
	}
	return err
}

func (f *faulty) Find(ctx context.Context, q dedup.Query) (dedup.Surroundings, error) {
	if f.strike() {
		return dedup.Surroundings{}, errInjected
	}
	return f.Store.Find(ctx, q)
}

func (f *faulty) Unsettled(ctx context.Context) ([]dedup.Entry, error) {
	if f.strike() {
		return nil, errInjected
	}
	return f.Store.Unsettled(ctx)
}

func (f *faulty) Alive(owner dedup.OwnerID) (bool, error) {
	if f.strike() {
		return false, errInjected
	}
	if owner == f.doubted {
		return false, f.cause
	}
	return f.Store.Alive(owner)
}
