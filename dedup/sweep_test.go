package dedup_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
)

func TestADeadOwnersOperationsAreUnknown(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := request(t, business)
	peer := b.peer()
	lease := mayRun(t, peer, r)
	require.NoError(t, b.ledger.Sweep(context.Background()))
	assert.IsType(t, dedup.Busy{}, begin(t, b.ledger, r), "a living owner is left alone")
	require.Equal(t, dedup.Running, b.only().State)
	b.crash(peer)
	e := told[dedup.Lost](t, b.ledger, r).Entry // met, not swept
	assert.Equal(t, dedup.ReasonOwnerDied, e.Reason)
	b.requireRows(e.ID, 1, 9)

	_, err := lease.Complete(dedup.Answer{Evidence: dedup.AnsweredResult}) // the process was not as dead as its lock
	require.NoError(t, err)
	told[dedup.Replay](t, b.ledger, r)
	b.requireRows(e.ID, 1, 9, 12)
}

func TestADeadOwnersOpenAttemptIsClosed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := request(t, business)
	peer := b.peer()
	strand(t, mayRun(t, peer, r))
	require.NoError(t, b.ledger.Sweep(context.Background()))
	require.True(t, b.only().Open())
	b.crash(peer)
	require.NoError(t, b.ledger.Sweep(context.Background()))
	e := b.only()
	assert.False(t, e.Open())
	assert.Equal(t, dedup.ReasonTimeout, e.Reason, "why it is unknown stays")
	assert.Equal(t, "its owner is gone", b.requireRows(e.ID, 1, 8, 8)[2].Note)
	assert.IsType(t, dedup.Lost{}, begin(t, b.ledger, r))
	assert.IsType(t, &dedup.Lease{}, begin(t, b.ledger, request(t, "refund:order-4812:3")))
}

func TestStartingSettlesWhatTheDeadHaveLeft(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	mayRun(t, b.ledger, request(t, business))
	b.crash(b.ledger)
	b.ledger = b.peer()
	assert.Equal(t, dedup.Unknown, b.only().State)
	b.requireRows(b.only().ID, 1, 9)
}

func TestWhatIsSettledIsNotSwept(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	peer := b.peer()
	answer(t, mayRun(t, peer, request(t, business)))
	lose(t, mayRun(t, peer, request(t, "refund:order-4812:3")))
	_, err := mayRun(t, peer, request(t, "refund:order-4812:4")).Release(proof(2))
	require.NoError(t, err)
	b.crash(peer)
	require.NoError(t, b.ledger.Sweep(context.Background()))
	for e, err := range b.ledger.List(context.Background(), dedup.Filter{}) {
		require.NoError(t, err)
		_, events, err := b.ledger.Get(context.Background(), e.ID)
		require.NoError(t, err)
		assert.Len(t, events, 2, e.State.String())
	}
}

func TestTheSweepRunsByItself(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	peer := b.peer()
	mayRun(t, peer, request(t, business))
	l, err := dedup.New(context.Background(), b.reference.Open(nil), dedup.Options{SweepEvery: time.Millisecond})
	require.NoError(t, err)
	b.crash(peer)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	require.NoError(t, l.Await(ctx, dedup.Busy{Entry: b.only()}))
	assert.Equal(t, dedup.Unknown, b.only().State)
	require.NoError(t, l.Close())
}

func TestOneOperationThatCannotBeSweptKeepsNoOtherFromIt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	doubtful, dead := b.peer(), b.peer()
	stuck := mayRun(t, doubtful, request(t, business)).Entry()
	free := mayRun(t, dead, request(t, "refund:order-4812:3")).Entry()
	last := mayRun(t, doubtful, request(t, "refund:order-4812:4")).Entry()
	b.crash(dead)
	cause := errors.New("the owner's file cannot be read")
	f := &faulty{Store: b.reference.Open(nil)}
	l := b.gateway(f)
	f.doubted, f.cause = stuck.Owner, cause
	require.ErrorIs(t, l.Sweep(context.Background()), cause)
	assert.Equal(t, dedup.Unknown, b.stands(free.ID).State)
	assert.Equal(t, dedup.Running, b.stands(stuck.ID).State)
	assert.Equal(t, dedup.Running, b.stands(last.ID).State)
	assert.IsType(t, dedup.Busy{}, begin(t, l, request(t, business)), "in doubt it runs")
}

// What a sweep has read may be old by the time that it writes.
func TestASweepLeavesAloneWhatHasGoneOnMeanwhile(t *testing.T) {
	t.Parallel()
	b, f := newFaultyBench(t)
	peer, other := b.peer(), b.peer()
	r := request(t, business, safeRetry)
	mayRun(t, peer, r)
	b.crash(peer)
	var lease *dedup.Lease
	f.seen = func(old []dedup.Entry) []dedup.Entry {
		require.Len(t, old, 1)
		lease = mayRun(t, other, r)
		gone := old[0]
		gone.ID = dedup.NewOperationID()
		return append(old, gone)
	}
	require.NoError(t, b.ledger.Sweep(context.Background()))
	e := b.only()
	assert.Equal(t, dedup.Running, e.State)
	assert.Equal(t, 2, e.Attempt)
	b.requireRows(e.ID, 1, 9, 17)
	answer(t, lease)
}

func TestALookAtWhatIsSettledAsksForNothingElse(t *testing.T) {
	t.Parallel()
	b, f := newFaultyBench(t)
	answer(t, mayRun(t, b.ledger, request(t, business)))
	f.in.Store(100)
	_, found, err := b.ledger.Look(context.Background(), request(t, business))
	require.NoError(t, err)
	require.True(t, found)
	assert.EqualValues(t, 99, f.in.Load())
}

// alarming starts a ledger that mends by itself, with a store that may fail.
func alarming(t *testing.T, f *faulty) (*dedup.Ledger, <-chan dedup.Alarm) {
	t.Helper()
	alarms := make(chan dedup.Alarm)
	ended := make(chan struct{})
	l, err := dedup.New(context.Background(), f, dedup.Options{SweepEvery: time.Millisecond, Alarm: func(a dedup.Alarm) {
		select {
		case alarms <- a:
		case <-ended:
		}
	}})
	require.NoError(t, err)
	t.Cleanup(func() {
		close(ended)
		require.NoError(t, l.Close())
	})
	return l, alarms
}

func TestASweepThatFailsAlarmsAndGoesOn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	f := &faulty{Store: b.reference.Open(nil), fault: refused}
	_, alarms := alarming(t, f)
	for range 2 {
		f.in.Store(1)
		a := <-alarms
		assert.Equal(t, "the ledger could not be swept; trying again", a.Problem)
		require.ErrorIs(t, a.Err, errInjected)
	}
}

func TestWhatCouldNotBeWrittenIsWrittenByItself(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	f := &faulty{Store: b.reference.Open(nil), fault: refused, moves: true}
	l, alarms := alarming(t, f)
	lease := mayRun(t, l, request(t, business))
	f.in.Store(1)
	completed := make(chan error)
	go func() {
		_, err := lease.Complete(dedup.Answer{Evidence: dedup.AnsweredResult})
		completed <- err
	}()
	assert.Equal(t, cannotWrite, (<-alarms).Problem)
	require.ErrorIs(t, <-completed, errInjected)
	assert.Equal(t, isWritten, (<-alarms).Problem)
	assert.Equal(t, dedup.Completed, b.only().State)
}
