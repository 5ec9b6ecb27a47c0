package dedup_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
)

func TestAPersonResolvesTheUnknown(t *testing.T) {
	t.Parallel()
	seen := []byte(`{"refund":7}`)
	for name, c := range map[string]struct {
		word   dedup.Resolution
		state  dedup.State
		kept   dedup.Kept
		reason dedup.Reason
	}{
		"executed":              {dedup.Resolution{Executed: true}, dedup.Completed, dedup.KeptNone, dedup.ReasonResolvedExecuted},
		"executed, with result": {dedup.Resolution{Executed: true, Result: seen}, dedup.Completed, dedup.KeptWhole, dedup.ReasonResolvedExecuted},
		"not executed":          {dedup.Resolution{}, dedup.Released, dedup.KeptNone, dedup.ReasonResolvedNotExecuted},
		"not executed, result":  {dedup.Resolution{Result: seen}, dedup.Released, dedup.KeptNone, dedup.ReasonResolvedNotExecuted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			lose(t, mayRun(t, b.ledger, request(t, business)))
			b.clock.Advance(time.Hour)
			c.word.By, c.word.Note = "ada", "looked into the shop"
			e, err := b.ledger.Resolve(context.Background(), b.only().ID, c.word)
			require.NoError(t, err)
			assert.Equal(t, c.state, e.State)
			stored := b.only()
			assert.Equal(t, c.state, stored.State)
			assert.Equal(t, c.kept, stored.Kept)
			assert.Equal(t, c.reason, stored.Reason)
			assert.Equal(t, b.clock.Now().Truncate(time.Millisecond), stored.SettledAt)
			events := b.requireRows(e.ID, 1, 8, 15)
			assert.Equal(t, "ada", events[2].Actor)
			assert.Equal(t, "looked into the shop", events[2].Note)
			if c.state == dedup.Completed {
				assert.Equal(t, c.word.Result, told[dedup.Replay](t, b.ledger, request(t, business)).Entry.Result)
			} else {
				assert.Empty(t, stored.Result)
				answer(t, mayRun(t, b.ledger, request(t, business, arguments("43 dollars"))))
				b.requireRows(e.ID, 1, 8, 15, 1, 5)
			}
			b.requireQuiet()
		})
	}
}

func TestAnOpenAttemptIsResolvedOnlyAsExecutedOrByForce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		word dedup.Resolution
		err  error
		want dedup.State
	}{
		"not executed":           {dedup.Resolution{}, dedup.ErrStillOpen, dedup.Unknown},
		"not executed, by force": {dedup.Resolution{Force: true}, nil, dedup.Released},
		"executed":               {dedup.Resolution{Executed: true}, nil, dedup.Completed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			late := strand(t, mayRun(t, b.ledger, request(t, business)))
			before := b.only()
			c.word.By, c.word.Note = "ada", "looked into the shop"
			e, err := b.ledger.Resolve(context.Background(), before.ID, c.word)
			require.ErrorIs(t, err, c.err)
			after := b.only()
			assert.Equal(t, c.want, after.State)
			if c.err != nil {
				assert.Equal(t, before, after)
				assert.Equal(t, dedup.Entry{}, e)
			} else {
				assert.False(t, after.Open())
			}
			require.NoError(t, late.Close())
			assert.Equal(t, c.want, b.only().State)
		})
	}
}

func TestOnlyTheUnknownIsResolved(t *testing.T) {
	t.Parallel()
	for state, settle := range map[dedup.State]func(*dedup.Lease){
		dedup.Running:   func(*dedup.Lease) {},
		dedup.Completed: func(l *dedup.Lease) { _, _ = l.Complete(dedup.Answer{Evidence: dedup.AnsweredResult}) },
		dedup.Released:  func(l *dedup.Lease) { _, _ = l.Release(proof(2)) },
	} {
		b := newBench(t)
		settle(mayRun(t, b.ledger, request(t, business)))
		before := b.only()
		require.Equal(t, state, before.State)
		for _, executed := range []bool{true, false} {
			_, err := b.ledger.Resolve(context.Background(), before.ID, dedup.Resolution{Executed: executed, By: "ada", Note: "x", Force: true})
			require.ErrorIs(t, err, dedup.ErrNotUnknown)
			require.ErrorContains(t, err, state.String())
			assert.Equal(t, before, b.only())
		}
	}
}

func TestAResolutionNeedsANameANoteAndAnOperation(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	lose(t, mayRun(t, b.ledger, request(t, business)))
	before := b.only()
	large := make([]byte, dedup.MaxResultBytes+1)
	for name, word := range map[string]dedup.Resolution{
		"no name":       {Executed: true, Note: "looked"},
		"no note":       {Executed: true, By: "ada"},
		"a huge result": {Executed: true, By: "ada", Note: "looked", Result: large},
	} {
		_, err := b.ledger.Resolve(context.Background(), before.ID, word)
		require.Error(t, err, name)
		assert.Equal(t, before, b.only(), name)
	}
	_, err := b.ledger.Resolve(context.Background(), dedup.NewOperationID(), dedup.Resolution{By: "ada", Note: "looked"})
	require.ErrorIs(t, err, dedup.ErrNotFound)
	_, err = b.ledger.Resolve(context.Background(), before.ID, dedup.Resolution{Executed: true, By: "ada", Note: "looked", Result: large[1:]})
	require.NoError(t, err)
}

func TestAResolutionThatCannotBeWrittenIsTold(t *testing.T) {
	t.Parallel()
	b, f := newFaultyBench(t)
	lose(t, mayRun(t, b.ledger, request(t, business)))
	f.failNext(refused)
	_, err := b.ledger.Resolve(context.Background(), b.only().ID, dedup.Resolution{Executed: true, By: "ada", Note: "looked"})
	require.ErrorIs(t, err, errInjected)
	assert.Equal(t, dedup.Unknown, b.only().State)
}
