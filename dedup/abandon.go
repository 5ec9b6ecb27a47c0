package dedup

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrNotRunning is returned by Abandon for an operation in any other state.
var ErrNotRunning = errors.New("only an operation whose state is running can be abandoned")

// ErrOwnerLives is returned by Abandon while the process that runs the operation lives.
var ErrOwnerLives = errors.New("the process that runs it lives, if perhaps stopped")

// Abandon moves a running operation whose owner's machine is gone to unknown, on a
// person's word (row 20), and returns how it stands then. It is for owners whose life
// cannot be told: the operations of those that are seen to be dead become unknown by
// themselves, and who is seen to live is not abandoned, since its call may be executed
// at any moment and its answer is still to come.
func (l *Ledger) Abandon(ctx context.Context, id OperationID, by, note string) (Entry, error) {
	if by == "" || note == "" {
		return Entry{}, errors.New("to abandon an operation needs the name of who does and a note on what grounds")
	}
	seen, err := l.store.Get(ctx, id)
	if err != nil {
		return Entry{}, err
	}
	if alive, err := l.store.Alive(seen.Owner); alive && err == nil && seen.State == Running {
		return seen, ErrOwnerLives
	}
	var abandoned Entry
	var refused error
	err = l.store.Move(ctx, id, func(e Entry, now time.Time) (change Change, _ bool) {
		if e.State == Running && attemptOf(e) != attemptOf(seen) { // of another owner, perhaps
			refused = errors.New("another attempt has begun meanwhile")
			return Change{}, false
		}
		if change, refused = move(e, Abandoned, now); refused != nil {
			refused = fmt.Errorf("%w; this one is %s", ErrNotRunning, e.State)
			return Change{}, false
		}
		change.Entry.Reason = ReasonOwnerDied
		change.Event.Actor, change.Event.Note = by, note
		abandoned = change.Entry
		return change, true
	})
	if err == nil {
		err = refused
	}
	return abandoned, err
}
