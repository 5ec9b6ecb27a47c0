package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// stored are the operations as they are stored, whatever is shown of them.
func (b *bench) stored() map[dedup.OperationID]dedup.Entry {
	b.t.Helper()
	all := map[dedup.OperationID]dedup.Entry{}
	for e, err := range b.ledger.List(context.Background(), dedup.Filter{}) {
		require.NoError(b.t, err)
		all[e.ID] = e
	}
	return all
}

func TestAnAnswerIsDroppedAfterItsWindow(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx := context.Background()
	r := request(t, business)
	settled := answer(t, mayRun(t, b.ledger, r))
	b.clock.Advance(week - time.Millisecond)
	require.NoError(t, b.ledger.Sweep(ctx))
	assert.JSONEq(t, `{"refund":1}`, string(told[dedup.Replay](t, b.ledger, r).Entry.Result))

	b.clock.Advance(time.Millisecond)
	assert.Empty(t, told[dedup.Expired](t, b.ledger, r).Entry.Result, "it is not given, though it is stored yet")
	assert.Equal(t, dedup.KeptWhole, b.stored()[settled.ID].Kept)
	require.NoError(t, b.ledger.Sweep(ctx))
	assert.Equal(t, dedup.KeptDropped, b.stored()[settled.ID].Kept)
	events := b.requireRows(settled.ID, 1, 5, 5)
	assert.Equal(t, dedup.Event{Row: 5, Attempt: 1, State: dedup.Completed, At: b.clock.Now().Truncate(time.Millisecond), Note: "window passed"}, events[2])
	require.NoError(t, b.ledger.Sweep(ctx))
	b.requireRows(settled.ID, 1, 5, 5)

	tombstone := settled
	tombstone.Kept, tombstone.Result, tombstone.Replays = dedup.KeptDropped, nil, 2
	assert.Equal(t, tombstone, b.stands(settled.ID))
	byID, err := b.ledger.Operation(ctx, "ada", settled.ID)
	require.NoError(t, err)
	assert.Equal(t, tombstone, byID)
	byKey, here, err := b.ledger.OperationOf(ctx, r.Scope, r.Key)
	require.NoError(t, err)
	assert.True(t, here)
	assert.Equal(t, tombstone, byKey)
	told[dedup.Expired](t, b.ledger, r)
	b.clock.Advance(-week)
	told[dedup.Expired](t, b.ledger, r) // what is gone is not replayed empty
	b.requireQuiet()
}

func TestOnlyAnswersAreDropped(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	released := mayRun(t, b.ledger, request(t, "refund:order-4812:3"))
	_, err := released.Release(proof(2))
	require.NoError(t, err)
	lose(t, mayRun(t, b.ledger, request(t, "refund:order-4812:4")))
	tooLarge := mayRun(t, b.ledger, request(t, "refund:order-4812:5"))
	_, err = tooLarge.Complete(dedup.Answer{Evidence: dedup.AnsweredResult, Body: make([]byte, dedup.MaxResultBytes+1)})
	require.NoError(t, err)
	before := b.stored()
	b.clock.Advance(52 * week)
	require.NoError(t, b.ledger.Sweep(context.Background()))
	assert.Equal(t, before, b.stored())
}

func TestASweepDropsAFewHundredAnswers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const answers = 300
	for i := range answers {
		answer(t, mayRun(t, b.ledger, request(t, fmt.Sprintf("refund:order-%d:2", 4812+i))))
	}
	b.clock.Advance(week)
	for _, left := range []int{answers - 256, 0} {
		require.NoError(t, b.ledger.Sweep(context.Background()))
		kept := 0
		for _, e := range b.stored() {
			if e.Kept == dedup.KeptWhole {
				kept++
			}
		}
		assert.Equal(t, left, kept)
	}
}

// What a sweep has read may be old by the time that it drops.
func TestADropLooksAgain(t *testing.T) {
	t.Parallel()
	b, f := newFaultyBench(t)
	settled := answer(t, mayRun(t, b.ledger, request(t, business)))
	b.clock.Advance(week)
	peer := b.peer()
	f.late = func(old []dedup.Entry) []dedup.Entry {
		require.Len(t, old, 1)
		require.NoError(t, peer.Sweep(context.Background())) // drops it first
		gone := old[0]
		gone.ID = dedup.NewOperationID()
		return append(old, gone)
	}
	require.NoError(t, b.ledger.Sweep(context.Background()))
	b.requireRows(settled.ID, 1, 5, 5)
}

func TestADropThatFailsIsMadeUpFor(t *testing.T) {
	t.Parallel()
	for _, how := range faults {
		b, f := newFaultyBench(t)
		settled := answer(t, mayRun(t, b.ledger, request(t, business)))
		b.clock.Advance(week)
		for _, operation := range []int64{2, 3} { // to find it, and to drop it
			f.fault = how
			f.in.Store(operation)
			require.ErrorIs(t, b.ledger.Sweep(context.Background()), errInjected)
		}
		require.NoError(t, b.ledger.Sweep(context.Background()))
		assert.Equal(t, dedup.KeptDropped, b.stored()[settled.ID].Kept, string(how))
		b.requireRows(settled.ID, 1, 5, 5)
	}
}

func TestALockedLedgerIsTriedOncePerPass(t *testing.T) {
	t.Parallel()
	b, f := newFaultyBench(t)
	const calls = 5
	f.locked.Store(true)
	for i := range calls {
		f.locked.Store(false)
		lease := mayRun(t, b.ledger, request(t, fmt.Sprintf("refund:order-%d:2", 4812+i)))
		f.locked.Store(true)
		_, err := lease.Complete(dedup.Answer{Evidence: dedup.AnsweredResult, Body: []byte(`1`)})
		require.ErrorIs(t, err, errInjected)
	}
	require.Len(t, b.heard(), calls)
	for range 3 {
		tried := f.tried.Load()
		b.ledger.WriteUnwritten()
		assert.EqualValues(t, 1, f.tried.Load()-tried)
		assert.Equal(t, []string{cannotWrite}, b.heard())
	}
	f.locked.Store(false)
	b.ledger.WriteUnwritten()
	assert.Len(t, b.heard(), calls, "none was forgotten")
	for _, e := range b.stored() {
		assert.Equal(t, dedup.Completed, e.State)
	}
	b.requireQuiet()
}

func TestClosingALockedLedgerTriesOnce(t *testing.T) {
	t.Parallel()
	b, f := newFaultyBench(t)
	leases := []*dedup.Lease{mayRun(t, b.ledger, request(t, business)), mayRun(t, b.ledger, request(t, "refund:order-4812:3"))}
	f.locked.Store(true)
	for _, lease := range leases {
		_, err := lease.Complete(dedup.Answer{Evidence: dedup.AnsweredResult})
		require.ErrorIs(t, err, errInjected)
	}
	tried := f.tried.Load()
	b.shut(b.ledger) // without an error: the store itself is closed
	assert.EqualValues(t, 1, f.tried.Load()-tried)
	b.ledger = b.peer()
	for _, e := range b.stored() {
		assert.Equal(t, dedup.Unknown, e.State, "nobody will ever know")
	}
}

func TestStartingInDoubtOfAnOwnerAlarms(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	stuck := mayRun(t, b.peer(), request(t, business)).Entry()
	dead := b.peer()
	free := mayRun(t, dead, request(t, "refund:order-4812:3")).Entry()
	b.crash(dead)
	cause := errors.New("the owner's file cannot be read")
	l := b.gateway(&faulty{Store: b.reference.Open(nil), doubted: stuck.Owner, cause: cause})
	require.Equal(t, []string{"the ledger could not be swept; trying again"}, b.heard())
	assert.Equal(t, dedup.Running, b.stands(stuck.ID).State)
	assert.Equal(t, dedup.Unknown, b.stands(free.ID).State)
	mayRun(t, l, request(t, "refund:order-4812:4")).Close()
}

func TestAnOperationElsewhereIsFoundByItsKey(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx := context.Background()
	r := request(t, business)
	id := answer(t, mayRun(t, b.ledger, r)).ID
	moved := r.Scope
	moved.Account = "/home"
	e, here, err := b.ledger.OperationOf(ctx, moved, r.Key)
	require.NoError(t, err)
	assert.False(t, here)
	assert.Equal(t, b.stands(id), e, "with its result")
	moved.Tool = "create_credit"
	e, here, err = b.ledger.OperationOf(ctx, moved, r.Key)
	require.ErrorIs(t, err, dedup.ErrNotFound)
	assert.False(t, here)
	assert.Equal(t, dedup.Entry{}, e)
}
