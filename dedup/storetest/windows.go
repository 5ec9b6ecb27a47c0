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

// overdue asks for results whose window has passed.
func overdue(t T, s dedup.Store, limit int) []dedup.Entry {
	t.Helper()
	entries, err := s.Overdue(context.Background(), limit)
	require.NoError(t, err)
	return entries
}

func testOverdueResult(t *testing.T, b *bench) {
	e := claim(t, b.store, asked)
	b.clock.Advance(time.Hour) // the window counts from the answer
	settled := settle(t, b.store, e.ID, dedup.AnsweredResult, result(`{"n":1}`))
	b.clock.Advance(window - time.Millisecond)
	assert.Equal(t, settled, get(t, b.store, e.ID))
	assert.Equal(t, settled, *find(t, b.store, asked).Same)
	assert.Empty(t, overdue(t, b.store, 9))

	b.clock.Advance(time.Millisecond)
	shown := settled
	shown.Kept, shown.Result = dedup.KeptDropped, nil
	assert.Equal(t, shown, get(t, b.store, e.ID))
	assert.Equal(t, shown, *find(t, b.store, asked).Same)
	stored := settled
	stored.Result = nil
	assert.Equal(t, []dedup.Entry{stored}, overdue(t, b.store, 9))
	require.NoError(t, b.store.Move(context.Background(), e.ID, func(e dedup.Entry, _ time.Time) (dedup.Change, bool) {
		assert.Equal(t, stored, e, "a move sees what is stored")
		return dedup.Change{}, false
	}))

	b.clock.Advance(-time.Millisecond)
	assert.Equal(t, settled, get(t, b.store, e.ID), "nothing was lost by reading")
	require.NoError(t, b.store.Move(context.Background(), e.ID, dropped))
	assert.Equal(t, shown, get(t, b.ledger.Open(t), e.ID), "what is dropped is gone, but the operation is not")
}

func testOverdue(t *testing.T, b *bench) {
	answered := func(name string, change ...func(*dedup.Change)) dedup.Entry {
		e := claim(t, b.store, query("shop", name, name))
		e = settle(t, b.store, e.ID, dedup.AnsweredResult, append(change, result("{}"))...)
		b.clock.Advance(time.Second)
		e.Result = nil
		return e
	}
	lasts := func(d time.Duration) func(*dedup.Change) { return func(c *dedup.Change) { c.Entry.Window = d } }
	long := answered("long ago, for long", lasts(window+time.Hour))
	var want []dedup.Entry
	for i := range 3 {
		want = append(want, answered(fmt.Sprint("answered ", i)))
	}
	want = append(want, answered("short", lasts(window)), long)
	gone := answered("dropped", lasts(0))
	require.NoError(t, b.store.Move(context.Background(), gone.ID, dropped))
	tooLarge := claim(t, b.store, query("shop", "too large", ""))
	settle(t, b.store, tooLarge.ID, dedup.AnsweredResult, func(c *dedup.Change) { c.Entry.Kept = dedup.KeptTooLarge })
	for _, evidence := range []dedup.Evidence{dedup.NoAnswer, dedup.ProvenUnsent, dedup.InputRequired} {
		e := claim(t, b.store, query("shop", fmt.Sprint("not completed ", evidence), ""))
		settle(t, b.store, e.ID, evidence)
	}
	claim(t, b.store, query("shop", "running", ""))
	b.clock.Advance(window + 2*time.Hour)
	answered("young")

	assert.Equal(t, want, overdue(t, b.ledger.Open(t), 100), "whose window ended first comes first")
	assert.Equal(t, want[:2], overdue(t, b.store, 2))
	require.NoError(t, b.store.Move(context.Background(), want[0].ID, dropped))
	assert.Equal(t, want[1:], overdue(t, b.store, 100))
}
