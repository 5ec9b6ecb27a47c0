package dedup

import (
	"context"
	"errors"
	"iter"
	"time"
)

// Limits of what a store is asked to keep.
const (
	// MaxResultBytes is the largest result that is recorded. A larger one is
	// delivered, and later replays say that it was not kept.
	MaxResultBytes = 8 << 20
	// MaxDownstreamBytes is the longest Entry.Downstream. A store does not write a
	// longer one: cut, two different ones could look alike.
	MaxDownstreamBytes = 255
	// MaxTwins is how many operations of the same content a claim looks at.
	MaxTwins = 16
)

// Errors of a store. Every other error means that the store could not be read
// or written.
var (
	// ErrNotFound: no operation has that id.
	ErrNotFound = errors.New("no such operation")
	// ErrAmbiguous wraps the failure of a write of which the store cannot say
	// whether it took effect.
	ErrAmbiguous = errors.New("the ledger cannot say whether the write took effect")
)

// A Store keeps operations. It gathers, asks, and writes what it is told; which
// moves are lawful is decided in this package, and a store refuses the others
// only as a guard against mistakes.
//
// Every method is safe for concurrent use, in one process and by several
// processes on the same ledger. Claim and Move are linearizable: each appears to
// happen at one moment between its call and its return, seen by every process
// from then on. When they return without an error, what they wrote survives a
// crash of the process, of the machine, and a loss of power. When they return an
// error, nothing was written, unless the error is ErrAmbiguous. They do not give
// up halfway when ctx ends: a write that was begun is finished.
//
// With a change that an entry begins anew with (row 1) its rounds go. With one after
// which Entry.KeepsQuestions is false their questions go.
//
// A decide function is pure, quick and does not call the store. A store may call
// it more than once, when a transaction has to be run again; only the last call
// counts.
//
// The clock is the store's own. It is handed to the decisions, and it never
// matters what a caller's clock says.
type Store interface {
	// Info tells what does not change while the store is open.
	Info() Info

	// Find gathers what stands in a claim's way, with the stored result of Same. It
	// reads a state that was current at some moment during the call. Past its window
	// a result is not loaded, and Same says that it was dropped (Entry.Shown).
	Find(ctx context.Context, q Query) (Surroundings, error)

	// Get returns one operation with its result, or ErrNotFound. Past its window the
	// result is not loaded, as in Find. Of an operation that awaits input the result is
	// the newest question.
	Get(ctx context.Context, id OperationID) (Entry, error)

	// Claim gathers as Find does (without results) and asks decide within the
	// same transaction. When decide wants it, the change is written: an insert
	// where there was no Same, else an update of Same. No other Claim or Move, of
	// any process, takes place in between.
	Claim(ctx context.Context, q Query, decide func(Surroundings) (Change, bool)) error

	// Move loads one operation as it is stored, but without its result, asks decide,
	// and writes the change when decide wants it. An event is written even when the entry stays
	// as it is. ErrNotFound where there is no such operation.
	Move(ctx context.Context, id OperationID, decide func(Entry, time.Time) (Change, bool)) error

	// Await returns nil when the operation's state, attempt, round or openness may
	// differ from what the entry says, and ctx's error when ctx ends first. It may
	// return early; callers look again.
	Await(ctx context.Context, seen Entry) error

	// Tally counts something that is not worth a commit of its own. It returns at
	// once; the count is written with the next commit or when the store is closed,
	// and may be lost in a crash.
	Tally(t Tally)

	// TaskOf returns the operation that was last answered with a task of this digest,
	// or ErrNotFound.
	TaskOf(ctx context.Context, task Digest) (OperationID, error)

	// Unsettled returns the operations that are Running, those that are Unknown and
	// open, and those that are Unanswered by the store's clock, of all owners.
	Unsettled(ctx context.Context) ([]Entry, error)

	// Overdue returns completed operations whose result is stored (KeptWhole) although
	// their window has passed, by the store's clock: at most limit, those whose window
	// ended first before the others, without results.
	Overdue(ctx context.Context, limit int) ([]Entry, error)

	// Alive reports whether an owner's process lives, by a lock that the process
	// holds until its end. A stopped process lives. Time and process ids are no
	// evidence. In doubt it errs; it never guesses.
	Alive(owner OwnerID) (bool, error)

	// List yields operations, newest claim first, without results.
	List(ctx context.Context, f Filter) iter.Seq2[Entry, error]

	// History returns the events of one operation, oldest first.
	History(ctx context.Context, id OperationID) ([]Event, error)

	// Records yields operations in the order of their first claims. It reads in pages
	// between which nothing is held, and which are small in bytes too. What a record
	// tells stood so at one moment; an operation that was there when Records was called,
	// and stays, is yielded once, whatever becomes of it meanwhile.
	Records(ctx context.Context, f RecordFilter) iter.Seq2[Record, error]

	// Remove loads one operation as Move does, asks decide, and deletes it with all that
	// the ledger holds of it when decide wants it, as durably as Move. Only a Released
	// one may be deleted; every other is refused. ErrNotFound where there is none.
	Remove(ctx context.Context, id OperationID, decide func(Entry, time.Time) bool) error

	// Shrink gives disk space back that is not used any more, a step of a bounded size,
	// and reports how many bytes that were, and whether there is more.
	Shrink(ctx context.Context) (bytes int64, more bool, err error)

	// Rename puts renames on record, all or none, as durably as Move. One that is there
	// already stays as it is.
	Rename(ctx context.Context, renames []Rename) error

	// Renames returns the renames on record, oldest first.
	Renames(ctx context.Context) ([]Rename, error)

	// Totals counts the ledger's operations and tallies by tool and day.
	Totals(ctx context.Context) ([]Total, error)

	// Close writes the tallies, gives up this process's ownership, and frees
	// everything. The store is not used after it.
	Close() error
}

// Info is what does not change while a store is open.
type Info struct {
	Secret Secret
	Since  time.Time // since when the ledger knows of operations
	Owner  OwnerID   // this process
	Path   string    // where the ledger lives, for people
}

// A Query names what stands in a claim's way.
type Query struct {
	Lookup   Digest
	Loose    Digest
	Content  Digest
	Near     time.Duration // how far back a claim of the same content matters
	RepeatOf OperationID   // the operation that the caller means to repeat; may be zero
	Rounds   bool          // whether Surroundings.Rounds are wanted
	// Scope is the call's, for Rename: its operation may stand under an address that
	// was renamed, perhaps more than once, to that of the scope.
	Scope Scope
}

// Surroundings are the operations that a claim's decision looks at.
type Surroundings struct {
	Now time.Time
	// Same is the operation of this very key and scope. Where there is none, or a
	// Released one, it is what else would be Elsewhere, if that was claimed at an address
	// that was renamed to Query.Scope's; the rest is gathered as for its own lookup.
	Same *Entry
	// Rounds are those of Same, oldest first; with their questions where Find gathers.
	Rounds []Round
	// Elsewhere is the newest operation of the same loose digest that is not
	// Released and has another lookup.
	Elsewhere *Entry
	// Twins are operations of the same content under other keys that are Running,
	// or were claimed within Query.Near and are not Released; newest claim first,
	// at most MaxTwins.
	Twins []Entry
	// Repeated is the operation that Query.RepeatOf names.
	Repeated *Entry
	// RepeatedBy is an operation of another lookup, not Released, that repeats the
	// same one.
	RepeatedBy *Entry
}

// A Filter chooses operations to list. Zero members choose all.
type Filter struct {
	State State
	Tool  string
	Since time.Duration // claimed within; of the store's clock
	Limit int
}

// A TallyKind is what is counted.
type TallyKind string

// What is counted. The words are written into ledgers.
const (
	TallyReplay        TallyKind = "replay"         // a repeated call was answered from the ledger
	TallyConflict      TallyKind = "conflict"       // a key was used for something else
	TallyNearDuplicate TallyKind = "near_duplicate" // the same content under another key was stopped
	TallyRefused       TallyKind = "refused"        // a call without a usable key
)

// A Tally is one count. Operation is set for replays, whose number is kept with
// the operation too.
type Tally struct {
	Kind      TallyKind
	Upstream  string
	Tool      string
	Operation OperationID
}

// A Total is what one tool did on one day (UTC).
type Total struct {
	Day      string // 2006-01-02
	Upstream string
	Tool     string
	States   map[State]int // operations by the day of their first claim
	Errors   int           // completed operations that are errors
	Resolved int           // operations that a person settled
	Tallies  map[TallyKind]int
}
