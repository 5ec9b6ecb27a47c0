package dedup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"
)

// A settlement is what is known of the effect of one attempt, on its way into
// the store.
type settlement struct {
	claimed  Entry // the attempt, as it was claimed or stranded
	evidence Evidence
	note     string       // for the history
	apply    func(*Entry) // puts what is known into the entry
	asked    *Question    // what the upstream asks for, if it does
	// downstream is Request.Downstream of the sending; it stands with the question.
	downstream string
	// tried is how the operation stands if a move that could not be written was
	// written all the same. Zero: there was none.
	tried Entry
}

// settle moves an operation on what is known of one attempt's effect. Where the
// store cannot be written, the settlement is kept and tried again; the entry
// returned then says how the operation would stand.
func (l *Ledger) settle(s settlement) (Entry, error) {
	a := attemptOf(s.claimed)
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	var change Change
	var contradiction string
	err := l.store.Move(ctx, a.id, func(e Entry, now time.Time) (_ Change, wanted bool) {
		change, contradiction, wanted = s.change(e, now)
		return change, wanted
	})
	if err != nil {
		if change.Entry.ID.IsZero() { // the store did not ask
			change, _, _ = s.change(s.claimed, s.claimed.ClaimedAt)
		}
		if change.Event.Row != RowContradicted {
			s.tried = change.Entry
		}
		l.keepUnwritten(s, err)
		return change.Entry, err
	}
	settled := change.Entry
	if attemptOf(settled) != a || !settled.Open() { // else its answer is still listened for
		l.release(a)
	}
	if contradiction != "" {
		l.alarm(a.id, contradiction, nil)
	}
	return settled, nil
}

// change is what evidence about one attempt makes of an entry. An attempt that a
// newer one has superseded, or an operation that others have settled since, stays
// as it is, and what was heard against it goes on record.
func (s settlement) change(e Entry, now time.Time) (c Change, contradiction string, wanted bool) {
	if s.written(e) {
		return Change{Entry: e}, "", false
	}
	if attemptOf(e) != attemptOf(s.claimed) {
		return s.against(e, "answer of a superseded attempt", "an attempt was answered after a newer one had begun")
	}
	c, err := move(e, s.evidence, now)
	if err != nil {
		if e.State == Unknown { // nothing new is known, and no other answer will come
			e.OpenUntil = time.Time{}
			return s.stays(e, "no evidence of the effect"), "", true
		}
		return s.against(e, "answer after the operation was settled", fmt.Sprintf("an answer came although the operation was settled as %s", e.State))
	}
	s.apply(&c.Entry)
	c.Event.Note = s.note
	switch c.Entry.State {
	case Completed:
		c.Keep = c.Entry.Kept == KeptWhole
	case AwaitingInput:
		c.Entry.Reason = ReasonInputRequired
		if s.asked != nil {
			s.asked.record(&c, s.downstream, now)
		}
	default: // an error about an attempt in doubt is no answer of the operation
		c.Entry.IsError, c.Entry.Kept, c.Entry.Result = false, KeptNone, nil
		if c.Entry.Reason == ReasonUpstreamError {
			c.Entry.Reason = ReasonAmbiguousError
		}
	}
	if c.Event.Row == 18 {
		return c, "the evidence that nothing was executed was wrong: the upstream has answered", true
	}
	return c, "", true
}

// written reports whether an entry stands as an earlier try has left it, although
// the store could not say so; or has been continued since, which it could only from
// there.
func (s settlement) written(e Entry) bool {
	if s.tried.State == AwaitingInput && e.Attempt == s.tried.Attempt && e.Round > s.tried.Round {
		return true
	}
	return attemptOf(e) == attemptOf(s.tried) && e.State == s.tried.State && e.Row == s.tried.Row
}

// against leaves an entry as it is. Where the upstream was heard, that contradicts
// how the entry stands: silence, and a call that never left, contradict nothing.
func (s settlement) against(e Entry, note, contradiction string) (Change, string, bool) {
	if s.evidence == NoAnswer || s.evidence == ProvenUnsent {
		return Change{Entry: e}, "", false
	}
	return s.stays(e, note), contradiction, true
}

func (s settlement) stays(e Entry, note string) Change {
	return Change{Entry: e, Event: Event{Row: RowContradicted, Attempt: s.claimed.Attempt, State: e.State, Note: note}}
}

// closeAttempt notes that no answer of an attempt can arrive any more.
func (l *Ledger) closeAttempt(claimed Entry, note string) error {
	a := attemptOf(claimed)
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	err := l.store.Move(ctx, a.id, func(e Entry, _ time.Time) (Change, bool) {
		if attemptOf(e) != a || !e.Open() {
			return Change{}, false
		}
		e.OpenUntil = time.Time{}
		return Change{Entry: e, Event: Event{Row: e.Row, Attempt: e.Attempt, State: e.State, Note: note}}, true
	})
	l.release(a) // should the write have failed, the sweep closes it
	return err
}

// keepUnwritten remembers a settlement that could not be written.
func (l *Ledger) keepUnwritten(s settlement, err error) {
	l.alarm(s.claimed.ID, "an answer could not be written to the ledger; trying again", err)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unwritten[attemptOf(s.claimed)] = s
}

// writeUnwritten tries once more to write what could not be written. It gives up
// at the first failure: where a store is locked, every other try would wait for as
// long. It goes in no order, so that no settlement keeps the others from it for
// ever. Only one goroutine does it at a time.
func (l *Ledger) writeUnwritten() {
	l.mu.Lock()
	todo := maps.Clone(l.unwritten)
	l.mu.Unlock()
	for a, s := range todo {
		if _, err := l.settle(s); err != nil {
			return
		}
		l.written(a)
		l.alarm(a.id, "the answer is written now", nil)
	}
}

// written forgets a settlement that could not be written before. Nobody listens to
// its attempt any more, whatever was to stay open.
func (l *Ledger) written(a attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.unwritten, a)
	delete(l.held, a)
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
		l.alarmUnswept(l.sweep(ctx))
		cancel()
	}
}

func (l *Ledger) alarmUnswept(err error) {
	if err != nil {
		l.alarm(OperationID{}, "the ledger could not be swept; trying again", err)
	}
}

// sweep mends what is unsettled, and drops what is no longer replayed.
func (l *Ledger) sweep(ctx context.Context) error {
	unsettled, err := l.store.Unsettled(ctx)
	if err != nil {
		return err
	}
	return errors.Join(l.mend(ctx, unsettled), l.dropOverdue(ctx))
}

// mend settles operations that nobody runs any more (row 9) or has continued in time
// (row 15), and closes attempts to which nobody listens.
func (l *Ledger) mend(ctx context.Context, entries []Entry) error {
	var failed []error // one operation that cannot be swept keeps no other from it
	for _, e := range entries {
		_, err := l.sweepEntry(ctx, e)
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// sweepDead settles the operation of a Busy verdict whose owner is dead, or of an
// Asked one that nobody has continued in time, and reports whether it stands
// differently now.
func (l *Ledger) sweepDead(ctx context.Context, v Verdict) bool {
	var met Entry // the zero entry is not swept
	switch v := v.(type) {
	case Busy:
		met = v.Entry
	case Asked:
		met = v.Entry
	}
	moved, err := l.sweepEntry(ctx, met)
	return moved && err == nil
}

func (l *Ledger) sweepEntry(ctx context.Context, e Entry) (moved bool, err error) {
	if runs, err := l.runs(e); runs || err != nil {
		return false, err
	}
	if e.Open() {
		return true, l.closeAttempt(e, "its owner is gone")
	}
	err = l.store.Move(ctx, e.ID, func(now Entry, at time.Time) (change Change, _ bool) {
		change, moved = l.sweptTo(e, now, at)
		return change, moved
	})
	if errors.Is(err, ErrNotFound) { // it never was, or is no more
		err = nil
	}
	if err == nil {
		l.forgetUnsent(attemptOf(e))
	}
	return moved, err
}

// sweptTo is what a sweep makes of an entry that it has seen as nobody's.
func (l *Ledger) sweptTo(seen, e Entry, now time.Time) (Change, bool) {
	if attemptOf(e) != attemptOf(seen) {
		return Change{}, false
	}
	evidence, reason := OwnerDead, ReasonOwnerDied
	switch {
	case e.Unanswered(now):
		evidence, reason = InputExpired, ReasonInputExpired
	case l.isUnsent(attemptOf(e)):
		evidence, reason = ProvenUnsent, ReasonUnreachable
	}
	change, err := move(e, evidence, now)
	if change.Entry.Reason = reason; change.Entry.State == AwaitingInput {
		change.Entry.Reason = ReasonInputRequired
	}
	return change, err == nil
}

// runs reports whether somebody runs an entry's newest attempt, or listens to it.
func (l *Ledger) runs(e Entry) (bool, error) {
	switch {
	case e.State == AwaitingInput:
		return false, nil // the store's clock says whether that may go on
	case e.State != Running && !e.Open():
		return true, nil // nothing to sweep
	}
	if e.Owner != l.info.Owner {
		return l.store.Alive(e.Owner)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, held := l.held[attemptOf(e)]
	return held, nil
}

// isUnsent reports whether this process made the claim, could not tell whether it
// was committed, and so did not send the call.
func (l *Ledger) isUnsent(a attempt) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unsent[a]
}

func (l *Ledger) forgetUnsent(a attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.unsent, a)
}
