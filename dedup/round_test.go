package dedup_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// continuing makes a call the answer to a question that came with a state; empty:
// without one.
func continuing(state, answers string) func(*dedup.Request) {
	return func(r *dedup.Request) {
		r.Continues = &dedup.Continuation{State: stateOf(state), Answers: sha256.Sum256([]byte(answers))}
	}
}

func stateOf(state string) dedup.Digest {
	if state == "" {
		return dedup.Digest{}
	}
	return sha256.Sum256([]byte(state))
}

// asks has the upstream ask for input.
func asks(t testing.TB, lease *dedup.Lease, state, body string) dedup.Entry {
	t.Helper()
	e, err := lease.Ask(dedup.Question{Body: []byte(body), State: stateOf(state)})
	require.NoError(t, err)
	require.Equal(t, dedup.AwaitingInput, e.State)
	return e
}

func TestAQuestionIsToldAgainUntilItIsAnswered(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	plain := request(t, business)
	lease := mayRun(t, b.ledger, plain)
	e := asks(t, lease, "s1", `{"ask":1}`)
	assert.Equal(t, dedup.ReasonInputRequired, e.Reason)
	assert.Equal(t, b.clock.Now().UTC().Truncate(time.Millisecond).Add(dedup.DefaultInputWindow), e.InputUntil)
	for _, l := range []*dedup.Ledger{b.ledger, b.peer()} {
		asked := told[dedup.Asked](t, l, plain)
		assert.Equal(t, `{"ask":1}`, string(asked.Entry.Result))
	}

	again := mayRun(t, b.ledger, request(t, business, continuing("s1", "yes")))
	assert.Equal(t, 1, again.Entry().Attempt, "the same attempt")
	assert.Equal(t, 1, again.Entry().Round)
	assert.Equal(t, lease.DownstreamKey(), again.DownstreamKey())
	told[dedup.Busy](t, b.ledger, plain)
	told[dedup.Busy](t, b.ledger, request(t, business, continuing("s1", "yes")))
	answer(t, again)
	assert.JSONEq(t, `{"refund":1}`, string(told[dedup.Replay](t, b.ledger, plain).Entry.Result))
	assert.JSONEq(t, `{"refund":1}`, string(told[dedup.Replay](t, b.ledger, request(t, business, continuing("s1", "no"))).Entry.Result), "the first answer counts")
	b.requireRows(e.ID, 1, 10, 11, 5)
	b.requireQuiet()
}

func TestAConsumedContinuationGetsWhatItWasAnsweredWith(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	asks(t, mayRun(t, b.ledger, request(t, business)), "s1", `{"ask":1}`)
	asks(t, mayRun(t, b.ledger, request(t, business, continuing("s1", "a"))), "s2", `{"ask":2}`)
	asks(t, mayRun(t, b.ledger, request(t, business, continuing("s2", "b"))), "s3", `{"ask":3}`)
	requireTold := func() {
		t.Helper()
		for state, want := range map[string]string{"s1": `{"ask":2}`, "s2": `{"ask":3}`} {
			asked := told[dedup.Asked](t, b.ledger, request(t, business, continuing(state, "x")))
			assert.Equal(t, want, string(asked.Entry.Result), state)
		}
	}
	requireTold()
	assert.Equal(t, `{"ask":3}`, string(told[dedup.Asked](t, b.ledger, request(t, business)).Entry.Result))
	last := mayRun(t, b.ledger, request(t, business, continuing("s3", "c")))
	requireTold()
	answer(t, last)
	requireTold()
	told[dedup.Replay](t, b.ledger, request(t, business, continuing("s3", "c")))
	b.clock.Advance(week)
	require.NoError(t, b.ledger.Sweep(context.Background()))
	for _, state := range []string{"s1", "s2", "s3"} {
		told[dedup.Expired](t, b.ledger, request(t, business, continuing(state, "x")))
	}
	b.requireQuiet()
}

func TestAnAnswerToNoQuestionIsStray(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	stray := func(change ...func(*dedup.Request)) dedup.Stray {
		t.Helper()
		return told[dedup.Stray](t, b.ledger, request(t, business, change...))
	}
	assert.Equal(t, dedup.Stray{Reason: dedup.ReasonInputUnknown}, stray(continuing("s1", "a")), "there is no such key")
	lease := mayRun(t, b.ledger, request(t, business))
	assert.Equal(t, dedup.ReasonInputUnknown, stray(continuing("s1", "a")).Reason, "nothing was asked yet")
	e := asks(t, lease, "s1", "{}")
	for _, state := range []string{"s2", ""} {
		got := stray(continuing(state, "a"))
		assert.Equal(t, dedup.ReasonInputUnknown, got.Reason)
		assert.Equal(t, e.ID, got.Entry.ID)
	}
	other := request(t, business, continuing("s1", "a"), arguments("43 dollars"))
	assert.Equal(t, dedup.ReasonKeyReused, told[dedup.Conflict](t, b.ledger, other).Reason)
	answer(t, mayRun(t, b.ledger, request(t, business, continuing("s1", "a"))))
	assert.Equal(t, dedup.ReasonInputUnknown, stray(continuing("s2", "a")).Reason)

	free := request(t, "refund:order-4812:3")
	_, err := mayRun(t, b.ledger, free).Release(proof(2))
	require.NoError(t, err)
	continuing("s1", "a")(&free)
	assert.Equal(t, dedup.ReasonInputUnknown, told[dedup.Stray](t, b.ledger, free).Reason, "a key that is free was not asked either")
	b.requireQuiet()
}

func TestAContinuationKeepsTheFormOfItsAttempt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	asks(t, mayRun(t, b.ledger, request(t, business, sending("a form"))), "s1", "{}")
	for _, form := range []string{"", "another"} {
		got := told[dedup.Stray](t, b.ledger, request(t, business, continuing("s1", "a"), sending(form)))
		assert.Equal(t, dedup.ReasonKeyFormChanged, got.Reason)
	}
	answer(t, mayRun(t, b.ledger, request(t, business, continuing("s1", "a"), sending("a form"))))
	told[dedup.Replay](t, b.ledger, request(t, business, continuing("s1", "a")))

	r := func(change ...func(*dedup.Request)) dedup.Request {
		return request(t, "refund:order-4812:3", append(change, safeRetry)...)
	}
	lose(t, mayRun(t, b.ledger, r(sending("a form"))))
	e := asks(t, mayRun(t, b.ledger, r(sending("another"))), "s1", "{}")
	assert.Empty(t, e.Downstream, "no form is that of all attempts")
	told[dedup.Stray](t, b.ledger, r(continuing("s1", "a"), sending("a form")))
	answer(t, mayRun(t, b.ledger, r(continuing("s1", "a"), sending("another"))))
}

func TestProofAboutAContinuationKeepsTheQuestion(t *testing.T) {
	t.Parallel()
	for _, row := range []proof{2, 3, 4} {
		t.Run(fmt.Sprint("row ", row), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			asks(t, mayRun(t, b.ledger, request(t, business)), "s1", `{"ask":1}`)
			e, err := mayRun(t, b.ledger, request(t, business, continuing("s1", "a"))).Release(row)
			require.NoError(t, err)
			assert.Equal(t, dedup.AwaitingInput, e.State)
			assert.Equal(t, dedup.ReasonInputRequired, e.Reason)
			assert.Equal(t, `{"ask":1}`, string(told[dedup.Asked](t, b.ledger, request(t, business)).Entry.Result))
			answer(t, mayRun(t, b.ledger, request(t, business, continuing("s1", "another"))))
			b.requireRows(e.ID, 1, 10, 11, 11, 11, 5)
			b.requireQuiet()
		})
	}
}

func TestAnAnswerThatNothingHappenedFreesTheKeyInAnyRound(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	asks(t, mayRun(t, b.ledger, request(t, business)), "s1", `{"ask":1}`)
	e, err := mayRun(t, b.ledger, request(t, business, continuing("s1", "cancel"))).Release(proof(6))
	require.NoError(t, err)
	assert.Equal(t, dedup.Released, e.State)
	told[dedup.Stray](t, b.ledger, request(t, business, continuing("s1", "cancel")))
	asks(t, mayRun(t, b.ledger, request(t, business, arguments("43 dollars"))), "s2", `{"ask":2}`)
	told[dedup.Stray](t, b.ledger, request(t, business, arguments("43 dollars"), continuing("s1", "a")))
}

func TestALostRoundIsUnknown(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	asks(t, mayRun(t, b.ledger, request(t, business)), "s1", "{}")
	asks(t, mayRun(t, b.ledger, request(t, business, continuing("s1", "a"))), "s2", "{}")
	late := strand(t, mayRun(t, b.ledger, request(t, business, continuing("s2", "b"))))
	told[dedup.Busy](t, b.ledger, request(t, business, continuing("s2", "b")))
	e, err := late.Release(proof(3))
	require.NoError(t, err)
	assert.Equal(t, dedup.Unknown, e.State, "what the upstream did before it asked, nobody knows")
	for _, state := range []string{"s1", "s2"} {
		told[dedup.Lost](t, b.ledger, request(t, business, continuing(state, "b")))
		told[dedup.Lost](t, b.ledger, request(t, business, continuing(state, "b"), safeRetry)) // the class is that of the claim
	}
	b.requireRows(e.ID, 1, 10, 11, 10, 11, 8, dedup.RowContradicted)
}

func TestInputThatNobodyGaveInTimeLeavesItUnknown(t *testing.T) {
	t.Parallel()
	for name, meets := range map[string]func(*testing.T, *bench){
		"met by a sweep": func(t *testing.T, b *bench) {
			require.NoError(t, b.ledger.Sweep(context.Background()))
		},
		"met by a call": func(t *testing.T, b *bench) { told[dedup.Lost](t, b.ledger, request(t, business)) },
		"met by a continuation": func(t *testing.T, b *bench) {
			told[dedup.Lost](t, b.ledger, request(t, business, continuing("s1", "a")))
		},
		"met by a new process": func(_ *testing.T, b *bench) { b.peer() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			lease := mayRun(t, b.ledger, request(t, business))
			e, err := lease.Ask(dedup.Question{Body: []byte("{}"), State: stateOf("s1"), Within: time.Minute})
			require.NoError(t, err)
			b.clock.Advance(time.Minute - time.Millisecond)
			require.NoError(t, b.ledger.Sweep(context.Background()))
			told[dedup.Asked](t, b.ledger, request(t, business))
			b.clock.Advance(time.Millisecond)
			meets(t, b)
			stands := b.stands(e.ID)
			assert.Equal(t, dedup.Unknown, stands.State)
			assert.Equal(t, dedup.ReasonInputExpired, stands.Reason)
			told[dedup.Lost](t, b.ledger, request(t, business, continuing("s1", "a")))
			b.requireRows(e.ID, 1, 10, 15)
			_, err = b.ledger.Resolve(context.Background(), e.ID, dedup.Resolution{By: "ada", Note: "looked"})
			require.NoError(t, err)
			answer(t, mayRun(t, b.ledger, request(t, business)))
		})
	}
}

func TestQuestionsOutliveTheirOwnersAndRoundsDoNot(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	peer := b.peer()
	e := asks(t, mayRun(t, peer, request(t, business)), "s1", `{"ask":1}`)
	b.crash(peer)
	require.NoError(t, b.ledger.Sweep(context.Background()))
	assert.Equal(t, `{"ask":1}`, string(told[dedup.Asked](t, b.ledger, request(t, business)).Entry.Result))
	second := b.peer()
	mayRun(t, second, request(t, business, continuing("s1", "a")))
	told[dedup.Busy](t, b.ledger, request(t, business, continuing("s1", "a")))
	b.crash(second)
	lost := told[dedup.Lost](t, b.ledger, request(t, business, continuing("s1", "a")))
	assert.Equal(t, dedup.ReasonOwnerDied, lost.Entry.Reason)
	b.requireRows(e.ID, 1, 10, 11, 9)
	b.requireQuiet()
}

// Questions that come with the same state, or with none, are told apart by what was
// answered.
func TestRoundsOfTheSameStateAreToldApart(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"", "s"} {
		b := newBench(t)
		asks(t, mayRun(t, b.ledger, request(t, business)), state, `{"ask":1}`)
		asks(t, mayRun(t, b.ledger, request(t, business, continuing(state, "a"))), state, `{"ask":2}`)
		asked := told[dedup.Asked](t, b.ledger, request(t, business, continuing(state, "a")))
		assert.Equal(t, `{"ask":2}`, string(asked.Entry.Result), "sent already")
		last := mayRun(t, b.ledger, request(t, business, continuing(state, "b")))
		told[dedup.Busy](t, b.ledger, request(t, business, continuing(state, "b")))
		told[dedup.Busy](t, b.ledger, request(t, business, continuing(state, "c")))
		told[dedup.Asked](t, b.ledger, request(t, business, continuing(state, "a")))
		answer(t, last)
		told[dedup.Replay](t, b.ledger, request(t, business, continuing(state, "b")))
	}
}

// An upstream that is busy asks for nothing but to be called again.
func TestABareQuestionIsAnsweredAsOftenAsItIsAsked(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	lease := mayRun(t, b.ledger, request(t, business))
	for range 3 {
		_, err := lease.Ask(dedup.Question{Body: []byte("{}"), State: stateOf("busy"), Bare: true})
		require.NoError(t, err)
		lease = mayRun(t, b.ledger, request(t, business, continuing("busy", "")))
		told[dedup.Busy](t, b.ledger, request(t, business, continuing("busy", "")))
	}
	answer(t, lease)
	told[dedup.Replay](t, b.ledger, request(t, business, continuing("busy", "")))
}

func TestAQuestionTooLargeToKeepStillWaits(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, err := mayRun(t, b.ledger, request(t, business)).Ask(dedup.Question{Body: make([]byte, dedup.MaxResultBytes+1), State: stateOf("s1")})
	require.NoError(t, err)
	assert.Nil(t, told[dedup.Asked](t, b.ledger, request(t, business)).Entry.Result)
	answer(t, mayRun(t, b.ledger, request(t, business, continuing("s1", "a"))))
}

// A new attempt that the tool's class allows asks anew; the rounds before it lead
// nowhere, but never upstream.
func TestRoundsOfAnEarlierAttemptAreNotContinued(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := func(change ...func(*dedup.Request)) dedup.Request {
		return request(t, business, append(change, safeRetry)...)
	}
	asks(t, mayRun(t, b.ledger, r()), "s1", `{"ask":1}`)
	lose(t, mayRun(t, b.ledger, r(continuing("s1", "a"))))
	second := mayRun(t, b.ledger, r())
	told[dedup.Busy](t, b.ledger, r(continuing("s1", "a")))
	asks(t, second, "s2", `{"ask":2}`)
	asked := told[dedup.Asked](t, b.ledger, r(continuing("s1", "a")))
	assert.Equal(t, `{"ask":2}`, string(asked.Entry.Result), "how it stands")
	lose(t, mayRun(t, b.ledger, r(continuing("s2", "b"))))
	told[dedup.Lost](t, b.ledger, r(continuing("s1", "a")))
	answer(t, mayRun(t, b.ledger, r(continuing("s2", "b"))))
	assert.Equal(t, 3, b.only().Attempt)
}
