package dedup

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
)

// Limits of the dropping of answers, which is never urgent.
const (
	maxDropped    = 256 // answers in one sweep
	droppedAtOnce = 32  // those of them that may share a commit
)

// dropOverdue drops recorded answers whose window has passed. It gives up at the
// first failure, for the same reason as writeUnwritten.
func (l *Ledger) dropOverdue(ctx context.Context) error {
	overdue, err := l.store.Overdue(ctx, maxDropped)
	if err != nil {
		return err
	}
	drops, ctx := errgroup.WithContext(ctx)
	drops.SetLimit(droppedAtOnce)
	for _, e := range overdue {
		drops.Go(func() error {
			err := l.store.Move(ctx, e.ID, drop)
			if errors.Is(err, ErrNotFound) {
				return nil
			}
			return err
		})
	}
	return drops.Wait()
}

// drop takes an answer out of an entry. The operation stays: its key remains
// used, and its history says how it ended.
func drop(e Entry, now time.Time) (Change, bool) {
	if !e.Overdue(now) { // another process was faster, or its clock was ahead
		return Change{}, false
	}
	e.Kept, e.Result = KeptDropped, nil
	return Change{Entry: e, Event: Event{Row: e.Row, Attempt: e.Attempt, State: e.State, Note: "window passed"}, Keep: true}, true
}
