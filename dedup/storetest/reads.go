package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// patience bounds what a test waits for. A store that is right never uses it up.
const patience = 10 * time.Second

// awaited runs Await, and hands over what it came to.
func awaited(s dedup.Store, seen dedup.Entry) <-chan error {
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		done <- s.Await(ctx, seen)
	}()
	return done
}

func testAwait(t *testing.T, b *bench) {
	e := claim(t, b.store, asked)
	done := awaited(b.store, e)
	open := settle(t, b.store, e.ID, dedup.NoAnswer, open)
	require.NoError(t, <-done)
	require.NoError(t, <-awaited(b.store, e), "it differs already")

	done = awaited(b.store, open)
	require.NoError(t, b.store.Move(context.Background(), e.ID, func(e dedup.Entry, _ time.Time) (dedup.Change, bool) {
		e.OpenUntil = time.Time{}
		return evented(e), true
	}))
	require.NoError(t, <-done, "closing ends the wait too")
	closed := get(t, b.store, e.ID)
	done = awaited(b.store, closed)
	settle(t, b.store, e.ID, dedup.SafeToRepeat)
	require.NoError(t, <-done)
}

func testAwaitRound(t *testing.T, b *bench) {
	e := claim(t, b.store, asked)
	settle(t, b.store, e.ID, dedup.InputRequired, question("Which order?"))
	settle(t, b.store, e.ID, dedup.InputContinued)
	for _, s := range []dedup.Store{b.store, b.ledger.Open(t)} {
		require.NoError(t, <-awaited(s, e), "it runs again, and what ran has been answered")
	}
}

func testAwaitPeer(t *testing.T, b *bench) {
	peer := b.ledger.Open(t)
	own := claim(t, b.store, asked)
	foreign := claim(t, peer, query("shop", "of the peer", "other"))
	for _, seen := range []dedup.Entry{own, foreign} {
		done := awaited(b.store, seen)
		settle(t, peer, seen.ID, dedup.AnsweredResult)
		require.NoError(t, <-done)
	}
}

func testAwaitContext(t *testing.T, b *bench) {
	e := claim(t, b.store, asked)
	for _, store := range []dedup.Store{b.store, b.ledger.Open(t)} {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
		defer cancel()
		var err error
		for err == nil { // it may return early
			err = store.Await(ctx, e)
		}
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
}

func testUnsettled(t *testing.T, b *bench) {
	peer := b.ledger.Open(t)
	entries := map[string]dedup.Entry{}
	for _, name := range []string{"running", "open", "closed", "completed", "released", "asking"} {
		b.clock.Advance(time.Millisecond)
		entries[name] = claim(t, peer, query("shop", name, name))
	}
	stillOpen := settle(t, peer, entries["open"].ID, dedup.NoAnswer, open)
	settle(t, peer, entries["closed"].ID, dedup.NoAnswer)
	settle(t, peer, entries["completed"].ID, dedup.AnsweredResult)
	settle(t, peer, entries["released"].ID, dedup.ProvenUnsent)
	settle(t, peer, entries["asking"].ID, dedup.InputRequired)
	unsettled, err := b.store.Unsettled(context.Background())
	require.NoError(t, err)
	assert.ElementsMatch(t, []dedup.Entry{entries["running"], stillOpen}, unsettled)
}

func testList(t *testing.T, b *bench) {
	const count = 300 // more than a store may read at once
	var want []dedup.OperationID
	for i := range count {
		if i%3 == 0 { // the others are claimed in the same millisecond
			b.clock.Advance(time.Second)
		}
		q := query("shop", fmt.Sprint(i), fmt.Sprint(i))
		require.NoError(t, b.store.Claim(context.Background(), q, func(around dedup.Surroundings) (dedup.Change, bool) {
			e := newEntry(b.store, q, around.Now)
			e.Scope.Tool = fmt.Sprintf("tool-%d", i%2)
			want = append([]dedup.OperationID{e.ID}, want...)
			return evented(e), true
		}))
	}
	settle(t, b.store, want[0], dedup.AnsweredResult, result("{}"))
	settle(t, b.store, want[7], dedup.AnsweredResult)
	for name, c := range map[string]struct {
		filter dedup.Filter
		want   int
	}{
		"all":             {dedup.Filter{}, count},
		"limit":           {dedup.Filter{Limit: 5}, 5},
		"limit of a page": {dedup.Filter{Limit: 280}, 280},
		"tool":            {dedup.Filter{Tool: "tool-1"}, count / 2},
		"no such tool":    {dedup.Filter{Tool: "tool"}, 0},
		"state":           {dedup.Filter{State: dedup.Completed}, 2},
		"since":           {dedup.Filter{Since: 2 * time.Second}, 6},
		"since, exactly":  {dedup.Filter{Since: time.Second}, 3},
		"together":        {dedup.Filter{State: dedup.Running, Tool: "tool-0", Since: time.Minute, Limit: 4}, 4},
	} {
		got := list(t, b.store, c.filter)
		assert.Len(t, got, c.want, name)
		for i := range got[:max(0, len(got)-1)] {
			require.False(t, got[i].ClaimedAt.Before(got[i+1].ClaimedAt), "%s: newest first", name)
		}
	}
	assert.ElementsMatch(t, want, ids(list(t, b.store, dedup.Filter{})), "each once")
	for range b.store.List(context.Background(), dedup.Filter{}) {
		break // a consumer may stop
	}
}

func list(t *testing.T, s dedup.Store, f dedup.Filter) (entries []dedup.Entry) {
	t.Helper()
	for e, err := range s.List(context.Background(), f) {
		require.NoError(t, err)
		entries = append(entries, e)
	}
	return entries
}

func testTallies(t *testing.T, b *bench) {
	e := claim(t, b.store, asked)
	settle(t, b.store, e.ID, dedup.AnsweredResult)
	for range 3 {
		b.store.Tally(dedup.Tally{Kind: dedup.TallyReplay, Upstream: "shop", Tool: "refund", Operation: e.ID})
	}
	b.store.Tally(dedup.Tally{Kind: dedup.TallyRefused, Upstream: "shop", Tool: "charge"})
	claim(t, b.store, query("shop", "a commit to go with", "other"))
	assert.Equal(t, 3, get(t, b.store, e.ID).Replays)
	b.store.Tally(dedup.Tally{Kind: dedup.TallyReplay, Upstream: "shop", Tool: "refund", Operation: e.ID})
	peer := b.ledger.Open(t)
	require.NoError(t, b.store.Close())
	assert.Equal(t, 4, get(t, peer, e.ID).Replays, "written by Close")
	totals, err := peer.Totals(context.Background())
	require.NoError(t, err)
	require.Len(t, totals, 2)
	assert.Equal(t, map[dedup.TallyKind]int{dedup.TallyRefused: 1}, totals[0].Tallies)
	assert.Equal(t, map[dedup.TallyKind]int{dedup.TallyReplay: 4}, totals[1].Tallies)
}

func testTotals(t *testing.T, b *bench) {
	failed := claim(t, b.store, query("shop", "failed", "1"))
	settle(t, b.store, failed.ID, dedup.AnsweredErrorResult, func(c *dedup.Change) { c.Entry.IsError = true })
	resolved := claim(t, b.store, query("shop", "resolved", "2"))
	settle(t, b.store, resolved.ID, dedup.NoAnswer)
	settle(t, b.store, resolved.ID, dedup.PersonNotExecuted)
	b.clock.Advance(2 * time.Second) // past midnight
	expired := claim(t, b.store, query("shop", "asking", "3"))
	settle(t, b.store, expired.ID, dedup.InputRequired)
	settle(t, b.store, expired.ID, dedup.InputExpired)
	b.store.Tally(dedup.Tally{Kind: dedup.TallyConflict, Upstream: "shop", Tool: "refund"})
	claim(t, b.store, query("shop", "running", "4"))
	totals, err := b.store.Totals(context.Background())
	require.NoError(t, err)
	assert.Equal(t, []dedup.Total{
		{
			Day: "2026-08-01", Upstream: "shop", Tool: "refund", Errors: 1, Resolved: 1,
			States: map[dedup.State]int{dedup.Completed: 1, dedup.Released: 1}, Tallies: map[dedup.TallyKind]int{},
		},
		{
			Day: "2026-08-02", Upstream: "shop", Tool: "refund",
			States: map[dedup.State]int{dedup.Unknown: 1, dedup.Running: 1}, Tallies: map[dedup.TallyKind]int{dedup.TallyConflict: 1},
		},
	}, totals)
}
