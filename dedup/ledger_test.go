package dedup_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
)

func TestAFirstCallIsClaimedBeforeItRuns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := request(t, business, sending("params.client_token"))
	_, found, err := b.ledger.Look(context.Background(), r)
	require.NoError(t, err)
	require.False(t, found)

	lease := mayRun(t, b.ledger, r)
	e := b.stands(lease.Entry().ID)
	assert.Equal(t, lease.Entry(), e, "it is durable as it was leased")
	assert.Equal(t, dedup.Running, e.State)
	assert.Equal(t, 1, e.Attempt)
	assert.Equal(t, r.Scope, e.Scope)
	assert.Equal(t, r.Fingerprint, e.Fingerprint)
	assert.Equal(t, 1, e.FingerprintVersion)
	assert.Equal(t, "NON_RETRYABLE", e.Class)
	assert.Equal(t, "params.client_token", e.Downstream)
	assert.Equal(t, week, e.Window)
	assert.Equal(t, "refu… (19)", e.KeyHint)
	assert.JSONEq(t, `{"session":"s1"}`, string(e.Provenance))
	assert.Equal(t, b.store.Info().Owner, e.Owner)
	assert.Equal(t, b.clock.Now().Truncate(time.Millisecond), e.CreatedAt)
	assert.Equal(t, e.CreatedAt, e.ClaimedAt)
	assert.Nil(t, lease.Near())
	lease.Close()
}

func TestACallWithoutAKeyIsNotClaimed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, err := b.ledger.Begin(context.Background(), dedup.Request{})
	var refused *dedup.KeyError
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, dedup.KeyRequired, refused.Reason)
	for range b.ledger.List(context.Background(), dedup.Filter{}) {
		t.Fatal("something was claimed")
	}
}

func TestAnAnswerIsReplayed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer dedup.Answer
		want   dedup.Entry
		row    dedup.Row
	}{
		"a result":       {dedup.Answer{Evidence: dedup.AnsweredResult, Body: []byte(`{"a":1}`)}, dedup.Entry{Kept: dedup.KeptWhole, Result: []byte(`{"a":1}`)}, 5},
		"a task":         {dedup.Answer{Evidence: dedup.AnsweredResult, Body: []byte(`{}`), Reason: "task"}, dedup.Entry{Kept: dedup.KeptWhole, Result: []byte(`{}`), Reason: "task"}, 5},
		"an error":       {dedup.Answer{Evidence: dedup.AnsweredErrorResult, Body: []byte(`{"e":1}`)}, dedup.Entry{Kept: dedup.KeptWhole, Result: []byte(`{"e":1}`), IsError: true, Reason: dedup.ReasonUpstreamError}, 6},
		"an error reply": {dedup.Answer{Evidence: dedup.AnsweredErrorReply, Body: []byte(`{"c":1}`), Reason: "task"}, dedup.Entry{Kept: dedup.KeptWhole, Result: []byte(`{"c":1}`), IsError: true, Reason: dedup.ReasonUpstreamError}, 7},
		"the largest":    {dedup.Answer{Evidence: dedup.AnsweredResult, Body: make([]byte, dedup.MaxResultBytes)}, dedup.Entry{Kept: dedup.KeptWhole, Result: make([]byte, dedup.MaxResultBytes)}, 5},
		"one too large":  {dedup.Answer{Evidence: dedup.AnsweredResult, Body: make([]byte, dedup.MaxResultBytes+1)}, dedup.Entry{Kept: dedup.KeptTooLarge}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			r := request(t, business)
			lease := mayRun(t, b.ledger, r)
			b.clock.Advance(time.Second)
			settled, err := lease.Complete(c.answer)
			require.NoError(t, err)
			e := told[dedup.Replay](t, b.ledger, r).Entry
			for _, e := range []dedup.Entry{settled, e} {
				assert.Equal(t, dedup.Completed, e.State)
				assert.Equal(t, c.row, e.Row)
				assert.Equal(t, c.want.Kept, e.Kept)
				assert.Equal(t, c.want.IsError, e.IsError)
				assert.Equal(t, c.want.Reason, e.Reason)
				assert.Equal(t, b.clock.Now().Truncate(time.Millisecond), e.SettledAt)
			}
			assert.True(t, string(c.want.Result) == string(e.Result), "the recorded bytes")
			assert.NotEmpty(t, settled.ID)
			b.requireRows(e.ID, 1, c.row)
			b.requireQuiet()
		})
	}
}

func TestProofOfNoExecutionFreesTheKey(t *testing.T) {
	t.Parallel()
	for _, row := range []proof{2, 3, 4, 6} {
		t.Run(fmt.Sprint("row ", row), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			lease := mayRun(t, b.ledger, request(t, business))
			e, err := lease.Release(row)
			require.NoError(t, err)
			assert.Equal(t, dedup.Released, e.State)
			_, reason := row.ProvesNotExecuted()
			assert.Equal(t, dedup.Reason(reason), e.Reason)

			again := mayRun(t, b.ledger, request(t, business, arguments("43 dollars")))
			assert.Equal(t, e.ID, again.Entry().ID, "it stays one operation")
			assert.Equal(t, 2, again.Entry().Attempt)
			assert.Empty(t, again.Entry().Reason)
			assert.Equal(t, lease.DownstreamKey(), again.DownstreamKey())
			answer(t, again)
			b.requireRows(e.ID, 1, dedup.Row(row), 1, 5)
			b.requireQuiet()
		})
	}
}

func TestWhatIsNoProofFreesNoKey(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	lease := mayRun(t, b.ledger, request(t, business))
	_, err := lease.Release(proof(5)) // a row, but none of a proof
	require.NoError(t, err)
	assert.Equal(t, dedup.Running, b.only().State)
	require.NoError(t, b.ledger.Sweep(context.Background()))
	assert.Equal(t, dedup.Unknown, b.only().State, "nobody runs it any more, and nobody knows")
	told[dedup.Lost](t, b.ledger, request(t, business))
}

func TestOtherArgumentsConflict(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	lease := mayRun(t, b.ledger, request(t, business))
	other := request(t, business, arguments("43 dollars"))
	assert.Equal(t, dedup.ReasonKeyReused, told[dedup.Conflict](t, b.ledger, other).Reason)
	answer(t, lease)
	conflict := told[dedup.Conflict](t, b.ledger, other)
	assert.Equal(t, dedup.ReasonKeyReused, conflict.Reason)
	assert.Equal(t, lease.Entry().ID, conflict.Entry.ID)
}

func TestTheSameKeyElsewhereConflicts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	answer(t, mayRun(t, b.ledger, request(t, business)))
	for name, change := range map[string]func(*dedup.Request){
		"upstream": func(r *dedup.Request) { r.Scope.Upstream = "shop2" },
		"account":  func(r *dedup.Request) { r.Scope.Account = "/home" },
	} {
		got := told[dedup.Conflict](t, b.ledger, request(t, business, change))
		assert.Equal(t, dedup.ReasonScopeChanged, got.Reason, name)
	}
	for name, change := range map[string]func(*dedup.Request){
		"namespace": func(r *dedup.Request) { r.Scope.Namespace = "bob" },
		"tool":      func(r *dedup.Request) { r.Scope.Tool = "create_credit" },
	} {
		lease := mayRun(t, b.ledger, request(t, business, change))
		answer(t, lease)
		assert.NotEmpty(t, lease.Entry().ID, name)
	}
}

func TestTheWindowEndsSharply(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := request(t, business)
	lease := mayRun(t, b.ledger, r)
	b.clock.Advance(time.Hour)
	answer(t, lease)
	b.clock.Advance(week - time.Millisecond)
	told[dedup.Replay](t, b.ledger, r)
	b.clock.Advance(time.Millisecond)
	told[dedup.Expired](t, b.ledger, r)
	b.clock.Advance(10 * 52 * week)
	told[dedup.Expired](t, b.ledger, r)
	b.clock.Advance(-20 * 52 * week)
	told[dedup.Replay](t, b.ledger, r)
	assert.Equal(t, 1, b.only().Attempt)
}

func TestTheSameContentAsksForConfirmation(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := mayRun(t, b.ledger, request(t, business, confirming))
	second := request(t, "refund:order-4812:3", confirming)
	assert.Equal(t, dedup.ReasonNearDuplicateUnresolved, told[dedup.Duplicate](t, b.ledger, second).Reason)
	id := answer(t, first).ID
	duplicate := told[dedup.Duplicate](t, b.ledger, second)
	assert.Equal(t, dedup.ReasonNearDuplicate, duplicate.Reason)
	assert.Equal(t, id, duplicate.Entry.ID)
	mayRun(t, b.ledger, request(t, "refund:order-4812:4", confirming, arguments("43 dollars"))).Close()

	second.RepeatOf = id
	lease := mayRun(t, b.ledger, second)
	third := request(t, "refund:order-4812:5", confirming, repeating(id))
	assert.Equal(t, dedup.ReasonRepeatUnknown, told[dedup.Duplicate](t, b.ledger, third).Reason, "consumed")
	_, err := lease.Release(proof(2))
	require.NoError(t, err)
	answer(t, mayRun(t, b.ledger, third)) // given back
	assert.Equal(t, dedup.ReasonRepeatUnknown, told[dedup.Duplicate](t, b.ledger, second).Reason, "consumed by another")

	b.clock.Advance(nearby)
	answer(t, mayRun(t, b.ledger, request(t, "refund:order-4812:6", confirming)))
}

func TestWhatARepeatConsumedStaysConsumedAcrossAttempts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := answer(t, mayRun(t, b.ledger, request(t, business))).ID
	lose(t, mayRun(t, b.ledger, request(t, "refund:order-4812:3", safeRetry, repeating(id))))
	retry := mayRun(t, b.ledger, request(t, "refund:order-4812:3", safeRetry)) // without saying so again
	assert.Equal(t, id, retry.Entry().RepeatOf)
	answer(t, retry)
	got := told[dedup.Duplicate](t, b.ledger, request(t, "refund:order-4812:4", repeating(id)))
	assert.Equal(t, dedup.ReasonRepeatUnknown, got.Reason)
}

func TestWarningRunsAndTellsOfTheOther(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	warning := func(r *dedup.Request) { r.Near = dedup.Near{Mode: dedup.NearWarn, Within: nearby} }
	first := mayRun(t, b.ledger, request(t, business, warning))
	second := mayRun(t, b.ledger, request(t, "refund:order-4812:3", warning))
	require.NotNil(t, second.Near())
	assert.Equal(t, first.Entry().ID, second.Near().ID)
	third := mayRun(t, b.ledger, request(t, "refund:order-4812:4"))
	assert.Nil(t, third.Near(), "off")
	first.Close()
	second.Close()
	third.Close()
}

func TestOneOfManyCallersRuns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	gateways := []*dedup.Ledger{b.ledger, b.peer(), b.peer()}
	r := request(t, business)
	var leases, others atomic.Int64
	var callers sync.WaitGroup
	for i := range 60 {
		callers.Go(func() {
			v, err := gateways[i%len(gateways)].Begin(context.Background(), r)
			assert.NoError(t, err)
			if lease, ok := v.(*dedup.Lease); ok {
				leases.Add(1)
				_, err = lease.Complete(dedup.Answer{Evidence: dedup.AnsweredResult})
				assert.NoError(t, err)
			} else {
				others.Add(1)
			}
		})
	}
	callers.Wait()
	assert.EqualValues(t, 1, leases.Load())
	assert.EqualValues(t, 59, others.Load())
	assert.Equal(t, 1, b.only().Attempt)
	b.requireQuiet()
}

func TestWaitersWakeWhenItIsSettled(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := request(t, business)
	lease := mayRun(t, b.ledger, r)
	busy := told[dedup.Busy](t, b.ledger, r)
	woken := make(chan error, dedup.MaxWaiters)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for range dedup.MaxWaiters {
		go func() { woken <- b.ledger.Await(ctx, busy) }()
	}
	require.Eventually(t, func() bool { return b.ledger.Waiters(lease.Entry().ID) == dedup.MaxWaiters }, 10*time.Second, time.Millisecond)
	require.ErrorIs(t, b.ledger.Await(ctx, busy), dedup.ErrTooManyWaiters)
	other := mayRun(t, b.ledger, request(t, "refund:order-4812:3"))
	ended, end := context.WithCancel(context.Background())
	end()
	require.ErrorIs(t, b.ledger.Await(ended, dedup.Busy{Entry: other.Entry()}), context.Canceled, "the limit is per operation")
	other.Close()
	answer(t, lease)
	for range dedup.MaxWaiters {
		require.NoError(t, <-woken)
	}
	require.NoError(t, b.ledger.Await(ctx, busy), "and there is room again")
	b.requireQuiet()
}

func TestOperationsAreFoundWithinTheirNamespace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx := context.Background()
	r := request(t, business)
	id := answer(t, mayRun(t, b.ledger, r)).ID
	e, err := b.ledger.Operation(ctx, "ada", id)
	require.NoError(t, err)
	assert.JSONEq(t, `{"refund":1}`, string(e.Result))
	e, err = b.ledger.Operation(ctx, "bob", id)
	require.ErrorIs(t, err, dedup.ErrNotFound)
	assert.Equal(t, dedup.Entry{}, e)
	_, err = b.ledger.Operation(ctx, "ada", dedup.NewOperationID())
	require.ErrorIs(t, err, dedup.ErrNotFound)

	e, here, err := b.ledger.OperationOf(ctx, r.Scope, r.Key)
	require.NoError(t, err)
	assert.True(t, here)
	assert.Equal(t, id, e.ID)
	assert.JSONEq(t, `{"refund":1}`, string(e.Result))
	r.Scope.Namespace = "bob"
	_, _, err = b.ledger.OperationOf(ctx, r.Scope, r.Key)
	require.ErrorIs(t, err, dedup.ErrNotFound)
	_, _, err = b.ledger.Get(ctx, dedup.NewOperationID())
	require.ErrorIs(t, err, dedup.ErrNotFound)
	assert.Equal(t, b.store.Info().Since, b.ledger.Since())
}

func TestWhatWasSparedIsCounted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx := context.Background()
	r := request(t, business, confirming)
	lease := mayRun(t, b.ledger, r)
	for range 2 {
		begin(t, b.ledger, r) // busy: not counted
	}
	answer(t, lease)
	for range 3 {
		begin(t, b.ledger, r)
	}
	begin(t, b.ledger, request(t, business, arguments("43 dollars")))
	begin(t, b.ledger, request(t, "refund:order-4812:3", confirming))
	b.ledger.Refused(r.Scope)
	totals, err := b.ledger.Totals(ctx)
	require.NoError(t, err)
	require.Len(t, totals, 1)
	assert.Equal(t, map[dedup.TallyKind]int{
		dedup.TallyReplay: 3, dedup.TallyConflict: 1, dedup.TallyNearDuplicate: 1, dedup.TallyRefused: 1,
	}, totals[0].Tallies)
	assert.Equal(t, 3, b.only().Replays)
	assert.Equal(t, "shop", totals[0].Upstream)
	assert.Equal(t, "create_refund", totals[0].Tool)

	b.clock.Advance(week)
	begin(t, b.ledger, r)
	totals, err = b.ledger.Totals(ctx)
	require.NoError(t, err)
	assert.Equal(t, map[dedup.TallyKind]int{dedup.TallyConflict: 1}, totals[1].Tallies, "expired is one")
}
