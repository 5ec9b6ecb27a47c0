package dedup_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// lived is a record with these events, as they leave it.
func lived(doubt dedup.Row, events ...dedup.Event) dedup.Record {
	last := events[len(events)-1]
	return dedup.Record{Entry: dedup.Entry{State: last.State, Row: last.Row, Attempt: last.Attempt, Doubt: doubt}, Events: events}
}

func TestFlawsOfARecord(t *testing.T) {
	t.Parallel()
	claimed := dedup.Event{Row: 1, Attempt: 1, State: dedup.Running}
	lost := dedup.Event{Row: 8, Attempt: 1, State: dedup.Unknown}
	answered := dedup.Event{Row: 5, Attempt: 1, State: dedup.Completed}
	unsent := dedup.Event{Row: 2, Attempt: 1, State: dedup.Released}
	resent := dedup.Event{Row: 16, Attempt: 2, State: dedup.Running}
	asked := dedup.Event{Row: 10, Attempt: 1, State: dedup.AwaitingInput}
	goesOn := dedup.Event{Row: 11, Attempt: 1, State: dedup.Running}
	against := func(attempt int, state dedup.State) dedup.Event {
		return dedup.Event{Row: dedup.RowContradicted, Attempt: attempt, State: state}
	}
	standing := func(r dedup.Record, change func(*dedup.Record)) dedup.Record {
		change(&r)
		return r
	}
	for name, c := range map[string]struct {
		record dedup.Record
		flaws  []string
	}{
		"a lawful life":                {lived(0, claimed, unsent, dedup.Event{Row: 1, Attempt: 2, State: dedup.Running}), nil},
		"resent":                       {lived(16, claimed, lost, resent), nil},
		"resent and refused":           {lived(16, claimed, lost, resent, dedup.Event{Row: 16, Attempt: 2, State: dedup.Unknown}), nil},
		"asked, and continued":         {lived(0, claimed, asked, goesOn, asked, goesOn, answered), nil},
		"a note on how it stands":      {lived(0, claimed, lost, lost, dedup.Event{Row: 15, Attempt: 1, State: dedup.Completed}), nil},
		"an answer against it":         {standing(lived(0, claimed, lost, against(1, dedup.Unknown)), func(r *dedup.Record) { r.Entry.Row = 8 }), nil},
		"no events":                    {dedup.Record{}, []string{"it has no events"}},
		"it did not begin":             {lived(0, answered), []string{"event 1: no move of row 5 leads from none by row 0 in attempt 0 with doubt 0 to completed in attempt 1"}},
		"it began in the middle":       {lived(0, dedup.Event{Row: 1, Attempt: 2, State: dedup.Running}), []string{"event 1: no move of row 1 leads from none by row 0 in attempt 0 with doubt 0 to running in attempt 2"}},
		"answered, and then unknown":   {lived(0, claimed, answered, lost), []string{"event 3: no move of row 8 leads from completed by row 5 in attempt 1 with doubt 0 to unknown in attempt 1"}},
		"a row that leads elsewhere":   {lived(0, claimed, dedup.Event{Row: 5, Attempt: 1, State: dedup.Released}), []string{"event 2: no move of row 5 leads from running by row 1 in attempt 1 with doubt 0 to released in attempt 1"}},
		"free although in doubt":       {lived(16, claimed, lost, resent, dedup.Event{Row: 2, Attempt: 2, State: dedup.Released}), []string{"event 4: no move of row 2 leads from running by row 16 in attempt 2 with doubt 16 to released in attempt 2"}},
		"free by a continuation":       {lived(0, claimed, asked, goesOn, unsent), []string{"event 4: no move of row 2 leads from running by row 11 in attempt 1 with doubt 0 to released in attempt 1"}},
		"an answer against nothing":    {standing(lived(0, claimed, against(2, dedup.Running)), func(r *dedup.Record) { r.Entry.Row, r.Entry.Attempt = 1, 1 }), []string{"event 2: an answer is on record against running in attempt 2, and it was running by row 1 in attempt 1 with doubt 0"}},
		"another state than the last":  {standing(lived(0, claimed, lost), func(r *dedup.Record) { r.Entry.State = dedup.Released }), []string{"its events lead to unknown by row 8 in attempt 1 with doubt 0, and it is released by row 8 in attempt 1 with doubt 0"}},
		"another doubt than the last":  {lived(0, claimed, lost, resent), []string{"its events lead to running by row 16 in attempt 2 with doubt 16, and it is running by row 16 in attempt 2 with doubt 0"}},
		"an answer that is not stored": {standing(lived(0, claimed, answered), func(r *dedup.Record) { r.Entry.Kept = dedup.KeptWhole }), []string{"its answer is said to be stored, and is not"}},
		"an answer that is stored":     {standing(lived(0, claimed, answered), func(r *dedup.Record) { r.Entry.Kept, r.ResultBytes = dedup.KeptWhole, 2 }), nil},
		"an answer too many":           {standing(lived(0, claimed, answered), func(r *dedup.Record) { r.ResultBytes = 2 }), []string{"an answer is stored that it is said not to have"}},
		"an answer without being over": {standing(lived(0, claimed), func(r *dedup.Record) { r.Entry.Kept = dedup.KeptDropped }), []string{"it is running, and said to have an answer"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, c.flaws, c.record.Flaws())
		})
	}
}

// pruned is what a prune drops.
func (b *bench) pruned(dryRun bool) dedup.Pruned {
	b.t.Helper()
	p, err := b.ledger.Prune(context.Background(), dryRun)
	require.NoError(b.t, err)
	return p
}

func TestPruningDropsWhatNobodyIsGivenAnyMore(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var answered []dedup.Entry
	for i := range 70 { // more than go at once
		answered = append(answered, answer(t, mayRun(t, b.ledger, request(t, orderKey(i)))))
	}
	free, err := mayRun(t, b.ledger, request(t, "refund:free:1")).Release(proof(2))
	require.NoError(t, err)
	judged := lose(t, mayRun(t, b.ledger, request(t, "refund:judged:1")))
	_, err = b.ledger.Resolve(context.Background(), judged.ID, dedup.Resolution{By: "ada", Note: "looked"})
	require.NoError(t, err)
	unknown := lose(t, mayRun(t, b.ledger, request(t, "refund:unknown:1")))
	b.clock.Advance(week - time.Millisecond)
	assert.Zero(t, b.pruned(false))
	b.clock.Advance(time.Millisecond)
	young := answer(t, mayRun(t, b.ledger, request(t, "refund:young:1")))

	before := b.stored()
	want := dedup.Pruned{Answers: 70, AnswerBytes: 70 * int64(len(`{"refund":1}`)), Released: 1}
	assert.Equal(t, want, b.pruned(true))
	assert.Equal(t, before, b.stored(), "it only counted")
	assert.Equal(t, want, b.pruned(false))
	assert.Zero(t, b.pruned(false), "nothing is left to be dropped")

	left := b.stored()
	assert.NotContains(t, left, free.ID)
	for _, id := range []dedup.OperationID{judged.ID, unknown.ID, young.ID} {
		assert.Equal(t, before[id], left[id])
	}
	for i, e := range answered {
		assert.Equal(t, dedup.KeptDropped, left[e.ID].Kept)
		told[dedup.Expired](t, b.ledger, request(t, orderKey(i)))
	}
	mayRun(t, b.ledger, request(t, "refund:free:1")).Close()
	b.requireQuiet()
}

func orderKey(i int) string {
	return "refund:order-" + string(rune('a'+i/26)) + string(rune('a'+i%26)) + ":1"
}

// A meddler lets something happen to each operation before it is removed.
type meddler struct {
	dedup.Store
	meddle func(dedup.OperationID)
}

func (m *meddler) Remove(ctx context.Context, id dedup.OperationID, decide func(dedup.Entry, time.Time) bool) error {
	m.meddle(id)
	return m.Store.Remove(ctx, id, decide)
}

func TestAKeyThatIsClaimedMeanwhileIsNotPruned(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := request(t, business)
	lease := mayRun(t, b.ledger, r)
	_, err := lease.Release(proof(2))
	require.NoError(t, err)
	b.clock.Advance(week)
	var again *dedup.Lease
	other := b.gateway(&meddler{b.reference.Open(nil), func(dedup.OperationID) { again = mayRun(t, b.ledger, r) }})
	p, err := other.Prune(context.Background(), false)
	require.NoError(t, err)
	assert.Zero(t, p)
	require.Equal(t, 2, again.Entry().Attempt)
	answer(t, again)
	b.requireRows(again.Entry().ID, 1, 2, 1, 5)
}

func TestAPruneEndsWithItsContext(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	answer(t, mayRun(t, b.ledger, request(t, business)))
	b.clock.Advance(week)
	ctx, end := context.WithCancel(context.Background())
	end()
	_, err := b.ledger.Prune(ctx, false)
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, 1, b.pruned(true).Answers)
}
