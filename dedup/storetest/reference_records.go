package storetest

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/mcp-idem/mcp-idem/dedup"
)

func (s *referenceStore) Records(_ context.Context, f dedup.RecordFilter) iter.Seq2[dedup.Record, error] {
	return func(yield func(dedup.Record, error) bool) {
		for _, r := range s.records(f) {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func (r *Reference) records(f dedup.RecordFilter) (records []dedup.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	for _, e := range r.ops {
		record := dedup.Record{Entry: withoutResult(e), ResultBytes: len(e.Result), Now: now}
		if f.Results && !e.Overdue(now) {
			record.Entry.Result = slices.Clone(e.Result)
		}
		if f.Events {
			record.Events = slices.Clone(r.events[e.ID])
		}
		if (!f.Spent || record.Spent()) && (f.Since <= 0 || now.Sub(e.ClaimedAt) < f.Since) {
			records = append(records, record)
		}
	}
	slices.SortFunc(records, func(a, b dedup.Record) int { return cmp.Compare(r.order[a.Entry.ID], r.order[b.Entry.ID]) })
	return records
}

func (s *referenceStore) Remove(ctx context.Context, id dedup.OperationID, decide func(dedup.Entry, time.Time) bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.ops[id]
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case !ok:
		return dedup.ErrNotFound
	case !decide(withoutResult(e), s.now()):
		return nil
	case e.State != dedup.Released:
		return fmt.Errorf("only a released operation is deleted; this one is %s", e.State)
	}
	delete(s.ops, id)
	delete(s.events, id)
	delete(s.rounds, id)
	close(s.changed)
	s.changed = make(chan struct{})
	return nil
}

// Shrink has nothing to give back.
func (s *referenceStore) Shrink(context.Context) (int64, bool, error) { return 0, false, nil }

func (s *referenceStore) Rename(ctx context.Context, renames []dedup.Rename) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for _, rename := range renames {
		if !slices.ContainsFunc(s.renames, func(r dedup.Rename) bool { return r.From == rename.From && r.To == rename.To }) {
			rename.At = s.now()
			s.Reference.renames = append(s.Reference.renames, rename)
		}
	}
	return nil
}

func (s *referenceStore) Renames(context.Context) ([]dedup.Rename, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.renames), nil
}
