package dedup_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// superseded is an operation whose first attempt was stranded open by a peer that
// seemed dead, and which runs again.
func superseded(t *testing.T, b *bench) (*dedup.Late, *dedup.Lease) {
	t.Helper()
	peer := b.peer()
	late := strand(t, mayRun(t, peer, request(t, business, safeRetry)))
	b.crash(peer)
	lease := mayRun(t, b.ledger, request(t, business, safeRetry))
	require.Equal(t, 2, lease.Entry().Attempt)
	return late, lease
}

func TestTheAnswerOfASupersededAttemptIsOnRecord(t *testing.T) {
	t.Parallel()
	for name, settle := range map[string]func(*dedup.Late) (dedup.Entry, error){
		"a result": func(l *dedup.Late) (dedup.Entry, error) {
			return l.Complete(dedup.Answer{Evidence: dedup.AnsweredResult, Body: []byte(`1`)})
		},
		"a refusal": func(l *dedup.Late) (dedup.Entry, error) { return l.Release(proof(3)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			late, lease := superseded(t, b)
			e, err := settle(late)
			require.NoError(t, err)
			assert.Equal(t, dedup.Running, e.State)
			assert.Equal(t, 2, e.Attempt, "it moves nothing")
			assert.Equal(t, []string{"an attempt was answered after a newer one had begun"}, b.heard())
			events := b.requireRows(e.ID, 1, 8, 8, 17, dedup.RowContradicted)
			assert.Equal(t, 1, events[4].Attempt)
			assert.Equal(t, dedup.Running, events[4].State)
			assert.Equal(t, "answer of a superseded attempt", events[4].Note)
			answer(t, lease)
			assert.JSONEq(t, `{"refund":1}`, string(b.only().Result), "the newer one's answer counts")
			b.requireQuiet()
		})
	}
}

func TestSilenceOfASupersededAttemptContradictsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	peer := b.peer()
	zombie := mayRun(t, peer, request(t, business, safeRetry))
	b.crash(peer)
	lease := mayRun(t, b.ledger, request(t, business, safeRetry))
	e, late, err := zombie.Strand(dedup.Stranding{Evidence: dedup.NoAnswer, OpenFor: lateness})
	require.NoError(t, err)
	assert.Nil(t, late, "only the newest attempt is listened for")
	assert.Equal(t, dedup.Running, e.State)
	b.requireRows(e.ID, 1, 9, 17)
	answer(t, lease)
	b.requireQuiet()
}

func TestASupersededAttemptThatWasNeverSentContradictsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	peer := b.peer()
	zombie := mayRun(t, peer, request(t, business, safeRetry))
	b.crash(peer)
	lease := mayRun(t, b.ledger, request(t, business, safeRetry))
	e, err := zombie.Release(proof(2))
	require.NoError(t, err)
	assert.Equal(t, dedup.Running, e.State)
	b.requireRows(e.ID, 1, 9, 17)
	answer(t, lease)
	b.requireQuiet()
}

func TestGivingUpASupersededAttemptLeavesTheNewerOneOpen(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	late, lease := superseded(t, b)
	newer := strand(t, lease)
	require.NoError(t, late.Close())
	assert.True(t, b.only().Open())
	require.NoError(t, newer.Close())
	assert.False(t, b.only().Open())
}

// resent is an operation whose first attempt may have executed, and which was
// sent again by a row.
func resent(t *testing.T, b *bench, class func(*dedup.Request), row dedup.Row) *dedup.Lease {
	t.Helper()
	first := mayRun(t, b.ledger, request(t, business, class))
	lose(t, first)
	lease := mayRun(t, b.ledger, request(t, business, class))
	require.Equal(t, row, lease.Entry().Row)
	require.Equal(t, row, lease.Entry().Doubt)
	require.Equal(t, first.DownstreamKey(), lease.DownstreamKey(), "the same key downstream")
	require.Empty(t, lease.Entry().Reason)
	return lease
}

func TestWhatAnAttemptInDoubtProves(t *testing.T) {
	t.Parallel()
	completed := func(evidence dedup.Evidence) func(*dedup.Lease) (dedup.Entry, error) {
		return func(l *dedup.Lease) (dedup.Entry, error) {
			return l.Complete(dedup.Answer{Evidence: evidence, Body: []byte(`{"e":1}`)})
		}
	}
	released := func(p proof) func(*dedup.Lease) (dedup.Entry, error) {
		return func(l *dedup.Lease) (dedup.Entry, error) { return l.Release(p) }
	}
	for name, c := range map[string]struct {
		settle            func(*dedup.Lease) (dedup.Entry, error)
		withKey, repeated dedup.State // after rows 16 and 17
	}{
		"a result":         {completed(dedup.AnsweredResult), dedup.Completed, dedup.Completed},
		"an error":         {completed(dedup.AnsweredErrorResult), dedup.Unknown, dedup.Completed},
		"an error reply":   {completed(dedup.AnsweredErrorReply), dedup.Unknown, dedup.Completed},
		"unsent":           {released(2), dedup.Unknown, dedup.Unknown},
		"refused":          {released(3), dedup.Unknown, dedup.Unknown},
		"a URL":            {released(4), dedup.Unknown, dedup.Unknown},
		"nothing happened": {released(6), dedup.Unknown, dedup.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for row, want := range map[dedup.Row]dedup.State{16: c.withKey, 17: c.repeated} {
				b := newBench(t)
				lease := resent(t, b, map[dedup.Row]func(*dedup.Request){16: deduplicate, 17: safeRetry}[row], row)
				e, err := c.settle(lease)
				require.NoError(t, err)
				require.Equal(t, want, e.State, "after row %d", row)
				stored := b.only()
				require.Equal(t, want, stored.State)
				require.Equal(t, row, stored.Doubt)
				if want == dedup.Unknown {
					require.False(t, stored.IsError, "an error about it is no answer of it")
					require.Equal(t, dedup.KeptNone, stored.Kept)
					require.Empty(t, stored.Result)
					require.NotEqual(t, dedup.ReasonUpstreamError, stored.Reason)
					require.Equal(t, dedup.Row(16), stored.Row)
				}
				b.requireQuiet()
			}
		})
	}
}

func TestAnAmbiguousErrorSaysSo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, err := resent(t, b, deduplicate, 16).Complete(dedup.Answer{Evidence: dedup.AnsweredErrorResult})
	require.NoError(t, err)
	assert.Equal(t, dedup.ReasonAmbiguousError, b.only().Reason)
}

func TestALateProofOfAnAttemptInDoubtFreesNoKey(t *testing.T) {
	t.Parallel()
	for _, row := range []proof{3, 4, 6} {
		b := newBench(t)
		late := strand(t, resent(t, b, safeRetry, 17))
		e, err := late.Release(row)
		require.NoError(t, err)
		assert.Equal(t, dedup.Unknown, e.State, "row %d", row)
		assert.False(t, b.only().Open())
		b.requireQuiet()
	}
}

func TestAKeyThatTheUpstreamNeverSawIsNotSentAgain(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]func(*dedup.Request){
		"none was sent":                sending(""),
		"it was sent elsewhere":        sending("params.request_id"),
		"it was sent in another form":  sending("params.client_token raw"),
		"another class, and no key":    func(r *dedup.Request) { r.Class, r.OnUnknown, r.Downstream = "NON_RETRYABLE", dedup.OnUnknown{}, "" },
		"its name differs in one byte": sending("params.client_tokeN"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			lose(t, mayRun(t, b.ledger, request(t, business, deduplicate, first)))
			told[dedup.Lost](t, b.ledger, request(t, business, deduplicate, said))
			assert.Equal(t, 1, b.only().Attempt)
			b.requireQuiet()
		})
	}
}

func TestAnAttemptInAnotherFormEndsSendingAgainUntilAProof(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	resend := request(t, business, deduplicate, said)
	again := request(t, business, safeRetry, said, sending("params.request_id"))
	lose(t, mayRun(t, b.ledger, resend))
	lose(t, mayRun(t, b.ledger, again))
	assert.Empty(t, b.only().Downstream)
	told[dedup.Lost](t, b.ledger, resend)
	again.Downstream = resend.Downstream
	lose(t, mayRun(t, b.ledger, again))
	told[dedup.Lost](t, b.ledger, resend) // one of the three may have executed and not have carried it

	_, err := b.ledger.Resolve(context.Background(), b.only().ID, dedup.Resolution{By: "ada", Note: "looked"})
	require.NoError(t, err)
	lose(t, mayRun(t, b.ledger, resend))
	assert.Equal(t, resend.Downstream, b.only().Downstream)
	lease := mayRun(t, b.ledger, resend)
	assert.Equal(t, dedup.Row(16), lease.Entry().Row)
	answer(t, lease)
	b.requireQuiet()
}

func TestAnAttemptInTheSameFormKeepsSendingAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	resend := request(t, business, deduplicate, said)
	lose(t, mayRun(t, b.ledger, resend))
	lose(t, mayRun(t, b.ledger, request(t, business, safeRetry, said, sending(resend.Downstream))))
	lease := mayRun(t, b.ledger, resend)
	assert.Equal(t, dedup.Row(16), lease.Entry().Row)
	assert.Equal(t, resend.Downstream, lease.Entry().Downstream)
	answer(t, lease)
	b.requireQuiet()
}

func TestTheUpstreamsWindowEndsSharply(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := request(t, business, deduplicate)
	lose(t, mayRun(t, b.ledger, r))
	b.clock.Advance(24*time.Hour - 10*time.Minute - time.Millisecond)
	lose(t, mayRun(t, b.ledger, r))
	b.clock.Advance(time.Millisecond)
	assert.IsType(t, dedup.Lost{}, begin(t, b.ledger, r))
}

func TestASupersededAttemptIsNotStrandedThoughTheNewerOneIsOpen(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	peer := b.peer()
	zombie := mayRun(t, peer, request(t, business, safeRetry))
	b.crash(peer)
	newer := strand(t, mayRun(t, b.ledger, request(t, business, safeRetry)))
	_, late, err := zombie.Strand(dedup.Stranding{Evidence: dedup.NoAnswer, OpenFor: lateness})
	require.NoError(t, err)
	assert.Nil(t, late, "it would settle the newer one")
	require.NoError(t, newer.Close())
}

func TestASupersededAttemptIsForgottenThoughTheNewerOneIsOpen(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	peer := b.peer()
	late := strand(t, mayRun(t, peer, request(t, business, safeRetry)))
	b.crash(peer)
	newer := strand(t, mayRun(t, b.ledger, request(t, business, safeRetry)))
	_, err := late.Complete(dedup.Answer{Evidence: dedup.AnsweredResult})
	require.NoError(t, err)
	assert.Zero(t, peer.Remembers())
	assert.True(t, b.only().Open(), "the newer one is listened for")
	require.NoError(t, newer.Close())
}
