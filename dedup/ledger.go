package dedup

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"
)

// Limits of a ledger, unless Options say otherwise.
const (
	// DefaultSweepEvery is how often operations of dead owners are looked for.
	DefaultSweepEvery = 3 * time.Second
	// MaxWaiters is how many callers wait for one operation in one process.
	MaxWaiters = 512
	// settleTimeout bounds the writing of one settlement.
	settleTimeout = 30 * time.Second
)

// ErrTooManyWaiters is returned by Await over MaxWaiters.
var ErrTooManyWaiters = errors.New("too many callers wait for one operation")

// Options are the settings of a ledger.
type Options struct {
	SweepEvery time.Duration // zero: DefaultSweepEvery
	// Alarm is told what a person should know; it may be nil. It must not block.
	Alarm func(Alarm)
}

// An Alarm is something that should not have happened, or a failure that the
// ledger goes on to mend.
type Alarm struct {
	Operation OperationID
	Problem   string // one line
	Err       error  // may be nil
}

// A Ledger lets at most one effect happen per key. It is safe for concurrent use.
type Ledger struct {
	store   Store
	info    Info
	options Options

	mu        sync.Mutex
	held      map[attempt]OperationID // attempts that this process runs or listens to
	unsent    map[attempt]bool        // claims whose commit is in doubt, and which were not sent
	unwritten map[attempt]settlement  // settlements that the store could not write yet
	waiters   map[OperationID]int

	stop chan struct{}
	done chan struct{}
}

// An attempt is one sending of an operation's call, or of a continuation of it.
type attempt struct {
	id     OperationID
	number int
	round  int
}

// New returns a ledger on a store, which the ledger then owns. It first settles
// what dead owners have left. An operation that cannot be settled yet, because its
// owner's life cannot be told, is left to the sweep and told to Options.Alarm.
func New(ctx context.Context, store Store, options Options) (*Ledger, error) {
	if options.SweepEvery <= 0 {
		options.SweepEvery = DefaultSweepEvery
	}
	l := &Ledger{
		store: store, info: store.Info(), options: options,
		held: map[attempt]OperationID{}, unsent: map[attempt]bool{}, unwritten: map[attempt]settlement{}, waiters: map[OperationID]int{},
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	unsettled, err := store.Unsettled(ctx)
	if err != nil {
		return nil, fmt.Errorf("read what earlier processes left: %w", err)
	}
	l.alarmUnswept(l.mend(ctx, unsettled))
	go l.sweepUntilClosed()
	return l, nil
}

// Close stops the sweep, makes one last try to write what could not be written, and
// closes the store whatever comes of it. Leases must be settled before.
func (l *Ledger) Close() error {
	close(l.stop)
	<-l.done
	l.writeUnwritten()
	return l.store.Close()
}

// Since is the moment from which the ledger knows of operations.
func (l *Ledger) Since() time.Time { return l.info.Since }

// Look says whether there is something to answer to a call without running it;
// ok is false where there is not. It writes nothing but counts, and needs no
// fsync.
func (l *Ledger) Look(ctx context.Context, r Request) (v Verdict, ok bool, err error) {
	q, content := l.query(r)
	for {
		s, err := l.store.Find(ctx, q)
		if err != nil {
			return nil, false, err
		}
		ruling := judge(r, content, s)
		if moved := l.sweepDead(ctx, ruling.verdict); moved {
			continue
		}
		l.count(r, ruling.verdict)
		return ruling.verdict, ruling.verdict != nil, nil
	}
}

// Begin claims the call's operation, or says why it may not run. A *Lease is
// durable: whatever happens from now on, no other call with this key runs on less
// than evidence. On an error nothing was claimed.
func (l *Ledger) Begin(ctx context.Context, r Request) (Verdict, error) {
	if r.Key.IsZero() {
		return nil, &KeyError{KeyRequired, "no key"}
	}
	q, content := l.query(r)
	fresh := NewOperationID()
	var ruled ruling
	var claim Change
	err := l.store.Claim(ctx, q, func(s Surroundings) (Change, bool) {
		l.unhold(attemptOf(claim.Entry), fresh) // of an earlier run of this transaction
		if ruled = judge(r, content, s); ruled.verdict != nil {
			claim = Change{}
			return claim, false
		}
		claim = l.claim(r, q, fresh, ruled, s)
		l.hold(attemptOf(claim.Entry), fresh)
		return claim, true
	})
	if err != nil {
		l.dropClaim(claim.Entry, fresh, err)
		return nil, err
	}
	if ruled.verdict == nil {
		return &Lease{ledger: l, entry: claim.Entry, near: ruled.near, downstream: r.Downstream}, nil
	}
	v, ok, err := l.Look(ctx, r) // with the stored result, and counted
	if err == nil && !ok {
		v = ruled.verdict // it changed in between; the caller waits and asks again
	}
	return v, err
}

// claim is the entry of a new attempt, or of the next round of one.
func (l *Ledger) claim(r Request, q Query, fresh OperationID, ruled ruling, s Surroundings) Change {
	evidence := ruled.evidence
	e := Entry{ID: fresh, Lookup: q.Lookup, Loose: q.Loose, Scope: r.Scope, KeyHint: r.Key.Hint(), CreatedAt: s.Now}
	if s.Same != nil {
		e = *s.Same
	}
	change, err := move(e, evidence, s.Now)
	if err != nil {
		panic(fmt.Sprintf("dedup: judge allowed a claim that the table does not: %v", err))
	}
	e = change.Entry
	e.Owner, e.Reason, e.IsError, e.Kept = l.info.Owner, "", false, KeptNone
	if change.Round = ruled.round; change.Round != nil { // what the operation does is settled
		change.Entry = e
		return change
	}
	e.Task, e.TaskStatus = Digest{}, ""
	e.Downstream = downstream(r, e, evidence)
	e.Content, e.Fingerprint, e.FingerprintVersion = q.Content, r.Fingerprint, r.FingerprintVersion
	e.Class, e.Window, e.Provenance = r.Class, r.Window, r.Provenance
	if evidence == Claimed { // what another attempt of the same operation repeats stays consumed
		e.RepeatOf = r.RepeatOf
	}
	change.Entry = e
	return change
}

// dropClaim forgets a claim that failed. Where its commit is in doubt, the sweep
// releases it: it was not sent. Should another call have claimed the same attempt
// meanwhile, this one did not take effect, and the attempt is the other's.
func (l *Ledger) dropClaim(e Entry, by OperationID, err error) {
	if l.unhold(attemptOf(e), by) && errors.Is(err, ErrAmbiguous) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.unsent[attemptOf(e)] = true
	}
}

// Await waits until a busy operation may stand differently, or ctx ends.
func (l *Ledger) Await(ctx context.Context, b Busy) error {
	l.mu.Lock()
	full := l.waiters[b.Entry.ID] >= MaxWaiters
	if !full {
		l.waiters[b.Entry.ID]++
	}
	l.mu.Unlock()
	if full {
		return ErrTooManyWaiters
	}
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.waiters[b.Entry.ID]--; l.waiters[b.Entry.ID] == 0 {
			delete(l.waiters, b.Entry.ID)
		}
	}()
	return l.store.Await(ctx, b.Entry)
}

// Operation returns an operation of the namespace, with its result while its window
// lasts, or ErrNotFound.
func (l *Ledger) Operation(ctx context.Context, namespace string, id OperationID) (Entry, error) {
	e, err := l.store.Get(ctx, id)
	if err == nil && e.Scope.Namespace != namespace {
		return Entry{}, ErrNotFound
	}
	return e, err
}

// OperationOf returns the operation of a key within a scope, with its result. here
// is false where the scope has none, and the operation is the newest of the key in
// the same namespace under another upstream or account. ErrNotFound where there is
// neither.
func (l *Ledger) OperationOf(ctx context.Context, scope Scope, key Key) (e Entry, here bool, err error) {
	s, err := l.store.Find(ctx, Query{Lookup: l.info.Secret.lookup(scope, key), Loose: l.info.Secret.loose(scope, key), Scope: scope})
	switch {
	case err != nil:
		return Entry{}, false, err
	case s.Same != nil:
		return *s.Same, true, nil
	case s.Elsewhere != nil:
		e, err = l.store.Get(ctx, s.Elsewhere.ID) // Find loads the result of Same only
		return e, false, err
	}
	return Entry{}, false, ErrNotFound
}

// Get returns any operation with its result and its history, for the operator; or
// ErrNotFound.
func (l *Ledger) Get(ctx context.Context, id OperationID) (Entry, []Event, error) {
	e, err := l.store.Get(ctx, id)
	if err != nil {
		return Entry{}, nil, err
	}
	events, err := l.store.History(ctx, id)
	return e, events, err
}

// List yields operations of every namespace, newest first, for the operator.
func (l *Ledger) List(ctx context.Context, f Filter) iter.Seq2[Entry, error] {
	return l.store.List(ctx, f)
}

// Totals counts the ledger's operations, for the operator.
func (l *Ledger) Totals(ctx context.Context) ([]Total, error) { return l.store.Totals(ctx) }

// Refused counts a call that had no usable key.
func (l *Ledger) Refused(scope Scope) {
	l.store.Tally(Tally{Kind: TallyRefused, Upstream: scope.Upstream, Tool: scope.Tool})
}

func (l *Ledger) query(r Request) (Query, Digest) {
	content := l.info.Secret.content(r.Scope, r.Fingerprint)
	q := Query{
		Lookup:   l.info.Secret.lookup(r.Scope, r.Key),
		Loose:    l.info.Secret.loose(r.Scope, r.Key),
		Content:  content,
		RepeatOf: r.RepeatOf,
		Rounds:   r.Continues != nil,
		Scope:    r.Scope,
	}
	if r.Near.Mode != NearOff {
		q.Near = r.Near.Within
	}
	return q, content
}

// count tallies what a verdict spared the upstream.
func (l *Ledger) count(r Request, v Verdict) {
	t := Tally{Upstream: r.Scope.Upstream, Tool: r.Scope.Tool}
	switch v := v.(type) {
	case Replay:
		t.Kind, t.Operation = TallyReplay, v.Entry.ID
	case Asked:
		t.Kind, t.Operation = TallyReplay, v.Entry.ID
	case Conflict, Expired:
		t.Kind = TallyConflict
	case Duplicate:
		t.Kind = TallyNearDuplicate
	default:
		return
	}
	l.store.Tally(t)
}

func attemptOf(e Entry) attempt { return attempt{e.ID, e.Attempt, e.Round} }

// hold notes that this process is about to run an attempt, for the Begin that the
// fresh id by tells from all others. Should an earlier claim of the same attempt
// have been in doubt, it did not take effect.
func (l *Ledger) hold(a attempt, by OperationID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[a] = by
	delete(l.unsent, a)
}

// unhold takes back what the same Begin has noted, and reports whether it had.
func (l *Ledger) unhold(a attempt, by OperationID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[a] != by {
		return false
	}
	delete(l.held, a)
	return true
}

func (l *Ledger) release(a attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, a)
}
