package dedup

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Resolution is a person's word on an operation that is unknown.
type Resolution struct {
	Executed bool   // it executed; else it did not
	Result   []byte // if executed: the result to replay; may be nil
	By       string // who says so
	Note     string // on what grounds
	Force    bool   // resolve as not executed although the answer may still arrive
}

// ErrNotUnknown is returned by Resolve for an operation in any other state.
var ErrNotUnknown = errors.New("only an operation whose state is unknown can be resolved")

// ErrStillOpen is returned by Resolve for "not executed" while the answer may
// still arrive.
var ErrStillOpen = errors.New("its answer may still arrive")

// Resolve settles an unknown operation on a person's word (row 15), and returns
// how it stands then.
func (l *Ledger) Resolve(ctx context.Context, id OperationID, r Resolution) (Entry, error) {
	if r.By == "" || r.Note == "" {
		return Entry{}, errors.New("a resolution needs the name of who resolves and a note on what grounds")
	}
	if len(r.Result) > MaxResultBytes {
		return Entry{}, fmt.Errorf("the result has %d bytes; %d are kept", len(r.Result), MaxResultBytes)
	}
	var resolved Entry
	var refused error
	err := l.store.Move(ctx, id, func(e Entry, now time.Time) (Change, bool) {
		var change Change
		change, refused = r.change(e, now)
		resolved = change.Entry
		return change, refused == nil
	})
	if err == nil {
		err = refused
	}
	return resolved, err
}

func (r Resolution) change(e Entry, now time.Time) (Change, error) {
	if e.State != Unknown {
		return Change{}, fmt.Errorf("%w; this one is %s", ErrNotUnknown, e.State)
	}
	evidence, reason := PersonExecuted, ReasonResolvedExecuted
	if !r.Executed {
		evidence, reason = PersonNotExecuted, ReasonResolvedNotExecuted
		if e.Open() && !r.Force {
			return Change{}, ErrStillOpen
		}
		e.OpenUntil = time.Time{}
	}
	change, err := move(e, evidence, now)
	if err != nil {
		return Change{}, err
	}
	change.Entry.Reason = reason
	if r.Executed && r.Result != nil {
		change.Entry.Kept, change.Entry.Result, change.Keep = KeptWhole, r.Result, true
	}
	change.Event.Actor, change.Event.Note = r.By, r.Note
	return change, nil
}
