package dedup

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// settle moves an operation on what is known of one attempt's effect. Where the
// store cannot be written, the settlement is kept and tried again; the entry
// returned then says how the operation would stand.
func (l *Ledger) settle(claimed Entry, evidence Evidence, apply func(*Entry) (keep bool, note string)) (Entry, error) {
	a := attemptOf(claimed)
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	var settled Entry
	var contradiction string
	err := l.store.Move(ctx, a.id, func(e Entry, now time.Time) (Change, bool) {
		var change Change
		change, contradiction = settlement(e, a, evidence, now, apply)
		settled = change.Entry
		return change, true
	})
	if err != nil {
		l.keepUnwritten(claimed, evidence, apply, err)
		if settled.ID.IsZero() {
			change, _ := settlement(claimed, a, evidence, claimed.ClaimedAt, apply)
			settled = change.Entry
		}
		return settled, err
	}
	l.release(a)
	if contradiction != "" {
		l.alarm(a.id, contradiction, nil)
	}
	return settled, nil
}

// settlement is the change that evidence about one attempt makes. An attempt that
// a newer one has superseded, or an operation that others have settled since,
// stays as it is, and the contradiction goes on record.
func settlement(e Entry, a attempt, evidence Evidence, now time.Time, apply func(*Entry) (bool, string)) (Change, string) {
	stays := func(note string) Change {
		return Change{Entry: e, Event: Event{Row: RowContradicted, Attempt: a.number, State: e.State, Note: note}}
	}
	if e.Attempt != a.number {
		return stays("answer of a superseded attempt"), "an attempt was answered after a newer one had begun"
	}
	change, err := move(e, evidence, now)
	if err != nil {
		if e.State == Unknown { // nothing new is known, and no other answer will come
			e.OpenUntil = time.Time{}
			return stays("no evidence of the effect"), ""
		}
		return stays("answer after the operation was settled"), fmt.Sprintf("an answer came although the operation was settled as %s", e.State)
	}
	change.Keep, change.Event.Note = apply(&change.Entry)
	if change.Entry.State != Completed { // an error about an attempt in doubt is no answer of the operation
		change.Entry.IsError, change.Entry.Kept, change.Keep = false, KeptNone, false
		if change.Entry.Reason == ReasonUpstreamError {
			change.Entry.Reason = ReasonAmbiguousError
		}
	}
	if change.Event.Row == 18 {
		return change, "the evidence that nothing was executed was wrong: the upstream has answered"
	}
	return change, ""
}

// closeAttempt notes that no answer of an attempt can arrive any more.
func (l *Ledger) closeAttempt(claimed Entry, note string) error {
	a := attemptOf(claimed)
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	err := l.store.Move(ctx, a.id, func(e Entry, _ time.Time) (Change, bool) {
		if e.Attempt != a.number || !e.Open() {
			return Change{}, false
		}
		e.OpenUntil = time.Time{}
		return Change{Entry: e, Event: Event{Row: e.Row, Attempt: e.Attempt, State: e.State, Note: note}}, true
	})
	l.release(a) // should the write have failed, the sweep closes it
	return err
}

// keepUnwritten remembers a settlement that could not be written.
func (l *Ledger) keepUnwritten(claimed Entry, evidence Evidence, apply func(*Entry) (bool, string), err error) {
	l.alarm(claimed.ID, "an answer could not be written to the ledger; trying again", err)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unwritten[attemptOf(claimed)] = func() {
		if _, err := l.settle(claimed, evidence, apply); err == nil {
			l.alarm(claimed.ID, "the answer is written now", nil)
		}
	}
}

// writeUnwritten tries once more to write what could not be written.
func (l *Ledger) writeUnwritten() {
	l.mu.Lock()
	todo := l.unwritten
	l.unwritten = map[attempt]func(){}
	l.mu.Unlock()
	for _, write := range todo {
		write()
	}
}

func (l *Ledger) alarm(id OperationID, problem string, err error) {
	if l.options.Alarm != nil {
		l.options.Alarm(Alarm{Operation: id, Problem: problem, Err: err})
	}
}

// sweepUntilClosed mends what processes have left behind, again and again.
func (l *Ledger) sweepUntilClosed() {
	defer close(l.done)
	ticker := time.NewTicker(l.options.SweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-ticker.C:
		}
		l.writeUnwritten()
		ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
		if err := l.sweep(ctx); err != nil {
			l.alarm(OperationID{}, "the ledger could not be swept; trying again", err)
		}
		cancel()
	}
}

// sweep settles operations that nobody runs any more (row 9), and closes attempts
// to which nobody listens.
func (l *Ledger) sweep(ctx context.Context) error {
	entries, err := l.store.Unsettled(ctx)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if _, err := l.sweepEntry(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// sweepDead settles the operation of a Busy verdict whose owner is dead, and
// reports whether it stands differently now.
func (l *Ledger) sweepDead(ctx context.Context, v Verdict) bool {
	busy, ok := v.(Busy)
	if !ok {
		return false
	}
	moved, err := l.sweepEntry(ctx, busy.Entry)
	return moved && err == nil
}

func (l *Ledger) sweepEntry(ctx context.Context, e Entry) (moved bool, err error) {
	if runs, err := l.runs(e); runs || err != nil {
		return false, err
	}
	if e.Open() {
		return true, l.closeAttempt(e, "its owner is gone")
	}
	evidence, reason := OwnerDead, ReasonOwnerDied
	if l.isUnsent(attemptOf(e)) {
		evidence, reason = ProvenUnsent, ReasonUnreachable
	}
	err = l.store.Move(ctx, e.ID, func(now Entry, at time.Time) (Change, bool) {
		if now.State != Running || now.Attempt != e.Attempt || now.Owner != e.Owner {
			return Change{}, false
		}
		change, err := move(now, evidence, at)
		change.Entry.Reason = reason
		moved = err == nil
		return change, moved
	})
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return moved, err
}

// runs reports whether somebody runs an entry's newest attempt, or listens to it.
func (l *Ledger) runs(e Entry) (bool, error) {
	if e.State != Running && !e.Open() {
		return true, nil // nothing to sweep
	}
	if e.Owner != l.info.Owner {
		return l.store.Alive(e.Owner)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[attemptOf(e)], nil
}

// isUnsent reports whether this process made the claim, could not tell whether it
// was committed, and so did not send the call.
func (l *Ledger) isUnsent(a attempt) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unsent[a]
}
