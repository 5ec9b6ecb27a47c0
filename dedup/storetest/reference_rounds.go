package storetest

import (
	"cmp"
	"context"
	"slices"

	"github.com/mcp-idem/mcp-idem/dedup"
)

func (r *Reference) writeRounds(old dedup.Entry, c dedup.Change) {
	e := c.Entry
	if e.Attempt > old.Attempt && e.Row == 1 {
		delete(r.rounds, e.ID)
	}
	rounds := slices.Clone(r.rounds[e.ID])
	if c.Round != nil {
		at := slices.IndexFunc(rounds, func(known dedup.Round) bool { return known.Number == c.Round.Number })
		if at < 0 {
			rounds = append(rounds, *c.Round)
		} else {
			rounds[at].Answers = c.Round.Answers
		}
	}
	for i := range rounds {
		if !e.KeepsQuestions() {
			rounds[i].Question = nil
		}
	}
	if len(rounds) > 0 {
		r.rounds[e.ID] = rounds
	}
}

func (s *referenceStore) TaskOf(_ context.Context, task dedup.Digest) (dedup.OperationID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var newest dedup.Entry
	for _, e := range s.ops {
		if e.Task == task && task != (dedup.Digest{}) && (newest.ID.IsZero() || cmp.Or(e.SettledAt.Compare(newest.SettledAt), slices.Compare(e.ID[:], newest.ID[:])) > 0) {
			newest = e
		}
	}
	if newest.ID.IsZero() {
		return newest.ID, dedup.ErrNotFound
	}
	return newest.ID, nil
}
