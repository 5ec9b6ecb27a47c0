package storetest

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// tasks are those that operations of the model are answered with; the first is none.
var tasks = []dedup.Digest{{}, digest("task 1"), digest("task 2")}

// question has a change ask something; empty: a question that is not kept.
func question(body string) func(*dedup.Change) {
	return func(c *dedup.Change) {
		c.Round = &dedup.Round{
			Number: c.Entry.Round, Attempt: c.Entry.Attempt, State: digest("state " + body), Bare: body == "",
			Downstream: "params.client_token",
		}
		if body != "" {
			c.Round.Question = []byte(body)
		}
	}
}

// answered has a change answer a round.
func answered(round dedup.Round, answers string) func(*dedup.Change) {
	return func(c *dedup.Change) {
		round.Answers, round.Question = digest("answers "+answers), nil
		c.Round = &round
	}
}

// wasAsked reports whether what was sent last to an operation's upstream was answered
// with a question.
func wasAsked(rounds []dedup.Round, e dedup.Entry) bool {
	return slices.ContainsFunc(rounds, func(r dedup.Round) bool { return r.Number >= e.Round })
}

// rounds are those of a key's operation.
func rounds(t T, s dedup.Store, q dedup.Query) []dedup.Round {
	t.Helper()
	q.Rounds = true
	return find(t, s, q).Rounds
}

// twice claims a key whose upstream then asks two questions, and waits for the second
// answer.
func twice(t *testing.T, s dedup.Store, q dedup.Query) dedup.Entry {
	t.Helper()
	e := claim(t, s, q)
	settle(t, s, e.ID, dedup.InputRequired, question("Which order?"))
	settle(t, s, e.ID, dedup.InputContinued, answered(rounds(t, s, q)[0], "4812"))
	return settle(t, s, e.ID, dedup.InputRequired, question("Really?"))
}

func testQuestion(t *testing.T, b *bench) {
	e := claim(t, b.store, asked)
	want := settle(t, b.store, e.ID, dedup.InputRequired, question(`{"n":9007199254740993}`))
	want.Result = []byte(`{"n":9007199254740993}`)
	for _, s := range []dedup.Store{b.store, b.ledger.Open(t)} {
		assert.Equal(t, want, get(t, s, e.ID))
		assert.Equal(t, want, *find(t, s, asked).Same)
		assert.Nil(t, find(t, s, asked).Rounds, "they were not asked for")
	}
	settle(t, b.store, e.ID, dedup.InputContinued)
	assert.Nil(t, get(t, b.store, e.ID).Result, "the call goes on")
	settle(t, b.store, e.ID, dedup.InputRequired, question("Really?"))
	assert.Equal(t, "Really?", string(get(t, b.store, e.ID).Result), "the newest")
	settle(t, b.store, e.ID, dedup.InputContinued)
	settle(t, b.store, e.ID, dedup.AnsweredResult, result("{}"))
	assert.Equal(t, "{}", string(get(t, b.store, e.ID).Result))
}

func testRounds(t *testing.T, b *bench) {
	large := string(bytes.Repeat([]byte("x"), dedup.MaxResultBytes))
	e := claim(t, b.store, asked)
	require.Empty(t, rounds(t, b.store, asked))
	var want []dedup.Round
	for _, body := range []string{"Which order?", large, ""} {
		settle(t, b.store, e.ID, dedup.InputRequired, question(body), func(c *dedup.Change) { want = append(want, *c.Round) })
		e = settle(t, b.store, e.ID, dedup.InputContinued)
	}
	assert.Equal(t, want, rounds(t, b.ledger.Open(t), asked))
	q := asked
	q.Rounds = true
	require.NoError(t, b.store.Claim(context.Background(), q, func(around dedup.Surroundings) (dedup.Change, bool) {
		for i := range want {
			want[i].Question = nil
		}
		assert.Equal(t, want, around.Rounds, "a claim needs no questions")
		return dedup.Change{}, false
	}))
	assert.Empty(t, rounds(t, b.store, query("shop", "another", "")), "they are those of one key")
}

func testAnswers(t *testing.T, b *bench) {
	e := twice(t, b.store, asked)
	before := rounds(t, b.store, asked)
	require.Len(t, before, 2)
	assert.Equal(t, digest("answers 4812"), before[0].Answers)
	assert.Equal(t, "Which order?", string(before[0].Question))
	assert.Zero(t, before[1].Answers)
	settle(t, b.store, e.ID, dedup.InputContinued, answered(before[1], "yes"))
	want := slices.Clone(before)
	want[1].Answers = digest("answers yes")
	assert.Equal(t, want, rounds(t, b.store, asked), "and nothing else is changed by it")
}

func testRoundsGo(t *testing.T, b *bench) {
	e := twice(t, b.store, asked)
	settle(t, b.store, e.ID, dedup.InputContinued)
	settle(t, b.store, e.ID, dedup.NothingHappened)
	left := rounds(t, b.store, asked)
	require.Len(t, left, 2, "what was asked is known as long as the key is free")
	assert.Nil(t, left[1].Question)
	again := claim(t, b.store, asked)
	assert.Zero(t, again.Round)
	assert.Empty(t, rounds(t, b.store, asked))
	settle(t, b.store, e.ID, dedup.InputRequired, question("Which order?"))
	assert.Len(t, rounds(t, b.store, asked), 1)
}

func testQuestionsGo(t *testing.T, b *bench) {
	kept := func(kept dedup.Kept) func(*dedup.Change) {
		return func(c *dedup.Change) { c.Entry.Kept = kept }
	}
	for name, c := range map[string]struct {
		evidence dedup.Evidence
		more     func(*dedup.Change)
		stay     bool
	}{
		"an answer that is kept":          {dedup.AnsweredResult, result("{}"), true},
		"an answer too large to keep":     {dedup.AnsweredResult, kept(dedup.KeptTooLarge), false},
		"an answer whose window is past":  {dedup.AnsweredResult, kept(dedup.KeptDropped), false},
		"no answer":                       {dedup.NoAnswer, open, false},
		"proof about the newest":          {dedup.ProvenUnsent, kept(dedup.KeptNone), true},
		"proof about the whole operation": {dedup.NothingHappened, kept(dedup.KeptNone), false},
	} {
		q := query("shop", name, name)
		e := twice(t, b.store, q)
		settle(t, b.store, e.ID, dedup.InputContinued)
		settle(t, b.store, e.ID, c.evidence, c.more)
		left := rounds(t, b.store, q)
		require.Len(t, left, 2)
		for _, round := range left {
			assert.Equal(t, c.stay, round.Question != nil, name)
			assert.NotZero(t, round.State, name)
		}
	}
	waiting := twice(t, b.store, asked)
	settle(t, b.store, waiting.ID, dedup.InputExpired)
	assert.Nil(t, rounds(t, b.store, asked)[1].Question)
}

func testUnlawfulRound(t *testing.T, b *bench) {
	e := twice(t, b.store, asked)
	before := get(t, b.store, e.ID)
	require.Error(t, b.store.Move(context.Background(), e.ID, func(e dedup.Entry, _ time.Time) (dedup.Change, bool) {
		e.Round++
		return evented(e), true
	}), "a round begins with a claim")
	assert.Equal(t, before, get(t, b.store, e.ID))
}

// testContinuationRace has callers of three processes continue one operation at once.
func testContinuationRace(t *testing.T, b *bench) {
	e := twice(t, b.store, asked)
	stores := []dedup.Store{b.store, b.ledger.Open(t), b.ledger.Open(t)}
	q := asked
	q.Rounds = true
	continued := atOnce(t, 60, func(i int) (first bool) {
		assert.NoError(t, stores[i%len(stores)].Claim(context.Background(), q, func(around dedup.Surroundings) (dedup.Change, bool) {
			if first = around.Same.State == dedup.AwaitingInput; !first {
				return dedup.Change{}, false
			}
			c := evented(moved(*around.Same, dedup.InputContinued, around.Now))
			answered(around.Rounds[1], "yes")(&c)
			return c, true
		}))
		return first
	})
	assert.Equal(t, 1, continued)
	assert.Equal(t, e.Round+1, get(t, b.store, e.ID).Round)
}

// testAskedSurvives asks what is left of a question when its owner is gone, and when
// its time has passed.
func testAskedSurvives(t *testing.T, b *bench) {
	peer := b.ledger.Open(t)
	twice(t, peer, asked)
	left := find(t, peer, asked).Same
	questions := rounds(t, peer, asked)
	b.ledger.Kill(t, peer)
	b.ledger.LosePower(t)
	s := b.ledger.Open(t)
	assert.Equal(t, left, find(t, s, asked).Same)
	assert.Equal(t, questions, rounds(t, s, asked))

	unsettled := func() []dedup.OperationID {
		entries, err := s.Unsettled(context.Background())
		require.NoError(t, err)
		return ids(entries)
	}
	b.clock.Advance(time.Hour - time.Millisecond)
	assert.Empty(t, unsettled())
	b.clock.Advance(time.Millisecond)
	assert.Equal(t, []dedup.OperationID{left.ID}, unsettled())
	settle(t, s, left.ID, dedup.InputExpired)
	assert.Empty(t, unsettled())
}

func testTask(t *testing.T, b *bench) {
	taskOf := func(task dedup.Digest) dedup.OperationID {
		id, err := b.store.TaskOf(context.Background(), task)
		require.NoError(t, err)
		return id
	}
	with := func(c *dedup.Change) { c.Entry.Task = tasks[1] }
	first := claim(t, b.store, asked)
	_, err := b.store.TaskOf(context.Background(), tasks[1])
	require.ErrorIs(t, err, dedup.ErrNotFound)
	settle(t, b.store, first.ID, dedup.AnsweredResult, with)
	assert.Equal(t, first.ID, taskOf(tasks[1]))
	_, err = b.store.TaskOf(context.Background(), tasks[2])
	require.ErrorIs(t, err, dedup.ErrNotFound)

	b.clock.Advance(time.Second)
	second := claim(t, b.store, query("shop", "second", "second"))
	want := settle(t, b.store, second.ID, dedup.AnsweredResult, with)
	assert.Equal(t, second.ID, taskOf(tasks[1]), "a server that was started again may count from 1")
	want.TaskStatus, want.IsError = dedup.TaskFailed, true
	require.NoError(t, b.store.Move(context.Background(), second.ID, func(dedup.Entry, time.Time) (dedup.Change, bool) {
		return evented(want), true
	}))
	assert.Equal(t, want, get(t, b.ledger.Open(t), second.ID))
}
