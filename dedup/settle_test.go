package dedup_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
)

func TestALeaseIsSettledOnce(t *testing.T) {
	t.Parallel()
	settle := map[string]func(*dedup.Lease){
		"complete": func(l *dedup.Lease) { _, _ = l.Complete(dedup.Answer{Evidence: dedup.AnsweredResult}) },
		"release":  func(l *dedup.Lease) { _, _ = l.Release(proof(2)) },
		"strand":   func(l *dedup.Lease) { _, _, _ = l.Strand(dedup.Stranding{Evidence: dedup.NoAnswer}) },
		"close":    (*dedup.Lease).Close,
	}
	for first := range settle {
		for second := range settle {
			t.Run(first+" then "+second, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				lease := mayRun(t, b.ledger, request(t, business))
				settle[first](lease)
				before := b.only()
				if second == "close" {
					settle[second](lease)
				} else {
					assert.PanicsWithValue(t, "dedup: a lease is settled once", func() { settle[second](lease) })
				}
				assert.Equal(t, before, b.only())
				b.requireQuiet()
			})
		}
	}
}

func TestClosingAndSettlingAtOnceSettlesOnce(t *testing.T) {
	t.Parallel()
	for range 200 {
		b := newBench(t)
		lease := mayRun(t, b.ledger, request(t, business))
		var racers sync.WaitGroup
		for range 3 {
			racers.Go(lease.Close)
		}
		racers.Wait()
		b.requireRows(b.only().ID, 1, 8)
	}
}

func TestForgettingToSettleStrands(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := request(t, business)
	mayRun(t, b.ledger, r).Close()
	e := told[dedup.Lost](t, b.ledger, r).Entry
	assert.Equal(t, dedup.ReasonConnectionLost, e.Reason)
	events := b.requireRows(e.ID, 1, 8)
	assert.Equal(t, "the attempt ended without a settlement", events[1].Note)
	b.requireQuiet()
}

func TestAStrandedCallIsUnknown(t *testing.T) {
	t.Parallel()
	for evidence, row := range map[dedup.Evidence]dedup.Row{dedup.NoAnswer: 8, dedup.AmbiguousResult: 6, dedup.AmbiguousReply: 7} {
		b := newBench(t)
		r := request(t, business)
		e, late, err := mayRun(t, b.ledger, r).Strand(dedup.Stranding{Evidence: evidence, Reason: dedup.ReasonTimeout, Note: "after 30 s"})
		require.NoError(t, err)
		assert.Nil(t, late, "no answer is waited for")
		assert.Equal(t, dedup.Unknown, e.State)
		assert.Equal(t, dedup.ReasonTimeout, told[dedup.Lost](t, b.ledger, r).Entry.Reason)
		assert.Equal(t, "after 30 s", b.requireRows(e.ID, 1, row)[1].Note)
		b.requireQuiet()
	}
}

func TestALateAnswerSettles(t *testing.T) {
	t.Parallel()
	result := func(l *dedup.Late) (dedup.Entry, error) {
		return l.Complete(dedup.Answer{Evidence: dedup.AnsweredResult, Body: []byte(`{"refund":1}`)})
	}
	failure := func(evidence dedup.Evidence) func(*dedup.Late) (dedup.Entry, error) {
		return func(l *dedup.Late) (dedup.Entry, error) {
			return l.Complete(dedup.Answer{Evidence: evidence, Body: []byte(`{"no":1}`)})
		}
	}
	release := func(p proof) func(*dedup.Late) (dedup.Entry, error) {
		return func(l *dedup.Late) (dedup.Entry, error) { return l.Release(p) }
	}
	for name, c := range map[string]struct {
		settle func(*dedup.Late) (dedup.Entry, error)
		state  dedup.State
		row    dedup.Row
		note   string
		reason dedup.Reason
	}{
		"a result":                  {result, dedup.Completed, 12, "late answer", ""},
		"an error":                  {failure(dedup.AnsweredErrorResult), dedup.Completed, 12, "late answer", dedup.ReasonUpstreamError},
		"an error reply":            {failure(dedup.AnsweredErrorReply), dedup.Completed, 12, "late answer", dedup.ReasonUpstreamError},
		"a refusal":                 {release(3), dedup.Released, 12, "late answer", ""},
		"a URL":                     {release(4), dedup.Released, 12, "late answer", ""},
		"nothing happened":          {release(6), dedup.Released, 12, "late answer", ""},
		"unsent, which is too late": {release(2), dedup.Unknown, dedup.RowContradicted, "no evidence of the effect", dedup.ReasonTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			r := request(t, business)
			late := strand(t, mayRun(t, b.ledger, r))
			busy := told[dedup.Busy](t, b.ledger, r).Entry
			assert.Equal(t, busy.SettledAt.Add(lateness), busy.OpenUntil)
			require.NoError(t, b.ledger.Sweep(context.Background()))
			assert.True(t, b.only().Open(), "somebody listens")
			b.clock.Advance(time.Minute)

			e, err := c.settle(late)
			require.NoError(t, err)
			assert.Equal(t, c.state, e.State)
			assert.Equal(t, c.reason, e.Reason)
			stored := b.only()
			assert.Equal(t, c.state, stored.State)
			assert.False(t, stored.Open())
			assert.Equal(t, c.note, b.requireRows(e.ID, 1, 8, c.row)[2].Note)
			require.NoError(t, late.Close(), "closing after it does nothing")
			b.requireRows(e.ID, 1, 8, c.row)
			b.requireQuiet()
		})
	}
}

func TestGivingUpWaitingLeavesItUnknown(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := request(t, business)
	late := strand(t, mayRun(t, b.ledger, r))
	require.NoError(t, late.Close())
	e := told[dedup.Lost](t, b.ledger, r).Entry
	assert.Equal(t, "no late answer", b.requireRows(e.ID, 1, 8, 8)[2].Note)
	b.requireQuiet()
}

// The waiters of an attempt wake at the moment that it is stranded, and look:
// somebody must be known to listen by then.
func TestAnAttemptIsListenedToFromTheMomentItIsStranded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := request(t, business)
	f := &faulty{Store: b.reference.Open(nil)}
	l := b.gateway(f)
	lease := mayRun(t, l, r)
	f.after = func() { // the move is committed, and has not returned
		v, found, err := l.Look(context.Background(), r)
		assert.NoError(t, err)
		assert.True(t, found)
		assert.IsType(t, dedup.Busy{}, v)
		assert.NoError(t, l.Sweep(context.Background()))
	}
	late := strand(t, lease)
	f.after = nil
	assert.True(t, b.only().Open())
	require.NoError(t, late.Close())
	assert.Zero(t, l.Remembers())
}

func TestAnAnswerAfterAnotherSettlementIsOnRecord(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	late := strand(t, mayRun(t, b.ledger, request(t, business)))
	id := b.only().ID
	_, err := b.ledger.Resolve(context.Background(), id, dedup.Resolution{Executed: true, By: "ada", Note: "seen in the shop"})
	require.NoError(t, err)
	e, err := late.Complete(dedup.Answer{Evidence: dedup.AnsweredResult, Body: []byte(`1`)})
	require.NoError(t, err)
	assert.Equal(t, dedup.Completed, e.State)
	assert.Empty(t, b.only().Result)
	assert.Equal(t, []string{"an answer came although the operation was settled as completed"}, b.heard())
	events := b.requireRows(id, 1, 8, 15, dedup.RowContradicted)
	assert.Equal(t, "answer after the operation was settled", events[3].Note)
	b.requireQuiet()
}

func TestALateAnswerAgainstAPersonsWordAlarms(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	late := strand(t, mayRun(t, b.ledger, request(t, business)))
	id := b.only().ID
	_, err := b.ledger.Resolve(context.Background(), id, dedup.Resolution{By: "ada", Note: "not in the shop", Force: true})
	require.NoError(t, err)
	e, err := late.Complete(dedup.Answer{Evidence: dedup.AnsweredResult, Body: []byte(`{"refund":1}`)})
	require.NoError(t, err)
	assert.Equal(t, dedup.Completed, e.State)
	assert.Equal(t, []string{"the evidence that nothing was executed was wrong: the upstream has answered"}, b.heard())
	b.requireRows(id, 1, 8, 15, 18)
	assert.JSONEq(t, `{"refund":1}`, string(told[dedup.Replay](t, b.ledger, request(t, business)).Entry.Result))
	b.requireQuiet()
}
