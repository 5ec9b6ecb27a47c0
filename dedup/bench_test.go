package dedup_test

import (
	"context"
	"crypto/sha256"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/dedup/storetest"
)

const (
	week     = 168 * time.Hour
	nearby   = 10 * time.Minute
	lateness = 5 * time.Minute // how long a stranded attempt stays open
	business = "refund:order-4812:2"
)

// A bench is a ledger file with gateways on it, and a clock.
type bench struct {
	t         *testing.T
	clock     *storetest.Clock
	reference *storetest.Reference
	ledger    *dedup.Ledger // the first gateway's
	store     dedup.Store   // and its store
	live      map[*dedup.Ledger]bool

	mu     sync.Mutex
	alarms []dedup.Alarm
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, clock: storetest.NewClock(), live: map[*dedup.Ledger]bool{}}
	b.reference = storetest.NewReference(b.clock.Now)
	b.store = b.reference.Open(nil)
	b.ledger = b.gateway(b.store)
	return b
}

// gateway starts a ledger on a store, which sweeps when it is told to.
func (b *bench) gateway(s dedup.Store) *dedup.Ledger {
	b.t.Helper()
	l, err := dedup.New(context.Background(), s, dedup.Options{SweepEvery: time.Hour, Alarm: b.hear})
	require.NoError(b.t, err)
	b.live[l] = true
	b.t.Cleanup(func() {
		if b.live[l] {
			b.shut(l)
		}
	})
	return l
}

// shut closes a gateway's ledger in good order.
func (b *bench) shut(l *dedup.Ledger) {
	b.t.Helper()
	delete(b.live, l)
	require.NoError(b.t, l.Close())
}

// crash ends a gateway at once.
func (b *bench) crash(l *dedup.Ledger) {
	b.t.Helper()
	delete(b.live, l)
	require.NoError(b.t, l.Crash())
}

func (b *bench) peer() *dedup.Ledger { return b.gateway(b.reference.Open(nil)) }

func (b *bench) hear(a dedup.Alarm) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.alarms = append(b.alarms, a)
}

// heard are the alarms since the last call.
func (b *bench) heard() (problems []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range b.alarms {
		problems = append(problems, a.Problem)
	}
	b.alarms = nil
	return problems
}

// request asks for a refund with a key, for other arguments where they are given.
func request(t testing.TB, text string, change ...func(*dedup.Request)) dedup.Request {
	t.Helper()
	key, err := dedup.ParseKey(text, "create_refund")
	require.NoError(t, err)
	r := dedup.Request{
		Scope: dedup.Scope{Namespace: "ada", Upstream: "shop", Account: "/srv", Tool: "create_refund"},
		Key:   key, Fingerprint: sha256.Sum256([]byte("42 dollars")), FingerprintVersion: 1,
		Class: "NON_RETRYABLE", Window: week, Provenance: []byte(`{"session":"s1"}`),
	}
	for _, c := range change {
		c(&r)
	}
	return r
}

func arguments(text string) func(*dedup.Request) {
	return func(r *dedup.Request) { r.Fingerprint = sha256.Sum256([]byte(text)) }
}

func confirming(r *dedup.Request) { r.Near = dedup.Near{Mode: dedup.NearConfirm, Within: nearby} }

func repeating(id dedup.OperationID) func(*dedup.Request) {
	return func(r *dedup.Request) { r.RepeatOf = id }
}

func safeRetry(r *dedup.Request) { r.Class, r.OnUnknown.RunAgain = "SAFE_RETRY", true }

func deduplicate(r *dedup.Request) {
	r.Class, r.OnUnknown.ResendWithin, r.Downstream = "DEDUPLICATE", 24*time.Hour, "params.client_token"
}

// sending says in which form the upstream gets a key.
func sending(form string) func(*dedup.Request) {
	return func(r *dedup.Request) { r.Downstream = form }
}

// said lets a person have given the class.
func said(r *dedup.Request) { r.ClassBySaid = true }

// begin asks to run.
func begin(t testing.TB, l *dedup.Ledger, r dedup.Request) dedup.Verdict {
	t.Helper()
	v, err := l.Begin(context.Background(), r)
	require.NoError(t, err)
	return v
}

// mayRun asks to run, as a gateway does: it looks first. It must get leave.
func mayRun(t testing.TB, l *dedup.Ledger, r dedup.Request) *dedup.Lease {
	t.Helper()
	_, found, err := l.Look(context.Background(), r)
	require.NoError(t, err)
	require.False(t, found)
	lease, ok := begin(t, l, r).(*dedup.Lease)
	require.True(t, ok, "leave to run")
	return lease
}

// told asks to run, and must get another verdict, which a look gives as well.
func told[V dedup.Verdict](t testing.TB, l *dedup.Ledger, r dedup.Request) V {
	t.Helper()
	v, ok := begin(t, l, r).(V)
	require.True(t, ok, "%T", v)
	looked, found, err := l.Look(context.Background(), r)
	require.NoError(t, err)
	require.True(t, found)
	require.IsType(t, v, looked)
	return v
}

// answer completes with a result.
func answer(t testing.TB, lease *dedup.Lease) dedup.Entry {
	t.Helper()
	e, err := lease.Complete(dedup.Answer{Evidence: dedup.AnsweredResult, Body: []byte(`{"refund":1}`)})
	require.NoError(t, err)
	return e
}

// strand ends an attempt without an answer, which may still arrive.
func strand(t testing.TB, lease *dedup.Lease) *dedup.Late {
	t.Helper()
	e, late, err := lease.Strand(dedup.Stranding{Evidence: dedup.NoAnswer, Reason: dedup.ReasonTimeout, Note: "after 30 s", OpenFor: lateness})
	require.NoError(t, err)
	require.True(t, e.Open())
	require.NotNil(t, late)
	return late
}

// lose ends an attempt without an answer, for good.
func lose(t testing.TB, lease *dedup.Lease) dedup.Entry {
	t.Helper()
	e, late, err := lease.Strand(dedup.Stranding{Evidence: dedup.NoAnswer, Reason: dedup.ReasonConnectionLost})
	require.NoError(t, err)
	require.Nil(t, late)
	require.Equal(t, dedup.Unknown, e.State)
	return e
}

// A proof is what an upstream's connection would make.
type proof int

func (p proof) Error() string { return "nothing was executed" }
func (p proof) ProvesNotExecuted() (int, string) {
	return int(p), map[proof]string{2: "unreachable"}[p]
}

// stands is how an operation stands, with its result.
func (b *bench) stands(id dedup.OperationID) dedup.Entry {
	b.t.Helper()
	e, _, err := b.ledger.Get(context.Background(), id)
	require.NoError(b.t, err)
	return e
}

// requireRows compares the rows of an operation's history.
func (b *bench) requireRows(id dedup.OperationID, rows ...dedup.Row) []dedup.Event {
	b.t.Helper()
	_, events, err := b.ledger.Get(context.Background(), id)
	require.NoError(b.t, err)
	var got []dedup.Row
	for _, e := range events {
		got = append(got, e.Row)
	}
	require.Equal(b.t, rows, got)
	return events
}

// requireQuiet makes sure that nothing alarmed and nothing is kept in memory.
func (b *bench) requireQuiet() {
	b.t.Helper()
	assert.Empty(b.t, b.heard())
	assert.Zero(b.t, b.ledger.Remembers())
}

// only is the one operation of a ledger.
func (b *bench) only() dedup.Entry {
	b.t.Helper()
	var all []dedup.Entry
	for e, err := range b.ledger.List(context.Background(), dedup.Filter{}) {
		require.NoError(b.t, err)
		all = append(all, e)
	}
	require.Len(b.t, all, 1)
	return b.stands(all[0].ID)
}
