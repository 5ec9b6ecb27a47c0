package storetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
)

func testInfo(t *testing.T, b *bench) {
	peer := b.ledger.Open(t)
	one, other := b.store.Info(), peer.Info()
	assert.NotEqual(t, one.Owner, other.Owner)
	assert.NotZero(t, one.Secret)
	assert.Equal(t, b.clock.Now().UTC().Truncate(time.Millisecond), one.Since)
	other.Owner = one.Owner
	assert.Equal(t, one, other, "everything but the owner is the ledger's")
}

func testInsert(t *testing.T, b *bench) {
	assert.Nil(t, find(t, b.store, asked).Same)
	e := claim(t, b.store, asked)
	around := find(t, b.ledger.Open(t), asked)
	require.NotNil(t, around.Same)
	assert.Equal(t, e, *around.Same)
	assert.Equal(t, b.clock.Now().Truncate(time.Millisecond), around.Now, "the clock is cut to milliseconds")
	assert.Nil(t, around.Elsewhere)
	assert.Empty(t, around.Twins)
	assert.Nil(t, around.Repeated)
	assert.Nil(t, around.RepeatedBy)
}

func testMembers(t *testing.T, b *bench) {
	var want dedup.Entry
	require.NoError(t, b.store.Claim(context.Background(), asked, func(around dedup.Surroundings) (dedup.Change, bool) {
		want = newEntry(b.store, asked, around.Now)
		want.FingerprintVersion, want.Window, want.Class = 7, 1500*time.Millisecond, "SAFE_RETRY"
		want.Scope = dedup.Scope{Namespace: "n'); --", Upstream: "u\x00v", Account: "💥", Tool: strings.Repeat("t", 4096)}
		want.Downstream = strings.Repeat("d", dedup.MaxDownstreamBytes)
		want.RepeatOf, want.Provenance, want.Replays = dedup.NewOperationID(), []byte(`{"session":"s"}`), 3
		return evented(want), true
	}))
	assert.Equal(t, want, get(t, b.store, want.ID))
	require.NoError(t, b.store.Move(context.Background(), want.ID, func(e dedup.Entry, now time.Time) (dedup.Change, bool) {
		assert.Equal(t, want, e)
		want = moved(e, dedup.NoAnswer, now)
		want.OpenUntil, want.IsError, want.Reason = now.Add(time.Hour), true, dedup.ReasonTimeout
		want.Window, want.Replays, want.Kept, want.Provenance = time.Hour, 4, dedup.KeptTooLarge, []byte(`{}`)
		return evented(want), true
	}))
	assert.Equal(t, want, get(t, b.store, want.ID))
	want = settle(t, b.store, want.ID, dedup.SafeToRepeat, func(c *dedup.Change) { c.Entry.Downstream = "" })
	assert.Equal(t, dedup.Row(17), want.Doubt)
	assert.Equal(t, want, get(t, b.store, want.ID))
}

func testDownstreamTooLong(t *testing.T, b *bench) {
	err := b.store.Claim(context.Background(), asked, func(around dedup.Surroundings) (dedup.Change, bool) {
		e := newEntry(b.store, asked, around.Now)
		e.Downstream = strings.Repeat("é", dedup.MaxDownstreamBytes/2+1)
		return evented(e), true
	})
	require.Error(t, err)
	require.NotErrorIs(t, err, dedup.ErrAmbiguous)
	assert.Nil(t, find(t, b.store, asked).Same)
}

func testNoClaim(t *testing.T, b *bench) {
	require.NoError(t, b.store.Claim(context.Background(), asked, func(around dedup.Surroundings) (dedup.Change, bool) {
		return evented(newEntry(b.store, asked, around.Now)), false
	}))
	assert.Nil(t, find(t, b.store, asked).Same)
	e := claim(t, b.store, asked)
	require.NoError(t, b.store.Move(context.Background(), e.ID, func(e dedup.Entry, now time.Time) (dedup.Change, bool) {
		return evented(moved(e, dedup.AnsweredResult, now)), false
	}))
	assert.Equal(t, e, get(t, b.store, e.ID))
}

// testDecideTwice lets a decision see that its earlier call left nothing behind.
func testDecideTwice(t *testing.T, b *bench) {
	for range 3 {
		require.NoError(t, b.store.Claim(context.Background(), asked, func(around dedup.Surroundings) (dedup.Change, bool) {
			assert.Nil(t, around.Same)
			return dedup.Change{}, false
		}))
	}
	calls := 0
	var last dedup.OperationID
	require.NoError(t, b.store.Claim(context.Background(), asked, func(around dedup.Surroundings) (dedup.Change, bool) {
		calls++
		e := newEntry(b.store, asked, around.Now)
		last = e.ID
		return evented(e), true
	}))
	assert.Positive(t, calls)
	assert.Equal(t, last, find(t, b.store, asked).Same.ID, "the last call counts")
}

// testRace has a hundred callers of three processes claim one key at once.
func testRace(t *testing.T, b *bench) {
	stores := []dedup.Store{b.store, b.ledger.Open(t), b.ledger.Open(t)}
	inserted := atOnce(t, 100, func(i int) bool {
		store := stores[i%len(stores)]
		return claimed(t, store, asked, func(around dedup.Surroundings) bool { return around.Same == nil })
	})
	assert.Equal(t, 1, inserted)
}

// testTwinRace has callers of three processes claim new keys with one content.
func testTwinRace(t *testing.T, b *bench) {
	stores := []dedup.Store{b.store, b.ledger.Open(t), b.ledger.Open(t)}
	inserted := atOnce(t, 30, func(i int) bool {
		q := query("shop", fmt.Sprintf("refund:%d", i), "42 dollars")
		return claimed(t, stores[i%len(stores)], q, func(around dedup.Surroundings) bool { return len(around.Twins) == 0 })
	})
	assert.Equal(t, 1, inserted)
}

// claimed claims if the surroundings allow it, and reports whether they did.
func claimed(t *testing.T, s dedup.Store, q dedup.Query, free func(dedup.Surroundings) bool) (ok bool) {
	assert.NoError(t, s.Claim(context.Background(), q, func(around dedup.Surroundings) (dedup.Change, bool) {
		ok = free(around)
		return evented(newEntry(s, q, around.Now)), ok
	}))
	return ok
}

// atOnce runs n calls at once and counts those that report true.
func atOnce(t *testing.T, n int, call func(i int) bool) (count int) {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-start
			if call(i) {
				mu.Lock()
				defer mu.Unlock()
				count++
			}
		})
	}
	close(start)
	all.Wait()
	return count
}

func testElsewhere(t *testing.T, b *bench) {
	first := claim(t, b.store, query("shop", "same-key", "one"))
	b.clock.Advance(time.Second)
	second := claim(t, b.store, query("store", "same-key", "two"))
	q := query("market", "same-key", "three")
	assert.Equal(t, &second, find(t, b.store, q).Elsewhere, "the newest")
	settle(t, b.store, second.ID, dedup.ProvenUnsent)
	around := find(t, b.store, q)
	assert.Equal(t, &first, around.Elsewhere, "released ones do not count")
	assert.Nil(t, around.Same)
	settle(t, b.store, first.ID, dedup.ProvenUnsent)
	assert.Nil(t, find(t, b.store, q).Elsewhere)
	third := claim(t, b.store, q)
	around = find(t, b.store, q)
	assert.Equal(t, third.ID, around.Same.ID)
	assert.Nil(t, around.Elsewhere, "an operation is not elsewhere of itself")
}

func testTwins(t *testing.T, b *bench) {
	running := claim(t, b.store, query("shop", "running", "same"))
	b.clock.Advance(time.Second)
	completed := claim(t, b.store, query("shop", "completed", "same"))
	completed = settle(t, b.store, completed.ID, dedup.AnsweredResult)
	b.clock.Advance(time.Second)
	unknown := claim(t, b.store, query("shop", "unknown", "same"))
	unknown = settle(t, b.store, unknown.ID, dedup.NoAnswer)
	released := claim(t, b.store, query("shop", "released", "same"))
	settle(t, b.store, released.ID, dedup.ProvenUnsent)
	claim(t, b.store, query("shop", "other", "other"))

	q := query("shop", "new", "same")
	assert.Equal(t, []dedup.Entry{unknown, completed, running}, find(t, b.store, q).Twins, "newest first")
	b.clock.Advance(nearby)
	assert.Equal(t, []dedup.Entry{running}, find(t, b.store, q).Twins, "only the running one is not past")
	assert.Empty(t, find(t, b.store, query("shop", "running", "same")).Twins, "no twin of itself")
	q.Near = 0
	assert.Empty(t, find(t, b.store, q).Twins, "none are wanted")
}

func testTwinEdges(t *testing.T, b *bench) {
	e := claim(t, b.store, query("shop", "old", "same"))
	settle(t, b.store, e.ID, dedup.AnsweredResult)
	q := query("shop", "new", "same")
	for _, edge := range []struct {
		advance time.Duration
		near    int
	}{{nearby - time.Millisecond, 1}, {time.Millisecond, 0}, {time.Millisecond, 0}, {-2 * time.Millisecond, 1}, {-time.Hour, 1}} {
		b.clock.Advance(edge.advance)
		assert.Len(t, find(t, b.store, q).Twins, edge.near, "advanced by %s", edge.advance)
	}
}

func testMaxTwins(t *testing.T, b *bench) {
	var want []dedup.OperationID
	for i := range dedup.MaxTwins + 4 {
		b.clock.Advance(time.Millisecond)
		e := claim(t, b.store, query("shop", fmt.Sprintf("key-%d", i), "same"))
		want = append([]dedup.OperationID{e.ID}, want...)
	}
	assert.Equal(t, want[:dedup.MaxTwins], ids(find(t, b.store, query("shop", "new", "same")).Twins))
}

func testRepeat(t *testing.T, b *bench) {
	original := claim(t, b.store, asked)
	q := query("shop", "again", "42 dollars")
	q.RepeatOf = original.ID
	around := find(t, b.store, q)
	assert.Equal(t, &original, around.Repeated)
	assert.Nil(t, around.RepeatedBy)

	repeat := claim(t, b.store, q)
	assert.Nil(t, find(t, b.store, q).RepeatedBy, "an operation does not stand in its own way")
	third := query("shop", "and again", "42 dollars")
	third.RepeatOf = original.ID
	assert.Equal(t, &repeat, find(t, b.store, third).RepeatedBy)
	require.NoError(t, b.store.Claim(context.Background(), third, func(around dedup.Surroundings) (dedup.Change, bool) {
		assert.Equal(t, &repeat, around.RepeatedBy, "the claim sees it too")
		assert.Equal(t, &original, around.Repeated)
		return dedup.Change{}, false
	}))
	settle(t, b.store, repeat.ID, dedup.ProvenUnsent)
	assert.Nil(t, find(t, b.store, third).RepeatedBy, "given back")
	third.RepeatOf = dedup.NewOperationID()
	assert.Nil(t, find(t, b.store, third).Repeated)
}

func testEndedContext(t *testing.T, b *bench) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := b.store.Claim(ctx, asked, func(around dedup.Surroundings) (dedup.Change, bool) {
		return evented(newEntry(b.store, asked, around.Now)), true
	})
	require.ErrorIs(t, err, context.Canceled)
	assert.Nil(t, find(t, b.store, asked).Same)
}
