package dedup

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// Pruned is what Prune has dropped; after a dry run, what it would have.
type Pruned struct {
	Answers     int   // recorded answers whose window had passed
	AnswerBytes int64 // their size
	Released    int   // released operations whose window had passed
	FreedBytes  int64 // disk space that was given back; after a dry run 0
}

// Prune drops what is kept and no longer given to anybody: answers past their window,
// whose operations stay, so that their keys remain used; and, past their window too,
// operations that evidence has released, whose keys are free with them and without. What
// a person or a check has released stays: its answer may still come, and then somebody
// must be told that they were wrong.
//
// It works in small commits, and rests between them for as long as each took, so that
// gateways can write. It may run beside other prunes, and be ended at any moment. With
// dryRun it only counts.
func (l *Ledger) Prune(ctx context.Context, dryRun bool) (Pruned, error) {
	p := pruning{ledger: l, dryRun: dryRun}
	var batch []Record
	for r, err := range l.store.Records(ctx, RecordFilter{Spent: true, Events: true}) {
		if err != nil {
			return p.pruned(), err
		}
		if batch = append(batch, r); len(batch) < droppedAtOnce {
			continue
		}
		if err := p.all(ctx, batch); err != nil {
			return p.pruned(), err
		}
		batch = batch[:0]
	}
	if err := p.all(ctx, batch); err != nil || dryRun {
		return p.pruned(), err
	}
	return p.pruned(), p.shrink(ctx)
}

// A pruning is a Prune under way.
type pruning struct {
	ledger                                *Ledger
	dryRun                                bool
	answers, answerBytes, released, freed atomic.Int64
}

func (p *pruning) pruned() Pruned {
	return Pruned{Answers: int(p.answers.Load()), AnswerBytes: p.answerBytes.Load(), Released: int(p.released.Load()), FreedBytes: p.freed.Load()}
}

// all prunes records at once, which then share commits, and rests.
func (p *pruning) all(ctx context.Context, batch []Record) error {
	if p.dryRun {
		for _, r := range batch {
			p.count(r)
		}
		return nil
	}
	return resting(ctx, func() error {
		var drops errgroup.Group
		for _, r := range batch {
			drops.Go(func() error { return p.one(ctx, r) })
		}
		return drops.Wait()
	})
}

// one prunes a record, unless it stands differently by now.
func (p *pruning) one(ctx context.Context, r Record) (err error) {
	dropped := false
	switch {
	case r.Entry.State != Released:
		err = p.ledger.store.Move(ctx, r.Entry.ID, func(e Entry, now time.Time) (c Change, _ bool) {
			c, dropped = drop(e, now)
			return c, dropped
		})
	case isJudged(r):
		return nil
	default:
		err = p.ledger.store.Remove(ctx, r.Entry.ID, func(e Entry, now time.Time) bool {
			dropped = attemptOf(e) == attemptOf(r.Entry) && e.Row == r.Entry.Row && Record{Entry: e, Now: now}.Spent()
			return dropped
		})
	}
	if errors.Is(err, ErrNotFound) { // another prune was faster
		return nil
	}
	if err == nil && dropped {
		p.count(r)
	}
	return err
}

func (p *pruning) count(r Record) {
	switch {
	case r.Entry.State != Released:
		p.answers.Add(1)
		p.answerBytes.Add(int64(r.ResultBytes))
	case !isJudged(r):
		p.released.Add(1)
	}
}

// isJudged reports whether a person or a check has ever released the operation (rows 14
// and 15).
func isJudged(r Record) bool {
	return slices.ContainsFunc(r.Events, func(e Event) bool { return e.State == Released && (e.Row == 14 || e.Row == 15) })
}

// shrink gives back what disk space is free now.
func (p *pruning) shrink(ctx context.Context) error {
	for more := true; more; {
		if err := resting(ctx, func() (err error) {
			var bytes int64
			bytes, more, err = p.ledger.store.Shrink(ctx)
			p.freed.Add(bytes)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// resting does something, and leaves the store to others for as long as it took.
func resting(ctx context.Context, do func() error) error {
	begun := time.Now()
	if err := do(); err != nil {
		return err
	}
	rest := time.NewTimer(time.Since(begun))
	defer rest.Stop()
	select {
	case <-rest.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
