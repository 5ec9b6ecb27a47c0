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

// records reads all that a filter chooses.
func records(t T, s dedup.Store, f dedup.RecordFilter) (all []dedup.Record) {
	t.Helper()
	for r, err := range s.Records(context.Background(), f) {
		require.NoError(t, err)
		all = append(all, r)
	}
	return all
}

func testRecords(t *testing.T, b *bench) {
	const n = 600 // some pages
	var want []dedup.OperationID
	for i := range n {
		want = append(want, claim(t, b.store, query("shop", fmt.Sprint("order ", i), fmt.Sprint(i))).ID)
	}
	assert.Equal(t, want, recordIDs(records(t, b.ledger.Open(t), dedup.RecordFilter{})))

	var seen []dedup.OperationID
	for r, err := range b.store.Records(context.Background(), dedup.RecordFilter{}) {
		require.NoError(t, err)
		if seen = append(seen, r.Entry.ID); len(seen) == n/2 { // claimed again, the first is the newest of all
			settle(t, b.store, want[0], dedup.ProvenUnsent)
			claim(t, b.store, query("shop", "order 0", "0"))
			settle(t, b.store, want[n-1], dedup.ProvenUnsent)
			claim(t, b.store, query("shop", fmt.Sprint("order ", n-1), "0"))
		}
	}
	assert.Equal(t, want, seen)
	for range b.store.Records(context.Background(), dedup.RecordFilter{}) {
		break // and nothing is held
	}
	settle(t, b.store, want[1], dedup.ProvenUnsent)
}

func recordIDs(records []dedup.Record) (list []dedup.OperationID) {
	for _, r := range records {
		list = append(list, r.Entry.ID)
	}
	return list
}

func testRecordMembers(t *testing.T, b *bench) {
	e := claim(t, b.store, asked)
	b.clock.Advance(time.Minute)
	e = settle(t, b.store, e.ID, dedup.AnsweredResult, result(`{"n":1}`))
	b.clock.Advance(time.Minute)
	bare := e
	bare.Result = nil
	now := b.clock.Now().UTC().Truncate(time.Millisecond)
	assert.Equal(t, []dedup.Record{{Entry: bare, ResultBytes: 7, Now: now}}, records(t, b.store, dedup.RecordFilter{}))
	assert.Equal(t, []dedup.Record{{Entry: e, ResultBytes: 7, Now: now, Events: []dedup.Event{
		{Row: 1, Attempt: 1, State: dedup.Running, At: e.ClaimedAt}, {Row: 5, Attempt: 1, State: dedup.Completed, At: e.SettledAt},
	}}}, records(t, b.store, dedup.RecordFilter{Events: true, Results: true}))
	assert.Empty(t, records(t, b.store, dedup.RecordFilter{Since: 2 * time.Minute}))
	assert.Len(t, records(t, b.store, dedup.RecordFilter{Since: 2*time.Minute + time.Millisecond}), 1)

	b.clock.Advance(window)
	expired := records(t, b.store, dedup.RecordFilter{Results: true})
	assert.Equal(t, bare, expired[0].Entry, "past its window a result is stored and not given")
	assert.Equal(t, 7, expired[0].ResultBytes)
}

func testSpent(t *testing.T, b *bench) {
	answered := claim(t, b.store, query("shop", "answered", ""))
	settle(t, b.store, answered.ID, dedup.AnsweredResult, result("{}"))
	free := claim(t, b.store, query("shop", "free", ""))
	settle(t, b.store, free.ID, dedup.ProvenUnsent)
	claim(t, b.store, query("shop", "running", ""))
	unknown := claim(t, b.store, query("shop", "unknown", ""))
	settle(t, b.store, unknown.ID, dedup.NoAnswer)
	b.clock.Advance(window - time.Millisecond)
	assert.Empty(t, records(t, b.store, dedup.RecordFilter{Spent: true}))
	b.clock.Advance(time.Millisecond)
	spent := records(t, b.store, dedup.RecordFilter{Spent: true})
	assert.Equal(t, []dedup.OperationID{answered.ID, free.ID}, recordIDs(spent))
	for _, r := range spent {
		assert.True(t, r.Spent())
	}
	require.NoError(t, b.store.Move(context.Background(), answered.ID, dropped))
	assert.Equal(t, []dedup.OperationID{free.ID}, recordIDs(records(t, b.store, dedup.RecordFilter{Spent: true})))
}

func testRemove(t *testing.T, b *bench) {
	always := func(dedup.Entry, time.Time) bool { return true }
	e := claim(t, b.store, asked)
	require.Error(t, b.store.Remove(context.Background(), e.ID, always), "it is running")
	assert.Equal(t, e, get(t, b.store, e.ID))
	e = settle(t, b.store, e.ID, dedup.ProvenUnsent)
	require.NoError(t, b.store.Remove(context.Background(), e.ID, func(seen dedup.Entry, now time.Time) bool {
		assert.Equal(t, e, seen)
		assert.Equal(t, b.clock.Now().UTC().Truncate(time.Millisecond), now)
		return false
	}))
	assert.Equal(t, e, get(t, b.store, e.ID), "it was decided against")
	ended, end := context.WithCancel(context.Background())
	end()
	require.ErrorIs(t, b.store.Remove(ended, e.ID, always), context.Canceled)
	assert.Equal(t, e, get(t, b.store, e.ID))

	require.NoError(t, b.store.Remove(context.Background(), e.ID, always))
	other := b.ledger.Open(t)
	_, err := other.Get(context.Background(), e.ID)
	require.ErrorIs(t, err, dedup.ErrNotFound)
	_, err = other.History(context.Background(), e.ID)
	require.ErrorIs(t, err, dedup.ErrNotFound)
	require.ErrorIs(t, b.store.Remove(context.Background(), e.ID, always), dedup.ErrNotFound)
	again := claim(t, b.store, asked)
	assert.NotEqual(t, e.ID, again.ID, "the key begins anew")
}

func testShrink(t *testing.T, b *bench) {
	for i := range 8 {
		e := claim(t, b.store, query("shop", fmt.Sprint(i), ""))
		settle(t, b.store, e.ID, dedup.AnsweredResult, result(string(make([]byte, 1<<19))))
		require.NoError(t, b.store.Move(context.Background(), e.ID, dropped))
	}
	steps := 0
	for more := true; more; steps++ {
		require.Less(t, steps, 1000)
		var bytes int64
		var err error
		bytes, more, err = b.store.Shrink(context.Background())
		require.NoError(t, err)
		require.True(t, bytes > 0 || !more)
	}
	bytes, more, err := b.store.Shrink(context.Background())
	require.NoError(t, err)
	assert.Zero(t, bytes)
	assert.False(t, more)
	assert.Len(t, records(t, b.ledger.Open(t), dedup.RecordFilter{}), 8)
}
