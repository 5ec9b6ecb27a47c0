package storetest

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
)

func testMove(t *testing.T, b *bench) {
	e := claim(t, b.store, asked)
	b.clock.Advance(time.Second)
	after := settle(t, b.store, e.ID, dedup.NoAnswer, open, func(c *dedup.Change) {
		c.Entry.Reason, c.Event.Note = dedup.ReasonTimeout, "no answer in time"
	})
	b.clock.Advance(time.Second)
	resolved := settle(t, b.store, e.ID, dedup.PersonExecuted, result("{}"), func(c *dedup.Change) { c.Event.Actor = "grace" })
	assert.Equal(t, resolved, get(t, b.ledger.Open(t), e.ID))

	history, err := b.store.History(context.Background(), e.ID)
	require.NoError(t, err)
	assert.Equal(t, []dedup.Event{
		{Row: 1, Attempt: 1, State: dedup.Running, At: e.ClaimedAt},
		{Row: 8, Attempt: 1, State: dedup.Unknown, At: after.SettledAt, Note: "no answer in time"},
		{Row: 15, Attempt: 1, State: dedup.Completed, At: resolved.SettledAt, Actor: "grace"},
	}, history)
}

func testEventAlone(t *testing.T, b *bench) {
	e := claim(t, b.store, asked)
	e = settle(t, b.store, e.ID, dedup.AnsweredResult, result("{}"))
	require.NoError(t, b.store.Move(context.Background(), e.ID, func(e dedup.Entry, _ time.Time) (dedup.Change, bool) {
		return dedup.Change{Entry: e, Event: dedup.Event{Row: dedup.RowContradicted, Attempt: 1, State: e.State, Note: "too late"}}, true
	}))
	assert.Equal(t, e, get(t, b.store, e.ID), "its result stays")
	history, err := b.store.History(context.Background(), e.ID)
	require.NoError(t, err)
	require.Len(t, history, 3)
	assert.Equal(t, "too late", history[2].Note)
}

func testNotFound(t *testing.T, b *bench) {
	id := dedup.NewOperationID()
	_, err := b.store.Get(context.Background(), id)
	require.ErrorIs(t, err, dedup.ErrNotFound)
	_, err = b.store.History(context.Background(), id)
	require.ErrorIs(t, err, dedup.ErrNotFound)
	err = b.store.Move(context.Background(), id, func(dedup.Entry, time.Time) (dedup.Change, bool) {
		assert.Fail(t, "there is nothing to decide")
		return dedup.Change{}, false
	})
	require.ErrorIs(t, err, dedup.ErrNotFound)
}

func testReclaim(t *testing.T, b *bench) {
	first := claim(t, b.store, asked)
	settle(t, b.store, first.ID, dedup.ProvenUnsent)
	b.clock.Advance(time.Hour)
	q := asked
	q.Content = digest("other content")
	again := claim(t, b.store, q)
	assert.Equal(t, first.ID, again.ID, "it stays the same operation")
	assert.NotEqual(t, first.Downstream, again.Downstream, "it begins anew")
	assert.Equal(t, 2, again.Attempt)
	assert.Equal(t, first.CreatedAt, again.CreatedAt)
	assert.Equal(t, again, get(t, b.store, first.ID))
	other := query("shop", "new", "")
	other.Content = q.Content
	assert.Equal(t, []dedup.Entry{again}, find(t, b.store, other).Twins, "found by the new content")
}

func testUnlawful(t *testing.T, b *bench) {
	e := claim(t, b.store, asked)
	for name, unlawful := range map[string]func(*dedup.Entry){
		"released by the row of an answer": func(e *dedup.Entry) { e.State, e.Row = dedup.Released, 5 },
		"completed by no row":              func(e *dedup.Entry) { e.State, e.Row = dedup.Completed, 0 },
		"running again":                    func(e *dedup.Entry) { e.State, e.Row = dedup.Unknown, 17 },
	} {
		err := b.store.Move(context.Background(), e.ID, func(e dedup.Entry, now time.Time) (dedup.Change, bool) {
			unlawful(&e)
			e.SettledAt = now
			return evented(e), true
		})
		require.Error(t, err, name)
		require.NotErrorIs(t, err, dedup.ErrAmbiguous, name)
		assert.Equal(t, e, get(t, b.store, e.ID), name)
	}
}

// testMoveRace has callers of two processes count up one operation's replays: no
// count is lost.
func testMoveRace(t *testing.T, b *bench) {
	e := claim(t, b.store, asked)
	stores := []dedup.Store{b.store, b.ledger.Open(t)}
	const moves = 50
	counted := atOnce(t, moves, func(i int) bool {
		return assert.NoError(t, stores[i%2].Move(context.Background(), e.ID, func(e dedup.Entry, _ time.Time) (dedup.Change, bool) {
			e.Replays++
			return evented(e), true
		}))
	})
	assert.Equal(t, moves, counted)
	assert.Equal(t, moves, get(t, b.store, e.ID).Replays)
	history, err := b.store.History(context.Background(), e.ID)
	require.NoError(t, err)
	assert.Len(t, history, 1+moves)
}

func testResults(t *testing.T, b *bench) {
	e := claim(t, b.store, asked)
	assert.Nil(t, get(t, b.store, e.ID).Result)
	settle(t, b.store, e.ID, dedup.NoAnswer, open, result(`{"first":9007199254740993}`))
	assert.JSONEq(t, `{"first":9007199254740993}`, string(get(t, b.store, e.ID).Result))
	settle(t, b.store, e.ID, dedup.AnsweredResult, result("[\x00\xff]"))
	assert.Equal(t, "[\x00\xff]", string(find(t, b.store, asked).Same.Result), "replaced, byte for byte")

	check := func(e dedup.Entry) { assert.Nil(t, e.Result, "only Find and Get fill the result") }
	unchanged := func(e dedup.Entry, _ time.Time) (dedup.Change, bool) {
		check(e)
		return evented(e), true
	}
	require.NoError(t, b.store.Move(context.Background(), e.ID, unchanged))
	assert.Equal(t, "[\x00\xff]", string(get(t, b.store, e.ID).Result), "kept where nothing else is asked")
	require.NoError(t, b.store.Claim(context.Background(), asked, func(around dedup.Surroundings) (dedup.Change, bool) {
		check(*around.Same)
		return dedup.Change{}, false
	}))
	for e, err := range b.store.List(context.Background(), dedup.Filter{}) {
		require.NoError(t, err)
		check(e)
	}
	for _, twin := range find(t, b.store, query("shop", "new", "42 dollars")).Twins {
		check(twin)
	}
	require.NoError(t, b.store.Move(context.Background(), e.ID, dropped))
	assert.Empty(t, get(t, b.store, e.ID).Result, "dropped")
}

func testLargeResult(t *testing.T, b *bench) {
	e := claim(t, b.store, asked)
	body := bytes.Repeat([]byte("0123456789abcdef"), dedup.MaxResultBytes/16)
	settle(t, b.store, e.ID, dedup.AnsweredResult, result(string(body)))
	assert.True(t, bytes.Equal(body, get(t, b.ledger.Open(t), e.ID).Result))
	assert.True(t, bytes.Equal(body, find(t, b.store, asked).Same.Result))
}
