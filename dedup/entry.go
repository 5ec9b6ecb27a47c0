package dedup

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// An OperationID names an operation to people and models. Its text is "op_"
// and a UUID of version 7 without hyphens, so that ids sort by time.
type OperationID uuid.UUID

const operationPrefix = "op_"

// NewOperationID returns a fresh id.
func NewOperationID() OperationID { return OperationID(uuid.Must(uuid.NewV7())) }

// ParseOperationID reads the text that String writes; the UUID may have hyphens.
func ParseOperationID(text string) (OperationID, error) {
	if len(text) > len(operationPrefix) && text[:len(operationPrefix)] == operationPrefix {
		if id, err := uuid.Parse(text[len(operationPrefix):]); err == nil && id != uuid.Nil {
			return OperationID(id), nil
		}
	}
	return OperationID{}, fmt.Errorf("%q is no operation id: they look like op_0193c5a1f2e47b3c9d8e7f6a5b4c3d2e", text)
}

func (id OperationID) String() string { return operationPrefix + fmt.Sprintf("%x", id[:]) }

// IsZero reports whether the id names no operation.
func (id OperationID) IsZero() bool { return id == OperationID{} }

// An OwnerID names a gateway process for its life. It is never used again.
type OwnerID uuid.UUID

// NewOwnerID returns a fresh id.
func NewOwnerID() OwnerID { return OwnerID(uuid.Must(uuid.NewV7())) }

func (id OwnerID) String() string { return uuid.UUID(id).String() }

// A Reason is the short word for why an operation stands as it does. The words
// are part of what callers are told.
type Reason string

// The reasons that the ledger itself writes or compares.
const (
	ReasonTimeout             Reason = "timeout"
	ReasonConnectionLost      Reason = "connection_lost"
	ReasonUpstreamExited      Reason = "upstream_exited"
	ReasonBadAnswer           Reason = "bad_answer"
	ReasonUpstreamError       Reason = "upstream_error"
	ReasonAmbiguousError      Reason = "ambiguous_error"
	ReasonOwnerDied           Reason = "owner_died"
	ReasonShutdown            Reason = "shutdown"
	ReasonUnreachable         Reason = "unreachable"
	ReasonResolvedExecuted    Reason = "resolved_executed"
	ReasonResolvedNotExecuted Reason = "resolved_not_executed"
	ReasonInputRequired       Reason = "input_required"
	ReasonInputExpired        Reason = "input_expired"
)

// Kept says what became of an operation's result.
type Kept uint8

// What can become of a result. The numbers are written into ledgers.
const (
	KeptNone     Kept = iota // there is none (yet), or a person settled without one
	KeptWhole                // stored
	KeptTooLarge             // it was over MaxResultBytes
	KeptDropped              // it was stored, and dropped after its window; the operation stays
)

// An Entry is one operation as a store keeps it. Times are the store's own, in
// UTC, to the millisecond. An entry is a value: changing it changes nothing but
// the copy.
type Entry struct {
	ID          OperationID
	Lookup      Digest
	Loose       Digest
	Content     Digest
	Fingerprint Digest
	// FingerprintVersion names the algorithm of Fingerprint.
	FingerprintVersion int
	Scope              Scope
	KeyHint            string // at most the first four characters, and the length
	Class              string // the tool's class when the operation was claimed

	State   State
	Row     Row // the move that led to State
	Attempt int // the newest attempt, from 1
	// Round counts the sendings since the one of row 1: attempts, and continuations
	// that answer a question. With the attempt's number it names one of them.
	Round int
	// Doubt is the row (16 or 17) by which the newest attempt followed one that may
	// have executed. Zero: every earlier attempt was proven not to have executed.
	Doubt Row
	// Downstream is Request.Downstream where every attempt that may have executed
	// was sent alike. Empty: one of them carried no key, or another form of it.
	Downstream string
	Owner      OwnerID // the process that runs or ran it
	// OpenUntil is how long the newest attempt's answer may still arrive
	// although the state is Unknown. Zero: closed.
	OpenUntil time.Time
	// InputUntil is until when the newest question may be answered. Zero where there
	// is none.
	InputUntil time.Time

	CreatedAt time.Time // the first claim
	ClaimedAt time.Time // the newest attempt's claim
	SettledAt time.Time // when the state became Completed, Unknown or Released; zero before
	Window    time.Duration

	IsError  bool
	Reason   Reason
	Kept     Kept
	Result   []byte // as recorded, or the question while AwaitingInput; only Find and Get fill it
	RepeatOf OperationID
	Replays  int
	// Task is the digest of the task handle that the upstream answered with; zero:
	// it answered otherwise. TaskStatus is how the task has ended, as far as anybody
	// has seen.
	Task       Digest
	TaskStatus TaskStatus
	Provenance []byte // JSON: session, client, request id; never part of the scope
}

// Open reports whether the newest attempt's answer may still arrive although
// nobody knows of its effect.
func (e Entry) Open() bool { return e.State == Unknown && !e.OpenUntil.IsZero() }

// Unanswered reports whether the operation waits for input that came too late by
// now.
func (e Entry) Unanswered(now time.Time) bool {
	return e.State == AwaitingInput && !now.Before(e.InputUntil)
}

// KeepsQuestions reports whether a store keeps the questions of the operation's
// rounds: somebody may still be given one. Of the rounds themselves it keeps the rest
// in any case.
func (e Entry) KeepsQuestions() bool {
	return e.State == Running || e.State == AwaitingInput || e.Kept == KeptWhole
}

// Expired reports whether the recorded answer is no longer replayed at now. The
// window counts from the answer. One that was dropped stays expired, although a
// clock may be set back.
func (e Entry) Expired(now time.Time) bool {
	return e.State == Completed && (e.Kept == KeptDropped || !now.Before(e.SettledAt.Add(e.Window)))
}

// Overdue reports whether the result is stored although its window has passed.
func (e Entry) Overdue(now time.Time) bool { return e.Kept == KeptWhole && e.Expired(now) }

// Shown is the entry as Find and Get of a store give it at now: a result that is
// overdue counts as dropped, whether or not it has been yet.
func (e Entry) Shown(now time.Time) Entry {
	if e.Overdue(now) {
		e.Kept, e.Result = KeptDropped, nil
	}
	return e
}

// An Event is one line of an operation's history: who moved it, when, and on
// what evidence.
type Event struct {
	Row     Row
	Attempt int
	State   State     // the state after it
	At      time.Time // filled by the store
	Actor   string    // a person's name; empty for the gateway
	Note    string    // what the evidence was, in words; never keys, arguments or results
}

// A Change is what a decision wants written: the entry as it shall stand, and
// the event that says why. With Keep set the result is written too; without it
// the stored result stays.
type Change struct {
	Entry Entry
	Event Event
	Keep  bool // write Entry.Result
	// Round, if not nil, is written too: inserted where the operation has none of
	// that number, else its Answers alone.
	Round *Round
}

var errNoMove = errors.New("no such move")

// move applies evidence to an entry by the table. It fails where the table has
// no such move; the entry then stays as it is.
func move(e Entry, evidence Evidence, now time.Time) (Change, error) {
	m, ok := moveFor(e, evidence)
	if !ok {
		return Change{}, fmt.Errorf("evidence %d in state %s: %w", evidence, e.State, errNoMove)
	}
	e.State, e.Row = m.To, m.Row
	e.OpenUntil = time.Time{}
	if m.Row != 11 { // a continuation that comes to nothing leaves the question as it was
		e.InputUntil = time.Time{}
	}
	switch {
	case m.NewAttempt && m.From == Unknown:
		e.Attempt, e.ClaimedAt, e.Doubt, e.Round = e.Attempt+1, now, m.Row, e.Round+1
	case m.NewAttempt:
		e.Attempt, e.ClaimedAt, e.Doubt, e.Round = e.Attempt+1, now, 0, 0
	case m.Evidence == InputContinued:
		e.Round++
	}
	if m.To == Running {
		e.SettledAt = time.Time{}
	} else if m.To != AwaitingInput {
		e.SettledAt = now
	}
	return Change{Entry: e, Event: Event{Row: m.Row, Attempt: e.Attempt, State: m.To}}, nil
}
