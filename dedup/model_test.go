package dedup_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/dedup/sqlite"
	"github.com/mcp-idem/mcp-idem/dedup/storetest"
)

// opener opens a ledger in one more process.
type opener func() dedup.Store

func TestHistoriesKeepThePromise(t *testing.T) {
	t.Parallel()
	for range 10 { // memory is quicker than disks
		rapid.Check(t, func(t *rapid.T) {
			clock := storetest.NewClock()
			reference := storetest.NewReference(clock.Now)
			newModel(t, clock, func() dedup.Store { return reference.Open(nil) }).run(t)
		})
	}
}

func TestHistoriesKeepThePromiseOnSQLite(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		folder, err := os.MkdirTemp("", "model")
		require.NoError(t, err)
		defer func() { require.NoError(t, os.RemoveAll(folder)) }()
		clock := storetest.NewClock()
		newModel(t, clock, func() dedup.Store {
			s, err := sqlite.Open(filepath.Join(folder, "ledger.db"), sqlite.Options{Now: clock.Now})
			require.NoError(t, err)
			return s
		}).run(t)
	})
}

// run lets a random history happen.
func (m *model) run(t *rapid.T) {
	defer func() {
		for _, g := range m.gateways {
			_ = g.ledger.Crash()
		}
	}()
	t.Repeat(map[string]func(*rapid.T){
		"call": m.call, "call again": m.call, "retry": m.retry, "continue": m.goOn, "go on": m.goOn, "answer": m.answer, "crash": m.crash, "start": m.start,
		"sweep": m.sweep, "resolve": m.resolve, "prune": m.prune, "configure": m.configure, "time passes": m.advance, "": m.check,
	})
	for r, err := range m.gateways[0].ledger.Export(context.Background(), dedup.RecordFilter{Events: true}) {
		require.NoError(t, err)
		require.Empty(t, r.Flaws(), "%v", r)
	}
}

// A model is what a history should have made of a ledger: the promise, said once
// more in the plainest way, and an upstream that counts effects.
type model struct {
	clock    *storetest.Clock
	open     opener
	gateways []*gateway
	ops      map[string]*operation // by tool and key
	answers  int                   // so that no two answers are alike

	// How the operator has configured charges.
	form  string // how the upstream is told the key
	twice bool   // they may run twice
}

type gateway struct {
	ledger *dedup.Ledger
	dead   bool
}

// An operation is how one should stand, and what the upstream has done for it.
type operation struct {
	id        dedup.OperationID
	tool, key string
	arguments string
	state     dedup.State
	attempt   int
	doubt     dedup.Row
	repeatOf  dedup.OperationID
	created   time.Time
	claimed   time.Time
	settled   time.Time
	result    string
	dropped   bool // the result was dropped after its window
	isError   bool
	effects   int
	seen      map[string]bool // the forms in which the upstream has seen the key
	sent      []string        // the forms of the newest attempt, and of those before it that may have executed
	judged    bool            // a person has released it, once
	doubled   bool            // there was one effect more, and nothing allowed it

	round  int       // sendings since the first
	rounds []*inputs // what it was asked, oldest first
	until  time.Time // when the newest question lapses
	goesOn bool      // what runs is a continuation

	// The attempt that is under way, if there is one.
	by    *gateway
	lease *dedup.Lease
	late  *dedup.Late
	done  bool // it has had its effect
}

func newModel(t *rapid.T, clock *storetest.Clock, open opener) *model {
	m := &model{clock: clock, open: open, ops: map[string]*operation{}, form: "params.client_token"}
	m.start(t)
	return m
}

func (m *model) now() time.Time { return m.clock.Now().UTC().Truncate(time.Millisecond) }

// open reports whether an answer may still arrive.
func (o *operation) open() bool { return o.state == dedup.Unknown && o.late != nil }

// downstream is the form of the key that all attempts have carried, if there is one.
func (o *operation) downstream() string {
	if len(slices.Compact(slices.Clone(o.sent))) == 1 {
		return o.sent[0]
	}
	return ""
}

// execute lets the upstream do what it is asked for: once per key, where it sees
// one.
func (o *operation) execute() {
	o.done = true
	form := o.sent[len(o.sent)-1]
	if form != "" && o.seen[form] {
		return
	}
	o.seen[form] = true
	o.doubled = o.doubled || o.effects > 0 && o.doubt != 17
	o.effects++
}

// expired reports whether an answer is not given any more.
func (m *model) expired(o *operation) bool {
	return o.state == dedup.Completed && (o.dropped || !m.now().Before(o.settled.Add(week)))
}

// settle is how the attempt ends.
func (m *model) settle(o *operation, state dedup.State, result string, isError bool) {
	o.state, o.result, o.isError, o.settled = state, result, isError, m.now()
	o.lease, o.late = nil, nil
	if state != dedup.Completed || result == "" { // nobody is given a question any more
		o.forget()
	}
}

func (m *model) start(t *rapid.T) {
	if len(m.gateways) == 2 {
		t.Skip("enough gateways")
	}
	l, err := dedup.New(context.Background(), m.open(), dedup.Options{SweepEvery: time.Hour})
	require.NoError(t, err)
	m.gateways = append(m.gateways, &gateway{ledger: l})
	m.bury()
}

// bury is what a sweep does: what the dead ran is unknown, and closed; and so is what
// nobody has continued in time.
func (m *model) bury() {
	for _, o := range m.ops {
		m.buryOne(o)
	}
}

func (m *model) buryOne(o *operation) {
	if o.state == dedup.AwaitingInput && !m.now().Before(o.until) {
		m.settle(o, dedup.Unknown, "", false)
	}
	if o.by == nil || !o.by.dead {
		return
	}
	if o.state == dedup.Running {
		m.settle(o, dedup.Unknown, "", false)
	}
	o.lease, o.late = nil, nil
}

func (m *model) sweep(t *rapid.T) {
	require.NoError(t, m.pick(t).ledger.Sweep(context.Background()))
	m.bury()
	for _, o := range m.ops {
		if o.result != "" && m.expired(o) {
			o.dropped = true
			o.forget()
		}
	}
}

// prune drops what nobody is given any more, and forgets keys that are free, unless a
// person has said so.
func (m *model) prune(t *rapid.T) {
	_, err := m.pick(t).ledger.Prune(context.Background(), false)
	require.NoError(t, err)
	for name, o := range m.ops {
		switch {
		case o.result != "" && m.expired(o):
			o.dropped = true
			o.forget()
		case o.state == dedup.Released && !o.judged && !m.now().Before(o.settled.Add(week)):
			delete(m.ops, name)
		}
	}
}

func (m *model) pick(t *rapid.T) *gateway { return rapid.SampledFrom(m.gateways).Draw(t, "gateway") }

// crash ends a gateway. What its calls were about to do, they do now or never.
func (m *model) crash(t *rapid.T) {
	g := m.pick(t)
	g.dead = true
	m.gateways = slices.DeleteFunc(m.gateways, func(other *gateway) bool { return other == g })
	for _, name := range slices.Sorted(maps.Keys(m.ops)) {
		if o := m.ops[name]; o.by == g && (o.lease != nil || o.late != nil) && !o.done && rapid.Bool().Draw(t, "executes yet") {
			o.execute()
		}
	}
	require.NoError(t, g.ledger.Crash())
	if len(m.gateways) == 0 {
		m.start(t)
	}
}

// configure lets the operator change what may be done to a charge that is unknown,
// and how the upstream is told its key.
func (m *model) configure(t *rapid.T) {
	m.form = rapid.SampledFrom([]string{"", "params.client_token", "idempotency_key raw"}).Draw(t, "form")
	m.twice = rapid.IntRange(0, 3).Draw(t, "may run twice") == 0
}

func (m *model) advance(t *rapid.T) {
	m.clock.Advance(rapid.SampledFrom([]time.Duration{
		time.Millisecond, nearby - time.Millisecond, nearby, 24 * time.Hour, week, -time.Hour,
	}).Draw(t, "by"))
}

// resolve lets a person look at the upstream and tell the truth.
func (m *model) resolve(t *rapid.T) {
	o := m.draw(t, func(o *operation) bool { return true })
	word := dedup.Resolution{Executed: o.effects > 0, By: "ada", Note: "looked"}
	_, err := m.pick(t).ledger.Resolve(context.Background(), o.id, word)
	switch {
	case o.state != dedup.Unknown:
		require.ErrorIs(t, err, dedup.ErrNotUnknown)
	case o.open() && !word.Executed:
		require.ErrorIs(t, err, dedup.ErrStillOpen)
	default:
		require.NoError(t, err)
		late := o.late
		o.judged = o.judged || !word.Executed
		m.settle(o, map[bool]dedup.State{true: dedup.Completed, false: dedup.Released}[word.Executed], "", false)
		o.late = late // somebody listens, and will be told that it is settled
	}
}

// draw chooses an operation.
func (m *model) draw(t *rapid.T, suits func(*operation) bool) *operation {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(m.ops)) {
		if suits(m.ops[name]) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		t.Skip("there is none")
	}
	return m.ops[rapid.SampledFrom(names).Draw(t, "operation")]
}

// check compares every operation with the ledger, and holds the promise.
func (m *model) check(t *rapid.T) {
	for name, o := range m.ops {
		e, _, err := m.gateways[0].ledger.Get(context.Background(), o.id)
		require.NoError(t, err)
		got := fmt.Sprint(e.State, e.Open(), e.Attempt, e.Doubt, e.IsError, e.SettledAt, string(e.Result), e.Downstream, e.Round)
		result := o.result
		if m.expired(o) {
			result = ""
		}
		want := fmt.Sprint(o.state, o.open(), o.attempt, o.doubt, o.isError, o.settled, result, o.downstream(), o.round)
		require.Equal(t, want, got, name)

		require.False(t, o.doubled, "%d effects of %s", o.effects, name)
		if e.State == dedup.Completed && !e.IsError {
			require.NotZero(t, o.effects, "%s is completed", name)
		}
		if e.State == dedup.Released {
			require.Zero(t, o.effects, "%s is released", name)
		}
	}
}
