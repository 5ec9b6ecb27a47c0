package storetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// RunModel drives a store and the Reference through the same random history of
// claims, moves, crashes and jumps of the clock, and compares everything that can
// be read after each step. -rapid.checks and -rapid.steps say how much.
func RunModel(t *testing.T, newLedger New) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t, newLedger)
		t.Repeat(map[string]func(*rapid.T){
			"claim": m.claim, "move": m.move, "open": m.open, "kill": m.kill, "lose power": m.losePower,
			"drop": m.drop, "advance": m.advance, "": m.compare,
		})
	})
}

// A model is a store beside the reference. Each process is a pair of stores.
type model struct {
	clock     *Clock
	ledger    Ledger
	reference *Reference
	pairs     []pair
	ids       []dedup.OperationID
}

type pair struct{ real, reference dedup.Store }

func newModel(t *rapid.T, newLedger New) *model {
	m := &model{clock: NewClock()}
	m.ledger, m.reference = newLedger(t, m.clock.Now), NewReference(m.clock.Now)
	m.start(t)
	return m
}

func (m *model) start(t *rapid.T) {
	m.pairs = append(m.pairs, pair{m.ledger.Open(t), m.reference.Open(nil)})
}

func (m *model) pick(t *rapid.T) pair { return rapid.SampledFrom(m.pairs).Draw(t, "process") }

// query draws from few keys, so that they meet.
func (m *model) query(t *rapid.T) dedup.Query {
	q := query(rapid.SampledFrom([]string{"shop", "store"}).Draw(t, "upstream"),
		rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "key"), rapid.SampledFrom([]string{"x", "y"}).Draw(t, "content"))
	q.Rounds = rapid.Bool().Draw(t, "rounds")
	q.Near = rapid.SampledFrom([]time.Duration{0, time.Minute, nearby}).Draw(t, "near")
	if len(m.ids) > 0 && rapid.Bool().Draw(t, "repeats") {
		q.RepeatOf = rapid.SampledFrom(m.ids).Draw(t, "repeat of")
	}
	return q
}

func (m *model) claim(t *rapid.T) {
	p, q, id := m.pick(t), m.query(t), dedup.NewOperationID()
	downstream := rapid.SampledFrom([]string{"", "params.client_token", "idempotency_key raw"}).Draw(t, "downstream")
	decide := func(around dedup.Surroundings) (dedup.Change, bool) {
		if around.Same == nil {
			e := newEntry(p.real, q, around.Now)
			e.ID, e.Downstream = id, downstream
			return evented(e), true
		}
		e := *around.Same
		if e.State != dedup.Released {
			return dedup.Change{}, false
		}
		e = moved(e, dedup.Claimed, around.Now)
		e.Content, e.RepeatOf, e.Owner, e.Downstream = q.Content, q.RepeatOf, p.real.Info().Owner, downstream
		return evented(e), true
	}
	around := m.both(t, p, func(s dedup.Store) (seen any, err error) {
		err = s.Claim(context.Background(), q, func(around dedup.Surroundings) (dedup.Change, bool) {
			seen = around
			if around.Same != nil {
				same := *around.Same
				around.Same = &same
			}
			return decide(around)
		})
		return seen, err
	}).(dedup.Surroundings)
	if around.Same == nil {
		m.ids = append(m.ids, id)
	}
}

func (m *model) move(t *rapid.T) {
	if len(m.ids) == 0 {
		t.Skip("nothing to move")
	}
	p, id := m.pick(t), rapid.SampledFrom(m.ids).Draw(t, "operation")
	row := rapid.SampledFrom(dedup.Moves).Draw(t, "move")
	body := rapid.SampledFrom([]string{"", `{"n":1}`, `{"n":2}`}).Draw(t, "result")
	open := rapid.Bool().Draw(t, "open")
	task := rapid.SampledFrom(tasks).Draw(t, "task")
	rounds := slices.Clone(m.reference.rounds[id])
	m.both(t, p, func(s dedup.Store) (seen any, err error) {
		err = s.Move(context.Background(), id, func(e dedup.Entry, now time.Time) (dedup.Change, bool) {
			seen = e
			if fits(e, row) {
				e = moved(e, row.Evidence, now)
				if row.Row == 17 { // in another form than before
					e.Downstream = ""
				}
			}
			if open && e.State == dedup.Unknown {
				e.OpenUntil = now.Add(time.Hour)
			}
			if row.Row == 5 && e.Row == 5 && e.Task == (dedup.Digest{}) {
				e.Task = task
			}
			c := evented(e)
			switch {
			case row.Evidence == dedup.InputRequired && e.Row == 10 && !wasAsked(rounds, e):
				question(body)(&c)
			case row.Evidence == dedup.InputContinued && e.Row == 11 && len(rounds) > 0:
				answered(rounds[len(rounds)-1], body)(&c)
			case body != "":
				result(body)(&c)
			}
			return c, true
		})
		return seen, err
	})
}

// drop drops some of the results that are overdue.
func (m *model) drop(t *rapid.T) {
	p, limit := m.pick(t), rapid.IntRange(1, 3).Draw(t, "at most")
	for _, e := range m.both(t, p, func(s dedup.Store) (any, error) { return s.Overdue(context.Background(), limit) }).([]dedup.Entry) {
		m.both(t, p, func(s dedup.Store) (any, error) { return nil, s.Move(context.Background(), e.ID, dropped) })
	}
}

func (m *model) open(t *rapid.T) {
	if len(m.pairs) == 3 {
		t.Skip("enough processes")
	}
	m.start(t)
}

func (m *model) kill(t *rapid.T) {
	i := rapid.IntRange(0, len(m.pairs)-1).Draw(t, "process")
	m.ledger.Kill(t, m.pairs[i].real)
	m.reference.Kill(nil, m.pairs[i].reference)
	dead := m.pairs[i]
	m.pairs = append(m.pairs[:i:i], m.pairs[i+1:]...)
	if len(m.pairs) == 0 {
		m.start(t)
	}
	m.requireDead(t, dead)
}

func (m *model) losePower(t *rapid.T) {
	dead := m.pairs
	m.ledger.LosePower(t)
	m.reference.LosePower(nil)
	m.pairs = nil
	m.start(t)
	for _, p := range dead {
		m.requireDead(t, p)
	}
}

func (m *model) requireDead(t *rapid.T, dead pair) {
	for _, p := range m.pairs {
		requireAlive(t, false, p.real, dead.real.Info().Owner)
		requireAlive(t, true, p.real, m.pairs[0].real.Info().Owner)
	}
}

func (m *model) advance(t *rapid.T) {
	m.clock.Advance(rapid.SampledFrom([]time.Duration{
		time.Millisecond, time.Minute, nearby - time.Millisecond, window, -time.Hour,
	}).Draw(t, "by"))
}

// compare reads everything from a pair.
func (m *model) compare(t *rapid.T) {
	p, q := m.pick(t), m.query(t)
	m.both(t, p, func(s dedup.Store) (any, error) { return s.Find(context.Background(), q) })
	m.both(t, p, func(s dedup.Store) (any, error) { return s.Unsettled(context.Background()) })
	m.both(t, p, func(s dedup.Store) (any, error) { return s.Overdue(context.Background(), len(m.ids)) })
	m.both(t, p, func(s dedup.Store) (any, error) {
		var all []dedup.Entry
		for e, err := range s.List(context.Background(), dedup.Filter{}) {
			if err != nil {
				return nil, err
			}
			all = append(all, e)
		}
		return all, nil
	})
	for _, task := range tasks {
		m.both(t, p, func(s dedup.Store) (any, error) { return s.TaskOf(context.Background(), task) })
	}
	for _, id := range m.ids {
		m.both(t, p, func(s dedup.Store) (any, error) { return s.Get(context.Background(), id) })
		m.both(t, p, func(s dedup.Store) (any, error) { return s.History(context.Background(), id) })
	}
}

// both does the same with the two stores of a pair and compares what comes out.
func (m *model) both(t *rapid.T, p pair, do func(dedup.Store) (any, error)) any {
	got, gotErr := do(p.real)
	want, wantErr := do(p.reference)
	require.Equal(t, wantErr == nil, gotErr == nil, fmt.Sprintf("reference: %v, store: %v", wantErr, gotErr))
	require.Equal(t, want, got)
	return got
}
