package dedup_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/dedup/sqlite"
)

func TestAQuestionThatCannotBeWrittenIsWrittenLater(t *testing.T) {
	t.Parallel()
	for _, how := range faults {
		b, f := newFaultyBench(t)
		lease := mayRun(t, b.ledger, request(t, business))
		f.failNext(how)
		e, err := lease.Ask(dedup.Question{Body: []byte(`{"ask":1}`), State: stateOf("s1")})
		require.ErrorIs(t, err, errInjected)
		assert.Equal(t, dedup.AwaitingInput, e.State, "how it would stand")
		require.NoError(t, b.ledger.Sweep(context.Background()))
		if how == obscured { // and somebody has seen it, and goes on
			asks(t, mayRun(t, b.peer(), request(t, business, continuing("s1", "a"))), "s2", `{"ask":2}`)
		}
		b.ledger.WriteUnwritten()
		assert.Equal(t, []string{cannotWrite, isWritten}, b.heard())
		state := map[fault]string{obscured: "s2"}[how]
		if state == "" {
			state = "s1"
		}
		answer(t, mayRun(t, b.ledger, request(t, business, continuing(state, "b"))))
		b.requireQuiet()
	}
}

// The proof that a continuation was not sent cannot be written; somebody else then
// sends it, and the proof is not about that.
func TestALateProofDoesNotTouchTheNextContinuation(t *testing.T) {
	t.Parallel()
	b, f := newFaultyBench(t)
	asks(t, mayRun(t, b.ledger, request(t, business)), "s1", "{}")
	lease := mayRun(t, b.ledger, request(t, business, continuing("s1", "a")))
	f.failNext(obscured)
	_, err := lease.Release(proof(2))
	require.ErrorIs(t, err, errInjected)
	second := mayRun(t, b.peer(), request(t, business, continuing("s1", "a")))
	b.ledger.WriteUnwritten()
	assert.Equal(t, dedup.Running, b.only().State)
	told[dedup.Busy](t, b.ledger, request(t, business, continuing("s1", "a")))
	answer(t, second)
	assert.Equal(t, []string{cannotWrite, isWritten}, b.heard())
}

func TestAContinuationWhoseClaimIsInDoubtWasNotSent(t *testing.T) {
	t.Parallel()
	for _, how := range faults {
		b, f := newFaultyBench(t)
		asks(t, mayRun(t, b.ledger, request(t, business)), "s1", "{}")
		f.failNext(how)
		_, err := b.ledger.Begin(context.Background(), request(t, business, continuing("s1", "a")))
		require.ErrorIs(t, err, errInjected)
		require.NoError(t, b.ledger.Sweep(context.Background()))
		assert.Equal(t, dedup.AwaitingInput, b.only().State)
		answer(t, mayRun(t, b.ledger, request(t, business, continuing("s1", "a"))))
		assert.Empty(t, b.heard())
	}
}

// TestOneOfManyContinuationsIsSent has callers of two processes continue round by
// round, on a file.
func TestOneOfManyContinuationsIsSent(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/ledger.db"
	var ledgers []*dedup.Ledger
	for range 2 {
		s, err := sqlite.Open(path, sqlite.Options{})
		require.NoError(t, err)
		l, err := dedup.New(context.Background(), s, dedup.Options{})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, l.Close()) })
		ledgers = append(ledgers, l)
	}
	asks(t, mayRun(t, ledgers[0], request(t, business)), "s0", "{}")
	for round := range 10 {
		var sent atomic.Int64
		var callers sync.WaitGroup
		for caller := range 16 {
			callers.Go(func() {
				v, err := ledgers[caller%2].Begin(context.Background(), request(t, business, continuing(fmt.Sprint("s", round), fmt.Sprint(caller))))
				if lease, ok := v.(*dedup.Lease); assert.NoError(t, err) && ok {
					sent.Add(1)
					_, err := lease.Ask(dedup.Question{Body: []byte("{}"), State: stateOf(fmt.Sprint("s", round+1))})
					assert.NoError(t, err)
				}
			})
		}
		callers.Wait()
		require.EqualValues(t, 1, sent.Load(), "round %d", round)
	}
	assert.Equal(t, 10, told[dedup.Asked](t, ledgers[1], request(t, business)).Entry.Round)
}

// Somebody goes on with an operation before the one who recorded its question has heard
// that it is recorded.
func TestAQuickContinuationIsNotTakenForItsPredecessor(t *testing.T) {
	t.Parallel()
	b, f := newFaultyBench(t)
	lease := mayRun(t, b.ledger, request(t, business))
	var second *dedup.Lease
	f.after = func() { second = mayRun(t, b.ledger, request(t, business, continuing("s1", "a"))) }
	asks(t, lease, "s1", "{}")
	require.NotNil(t, second)
	require.NoError(t, b.ledger.Sweep(context.Background()))
	assert.Equal(t, dedup.Running, b.only().State, "it is run here")
	answer(t, second)
	b.requireQuiet()
}

// A sweep has seen a round whose owner then recorded a question and died; somebody else
// goes on before the sweep acts.
func TestASweepLeavesTheNextRoundAlone(t *testing.T) {
	t.Parallel()
	b, f := newFaultyBench(t)
	dead := b.peer()
	lease := mayRun(t, dead, request(t, business))
	f.seen = func([]dedup.Entry) []dedup.Entry { return []dedup.Entry{lease.Entry()} }
	asks(t, lease, "s1", "{}")
	b.crash(dead)
	second := mayRun(t, b.peer(), request(t, business, continuing("s1", "a")))
	require.NoError(t, b.ledger.Sweep(context.Background()))
	assert.Equal(t, dedup.Running, b.only().State)
	answer(t, second)
}
