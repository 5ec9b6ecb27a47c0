package dedup_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// newFaultyBench is a bench whose first gateway has a faulty store.
func newFaultyBench(t *testing.T) (*bench, *faulty) {
	t.Helper()
	b := newBench(t)
	f := &faulty{Store: b.reference.Open(nil)}
	b.store, b.ledger = f, b.gateway(f)
	return b, f
}

const (
	cannotWrite = "an answer could not be written to the ledger; trying again"
	isWritten   = "the answer is written now"
)

func TestASettlementThatCannotBeWrittenIsWrittenLater(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		settle func(*dedup.Lease) (dedup.Entry, error)
		state  dedup.State
		rows   []dedup.Row
	}{
		"complete": {func(l *dedup.Lease) (dedup.Entry, error) {
			return l.Complete(dedup.Answer{Evidence: dedup.AnsweredResult, Body: []byte(`{"refund":1}`)})
		}, dedup.Completed, []dedup.Row{1, 5}},
		"release": {func(l *dedup.Lease) (dedup.Entry, error) { return l.Release(proof(3)) }, dedup.Released, []dedup.Row{1, 3}},
		"strand": {func(l *dedup.Lease) (dedup.Entry, error) {
			e, late, err := l.Strand(dedup.Stranding{Evidence: dedup.NoAnswer, Reason: dedup.ReasonTimeout})
			assert.Nil(t, late)
			return e, err
		}, dedup.Unknown, []dedup.Row{1, 8}},
	} {
		for _, how := range faults {
			t.Run(name+" "+string(how), func(t *testing.T) {
				t.Parallel()
				b, f := newFaultyBench(t)
				r := request(t, business)
				lease := mayRun(t, b.ledger, r)
				f.failNext(how)
				e, err := c.settle(lease)
				require.ErrorIs(t, err, errInjected)
				assert.Equal(t, c.state, e.State, "how it would stand")
				assert.Equal(t, []string{cannotWrite}, b.heard())
				if how != obscured {
					require.NoError(t, b.ledger.Sweep(context.Background()))
					assert.Equal(t, dedup.Running, b.only().State, "it is not swept meanwhile")
					f.failNext(how)
					b.ledger.WriteUnwritten()
					assert.Equal(t, []string{cannotWrite}, b.heard(), "and again")
				}
				b.ledger.WriteUnwritten()
				assert.Equal(t, []string{isWritten}, b.heard())
				stored := b.only()
				assert.Equal(t, c.state, stored.State)
				assert.Equal(t, e.Result, stored.Result)
				assert.Equal(t, e.Reason, stored.Reason)
				b.requireRows(stored.ID, c.rows...)
				b.ledger.WriteUnwritten()
				b.requireQuiet()
			})
		}
	}
}

func TestAnOpenStrandingThatWasWrittenLateIsClosed(t *testing.T) {
	t.Parallel()
	for _, how := range faults {
		b, f := newFaultyBench(t)
		lease := mayRun(t, b.ledger, request(t, business))
		f.failNext(how)
		_, late, err := lease.Strand(dedup.Stranding{Evidence: dedup.NoAnswer, Reason: dedup.ReasonTimeout, OpenFor: lateness})
		require.ErrorIs(t, err, errInjected)
		assert.Nil(t, late)
		b.ledger.WriteUnwritten()
		require.NoError(t, b.ledger.Sweep(context.Background()))
		assert.Equal(t, dedup.Unknown, b.only().State)
		assert.False(t, b.only().Open(), "nobody listens")
		assert.Zero(t, b.ledger.Remembers())
	}
}

func TestALateAnswerThatCannotBeWrittenIsWrittenLater(t *testing.T) {
	t.Parallel()
	for _, how := range faults {
		b, f := newFaultyBench(t)
		late := strand(t, mayRun(t, b.ledger, request(t, business)))
		f.failNext(how)
		e, err := late.Complete(dedup.Answer{Evidence: dedup.AnsweredResult, Body: []byte(`{"refund":1}`)})
		require.ErrorIs(t, err, errInjected)
		assert.Equal(t, dedup.Completed, e.State)
		b.ledger.WriteUnwritten()
		b.requireRows(b.only().ID, 1, 8, 12)
		assert.JSONEq(t, `{"refund":1}`, string(b.only().Result))
		assert.Equal(t, []string{cannotWrite, isWritten}, b.heard())
		b.requireQuiet()
	}
}

func TestGivingUpThatCannotBeWrittenIsSwept(t *testing.T) {
	t.Parallel()
	b, f := newFaultyBench(t)
	late := strand(t, mayRun(t, b.ledger, request(t, business)))
	f.failNext(refused)
	require.ErrorIs(t, late.Close(), errInjected)
	require.True(t, b.only().Open())
	require.NoError(t, b.ledger.Sweep(context.Background()))
	assert.False(t, b.only().Open())
	b.requireQuiet()
}

func TestClosingWritesWhatWasNotWritten(t *testing.T) {
	t.Parallel()
	b, f := newFaultyBench(t)
	lease := mayRun(t, b.ledger, request(t, business))
	f.failNext(refused)
	_, err := lease.Complete(dedup.Answer{Evidence: dedup.AnsweredResult})
	require.Error(t, err)
	b.shut(b.ledger)
	b.ledger = b.peer()
	assert.Equal(t, dedup.Completed, b.only().State)
}

func TestWhatACrashKeptFromBeingWrittenIsUnknown(t *testing.T) {
	t.Parallel()
	b, f := newFaultyBench(t)
	lease := mayRun(t, b.ledger, request(t, business))
	f.failNext(refused)
	_, err := lease.Complete(dedup.Answer{Evidence: dedup.AnsweredResult})
	require.Error(t, err)
	b.crash(b.ledger)
	b.ledger = b.peer()
	told[dedup.Lost](t, b.ledger, request(t, business))
}

func TestAClaimThatCannotBeWrittenRunsNothing(t *testing.T) {
	t.Parallel()
	for _, how := range faults {
		t.Run(string(how), func(t *testing.T) {
			t.Parallel()
			b, f := newFaultyBench(t)
			r := request(t, business)
			f.failNext(how)
			v, err := b.ledger.Begin(context.Background(), r)
			require.ErrorIs(t, err, errInjected)
			require.Nil(t, v)
			lease := mayRun(t, b.ledger, r) // it frees its own key
			e := answer(t, lease)
			if how == obscured {
				b.requireRows(e.ID, 1, 2, 1, 5)
			} else {
				b.requireRows(e.ID, 1, 5)
			}
		})
	}
}

func TestAClaimInDoubtIsFreedByTheSweep(t *testing.T) {
	t.Parallel()
	b, f := newFaultyBench(t)
	peer := b.peer()
	f.failNext(obscured)
	_, err := b.ledger.Begin(context.Background(), request(t, business))
	require.ErrorIs(t, err, dedup.ErrAmbiguous)
	told[dedup.Busy](t, peer, request(t, business))
	require.NoError(t, peer.Sweep(context.Background()))
	assert.Equal(t, dedup.Running, b.only().State, "only its owner knows that it was not sent")
	require.NoError(t, b.ledger.Sweep(context.Background()))
	e := b.only()
	assert.Equal(t, dedup.Released, e.State)
	assert.Equal(t, dedup.ReasonUnreachable, e.Reason)
	b.requireQuiet()
	mayRun(t, peer, request(t, business)).Close()
}

func TestAClaimInDoubtOfAnAttemptInDoubtIsUnknown(t *testing.T) {
	t.Parallel()
	b, f := newFaultyBench(t)
	r := request(t, business, safeRetry)
	lose(t, mayRun(t, b.ledger, r))
	f.failNext(obscured)
	_, err := b.ledger.Begin(context.Background(), r)
	require.ErrorIs(t, err, dedup.ErrAmbiguous)
	require.NoError(t, b.ledger.Sweep(context.Background()))
	e := b.only()
	assert.Equal(t, dedup.Unknown, e.State, "the first attempt may have executed")
	b.requireRows(e.ID, 1, 8, 17, 16)
	b.requireQuiet()
}

// A claim that was in doubt and did not take effect says nothing about a later
// claim of the same attempt, which was sent.
func TestAClaimThatWasSentIsNotTakenForTheOneInDoubt(t *testing.T) {
	t.Parallel()
	b, f := newFaultyBench(t)
	r := request(t, business)
	_, err := mayRun(t, b.ledger, r).Release(proof(2))
	require.NoError(t, err)
	f.failNext(lost)
	_, err = b.ledger.Begin(context.Background(), r)
	require.ErrorIs(t, err, dedup.ErrAmbiguous)
	lease := mayRun(t, b.ledger, r)
	require.Equal(t, 2, lease.Entry().Attempt)
	_, err = lease.Release(proof(5)) // no proof: nobody runs it any more
	require.NoError(t, err)
	require.NoError(t, b.ledger.Sweep(context.Background()))
	assert.Equal(t, dedup.Unknown, b.only().State)
}

func TestAnErrorInDoubtIsWrittenLaterToo(t *testing.T) {
	t.Parallel()
	for _, how := range faults {
		b, f := newFaultyBench(t)
		lease := resent(t, b, deduplicate, 16)
		f.failNext(how)
		e, err := lease.Complete(dedup.Answer{Evidence: dedup.AnsweredErrorResult})
		require.ErrorIs(t, err, errInjected)
		assert.Equal(t, dedup.Unknown, e.State)
		b.ledger.WriteUnwritten()
		b.requireRows(e.ID, 1, 8, 16, 16)
		assert.Equal(t, dedup.Unknown, b.only().State, string(how))
		assert.Equal(t, []string{cannotWrite, isWritten}, b.heard())
		b.requireQuiet()
	}
}

// resolvedMeanwhile is an operation whose late answer could not be written, and
// which a person has settled since.
func resolvedMeanwhile(t *testing.T, executed bool) *bench {
	t.Helper()
	b, f := newFaultyBench(t)
	late := strand(t, mayRun(t, b.ledger, request(t, business)))
	f.failNext(refused)
	_, err := late.Complete(dedup.Answer{Evidence: dedup.AnsweredResult})
	require.ErrorIs(t, err, errInjected)
	word := dedup.Resolution{Executed: executed, By: "ada", Note: "looked", Force: true}
	_, err = b.ledger.Resolve(context.Background(), b.only().ID, word)
	require.NoError(t, err)
	require.Equal(t, []string{cannotWrite}, b.heard())
	return b
}

func TestAnAnswerThatIsWrittenAfterAnotherSettlementIsOnRecord(t *testing.T) {
	t.Parallel()
	b := resolvedMeanwhile(t, true)
	b.ledger.WriteUnwritten()
	b.requireRows(b.only().ID, 1, 8, 15, dedup.RowContradicted)
	assert.Equal(t, []string{"an answer came although the operation was settled as completed", isWritten}, b.heard())
}

func TestAnAnswerThatIsWrittenAfterANewerAttemptsIsOnRecord(t *testing.T) {
	t.Parallel()
	b := resolvedMeanwhile(t, false)
	late := strand(t, mayRun(t, b.ledger, request(t, business)))
	_, err := late.Complete(dedup.Answer{Evidence: dedup.AnsweredResult})
	require.NoError(t, err)
	b.ledger.WriteUnwritten()
	b.requireRows(b.only().ID, 1, 8, 15, 1, 8, 12, dedup.RowContradicted)
	assert.Equal(t, []string{"an attempt was answered after a newer one had begun", isWritten}, b.heard())
}

func TestAContradictionThatCannotBeWrittenIsWrittenLater(t *testing.T) {
	t.Parallel()
	b, f := newFaultyBench(t)
	late := strand(t, mayRun(t, b.ledger, request(t, business)))
	id := b.only().ID
	_, err := b.ledger.Resolve(context.Background(), id, dedup.Resolution{Executed: true, By: "ada", Note: "looked"})
	require.NoError(t, err)
	f.failNext(lost)
	_, err = late.Complete(dedup.Answer{Evidence: dedup.AnsweredResult})
	require.ErrorIs(t, err, errInjected)
	b.ledger.WriteUnwritten()
	b.requireRows(id, 1, 8, 15, dedup.RowContradicted)
	assert.Equal(t, []string{cannotWrite, "an answer came although the operation was settled as completed", isWritten}, b.heard())
	b.requireQuiet()
}

func TestFailuresToReadAreTold(t *testing.T) {
	t.Parallel()
	b, f := newFaultyBench(t)
	ctx := context.Background()
	r := request(t, business)
	f.failNext(refused)
	_, found, err := b.ledger.Look(ctx, r)
	require.ErrorIs(t, err, errInjected)
	assert.False(t, found)
	f.failNext(refused)
	_, _, err = b.ledger.OperationOf(ctx, r.Scope, r.Key)
	require.ErrorIs(t, err, errInjected)
	f.failNext(refused)
	require.ErrorIs(t, b.ledger.Sweep(ctx), errInjected)
	f.failNext(refused)
	_, err = dedup.New(ctx, f, dedup.Options{})
	require.ErrorIs(t, err, errInjected)
	answer(t, mayRun(t, b.ledger, r))
	f.fault = refused
	f.in.Store(2) // the claim says no, and the look after it fails
	_, err = b.ledger.Begin(ctx, r)
	require.ErrorIs(t, err, errInjected)
}

// Whichever operation of the store fails, and however: no key has more than one
// effect, nothing is completed that had none, nothing is free that had one, and
// in the end every caller has an answer.
func TestWhicheverOperationFailsNoEffectIsDoubled(t *testing.T) {
	t.Parallel()
	for _, how := range faults {
		t.Run(string(how), func(t *testing.T) {
			t.Parallel()
			n := 1
			for ; ; n++ {
				b, f := newFaultyBench(t)
				f.fault = how
				f.in.Store(int64(n))
				w := &story{t: t, bench: b, effects: map[string]int{}, name: fmt.Sprintf("operation %d %s", n, how)}
				w.tell()
				if f.in.Load() > 0 {
					break // the fault did not happen any more
				}
			}
			assert.Greater(t, n, 20, "the story has that many operations")
		})
	}
}
