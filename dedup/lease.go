package dedup

import (
	"sync"
	"time"
)

// A Proof is an error that proves that nothing was executed. Whoever connects to
// the upstream makes such errors; a mere error does not compile in its place.
type Proof interface {
	error
	// ProvesNotExecuted returns the row of the table of moves that the proof
	// stands in (2: no byte was sent; 3: refused by convention; 4: a URL must be
	// visited first; 6: a text that is configured to mean it), and the reason that
	// callers are told.
	ProvesNotExecuted() (row int, reason string)
}

var proofEvidence = map[int]Evidence{2: ProvenUnsent, 3: RefusedByConvention, 4: NeedsURL, 6: NothingHappened}

// An Answer is what an upstream answered, as it is recorded and replayed.
type Answer struct {
	Evidence Evidence // AnsweredResult, AnsweredErrorResult or AnsweredErrorReply
	Body     []byte   // raw; not kept when over MaxResultBytes
	Reason   Reason   // kept with a result; an error's is ReasonUpstreamError
	// Task is the id of the task that the upstream goes on with by itself, as its
	// answer names it; empty: the answer is the whole.
	Task string
}

// A Stranding says why nobody knows what a call did.
type Stranding struct {
	Evidence Evidence // NoAnswer, AmbiguousResult or AmbiguousReply
	Reason   Reason
	Note     string        // for the history; no arguments, no results
	OpenFor  time.Duration // how long the answer may still arrive; zero: it cannot
}

// A Lease is leave to send one attempt of an operation, or one continuation of it. It
// is settled once, with Complete, Ask, Release or Strand; the settling does not depend on the caller's
// context. It is safe for concurrent use.
type Lease struct {
	ledger     *Ledger
	entry      Entry
	near       *Entry
	downstream string // Request.Downstream, as this sending carries it

	mu      sync.Mutex
	settled bool
}

// Entry is the operation as it was claimed.
func (l *Lease) Entry() Entry { return l.entry }

// Near is an operation of the same content under another key, where the policy
// is to warn of it; else nil.
func (l *Lease) Near() *Entry { return l.near }

// DownstreamKey is the key for an upstream that takes one: the same for every
// attempt of the operation.
func (l *Lease) DownstreamKey() string { return l.ledger.info.Secret.downstreamKey(l.entry.Lookup) }

// Complete records the upstream's answer. The entry that it returns says how the
// operation stands now. On an error the answer is not durable yet, and the ledger
// goes on trying to write it until it is closed.
func (l *Lease) Complete(a Answer) (Entry, error) {
	return l.settle(settlement{evidence: a.Evidence, apply: l.ledger.recorder(a)})
}

// Release frees the key on proof that nothing was executed. Of a continuation the
// proof says only that it was not: the operation waits for input as before. Errors are
// as for Complete.
func (l *Lease) Release(p Proof) (Entry, error) {
	evidence, reason := evidenceOf(p)
	return l.settle(settlement{evidence: evidence, apply: reason.record})
}

// Strand records that nobody knows what the call did. Where the answer may still
// arrive, the *Late takes it; it is nil otherwise. Errors are as for Complete.
func (l *Lease) Strand(s Stranding) (Entry, *Late, error) {
	e, err := l.settle(settlement{evidence: s.Evidence, note: s.Note, apply: func(e *Entry) {
		e.Reason = s.Reason
		if s.OpenFor > 0 {
			e.OpenUntil = e.SettledAt.Add(s.OpenFor)
		}
	}})
	if err != nil || !e.Open() || attemptOf(e) != attemptOf(l.entry) {
		return e, nil, err
	}
	return e, &Late{ledger: l.ledger, entry: e}, nil
}

// Close strands an operation that no path settled: the safe side of forgetting.
// After a settlement it does nothing.
func (l *Lease) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.settled {
		return
	}
	l.settled = true
	_, _ = l.ledger.settle(settlement{
		claimed: l.entry, evidence: NoAnswer, note: "the attempt ended without a settlement", apply: ReasonConnectionLost.record,
	})
}

// settle hands a settlement of this attempt to the ledger.
func (l *Lease) settle(s settlement) (Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.settled {
		panic("dedup: a lease is settled once")
	}
	l.settled = true
	s.claimed = l.entry
	return l.ledger.settle(s)
}

// A Late is an attempt that was stranded while its answer could still arrive. It
// must be settled with Complete, Release or Close. It is not safe for concurrent
// use.
type Late struct {
	ledger *Ledger
	entry  Entry
}

// Complete records the late answer. Errors are as for [Lease.Complete].
func (l *Late) Complete(a Answer) (Entry, error) {
	return l.settle(a.Evidence, l.ledger.recorder(a))
}

// Release frees the key on the late proof that nothing was executed. Errors are
// as for [Lease.Complete].
func (l *Late) Release(p Proof) (Entry, error) {
	evidence, reason := evidenceOf(p)
	return l.settle(evidence, reason.record)
}

func (l *Late) settle(evidence Evidence, apply func(*Entry)) (Entry, error) {
	return l.ledger.settle(settlement{claimed: l.entry, evidence: evidence, note: "late answer", apply: apply})
}

// Close gives up waiting: the operation stays unknown, and no answer of this
// attempt will settle it any more.
func (l *Late) Close() error { return l.ledger.closeAttempt(l.entry, "no late answer") }

// recorder returns what puts an answer into an entry.
func (l *Ledger) recorder(a Answer) func(*Entry) {
	return func(e *Entry) {
		a.record(e)
		if a.Task != "" {
			e.Task = l.info.Secret.task(e.Scope, a.Task)
		}
	}
}

// record puts an answer into an entry.
func (a Answer) record(e *Entry) {
	e.IsError = a.Evidence != AnsweredResult
	e.Reason = a.Reason
	if e.IsError {
		e.Reason = ReasonUpstreamError
	}
	if e.Kept = KeptTooLarge; len(a.Body) <= MaxResultBytes {
		e.Kept, e.Result = KeptWhole, a.Body
	}
}

// record puts the reason why there is no answer into an entry.
func (r Reason) record(e *Entry) { e.Reason = r }

func evidenceOf(p Proof) (Evidence, Reason) {
	row, reason := p.ProvesNotExecuted()
	return proofEvidence[row], Reason(reason)
}
