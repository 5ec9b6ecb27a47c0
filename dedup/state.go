package dedup

import (
	"fmt"
	"slices"
)

// A State says what the ledger knows of an operation. The zero value is no
// state: there is no such operation.
type State uint8

// The states, with who moves an operation in and out of each. The numbers are
// written into ledgers.
const (
	// Running: claimed and durable; the call may have been sent. Begin moves in;
	// the lease moves out, or the sweep when the owner is dead.
	Running State = iota + 1
	// AwaitingInput: the upstream asked for more input before it goes on. The
	// lease moves in, with a question, or back in with proof that a continuation was
	// not executed; the caller's continuation moves out, or the sweep when none came
	// in time.
	AwaitingInput
	// Completed: the upstream answered, or somebody established that the call
	// executed. Nothing moves out.
	Completed
	// Unknown: sent, and no usable answer. Whatever ends a wait moves in; only
	// evidence, a person, or a guarantee of the upstream moves out.
	Unknown
	// Released: evidence says that nothing was executed, and the key may be used
	// again. Begin moves out.
	Released
)

var stateNames = [...]string{"none", "running", "awaiting_input", "completed", "unknown", "released"}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// ParseState reads the word that String writes.
func ParseState(word string) (State, error) {
	if i := slices.Index(stateNames[1:], word); i >= 0 {
		return State(i + 1), nil
	}
	return 0, fmt.Errorf("unknown state %q: use one of %v", word, stateNames[1:])
}

// Evidence is a recorded fact that justifies a move. The zero value justifies
// none.
type Evidence uint8

// The kinds of evidence.
const (
	Claimed             Evidence = iota + 1 // a call with a good key asks to run
	ProvenUnsent                            // the transport proves that no byte left
	RefusedByConvention                     // an error code that by convention precedes execution
	NeedsURL                                // the upstream asks the person to visit a URL first
	AnsweredResult                          // a result
	AnsweredErrorResult                     // a result flagged isError
	AmbiguousResult                         // an isError whose text says that the tool itself does not know
	NothingHappened                         // an isError whose text is configured to mean that nothing happened
	AnsweredErrorReply                      // a JSON-RPC error that names a definite refusal
	AmbiguousReply                          // any other JSON-RPC error
	NoAnswer                                // timeout, end of stream, an answer that cannot be used
	OwnerDead                               // the lock that the owner holds for life is free
	InputRequired                           // the upstream asks for input
	InputContinued                          // the caller continues with the input
	CheckExecuted                           // an effect check found the effect
	CheckNotExecuted                        // an authoritative effect check found none
	PersonExecuted                          // a person says that it executed
	PersonNotExecuted                       // a person says that it did not
	InputExpired                            // nobody continued in time
	ResentWithKey                           // the upstream honours the key that is sent again
	SafeToRepeat                            // the tool may run twice, by declaration
	Abandoned                               // a person says that the owner's machine is gone
)

// A Row is the number of a row of the table of moves, as documentation and the
// event log give it.
type Row uint8

// A Move is one lawful move of an operation.
type Move struct {
	Row        Row
	From       State
	Evidence   Evidence
	To         State
	NewAttempt bool  // the attempt's number goes up by one
	Closed     bool  // only while no answer can arrive any more
	FirstRound bool  // only where Entry.Round is 0: nothing was sent after the call of row 1
	After      []Row // if any: only where one of these moves led to From
	Doubt      []Row // if any: only where Entry.Doubt is one of these
}

// What an attempt's evidence proves depends on the attempts before it: where one
// of them may have executed, proof about the newest frees no key.
var (
	noDoubt     = []Row{0}      // every earlier attempt was proven not to have executed
	inDoubt     = []Row{16, 17} // an earlier attempt may have executed
	notResent   = []Row{0, 17}
	resentByKey = []Row{16} // an error answer may be about the earlier attempt's effect
)

// What proof about the newest sending is worth depends on what was sent. Of a whole
// call it says that the attempt had no effect. Of a continuation it says that things
// stand as they did when the question was asked: what the upstream did before it
// asked, nobody knows.
var (
	ofCall         = []Row{1, 16, 17}
	ofContinuation = []Row{11}
)

// Moves is the whole table: what does not stand here does not happen. Time by
// itself is no evidence, so it never makes an operation executable.
var Moves = []Move{
	{Row: 1, From: 0, Evidence: Claimed, To: Running, NewAttempt: true},
	{Row: 1, From: Released, Evidence: Claimed, To: Running, NewAttempt: true},
	{Row: 2, From: Running, Evidence: ProvenUnsent, To: Released, After: ofCall, Doubt: noDoubt},
	{Row: 3, From: Running, Evidence: RefusedByConvention, To: Released, After: ofCall, Doubt: noDoubt},
	{Row: 4, From: Running, Evidence: NeedsURL, To: Released, After: ofCall, Doubt: noDoubt},
	{Row: 5, From: Running, Evidence: AnsweredResult, To: Completed},
	{Row: 6, From: Running, Evidence: AnsweredErrorResult, To: Completed, Doubt: notResent},
	{Row: 6, From: Running, Evidence: AmbiguousResult, To: Unknown},
	{Row: 6, From: Running, Evidence: NothingHappened, To: Released, Doubt: noDoubt},
	{Row: 7, From: Running, Evidence: AnsweredErrorReply, To: Completed, Doubt: notResent},
	{Row: 7, From: Running, Evidence: AmbiguousReply, To: Unknown},
	{Row: 8, From: Running, Evidence: NoAnswer, To: Unknown},
	{Row: 9, From: Running, Evidence: OwnerDead, To: Unknown},
	{Row: 10, From: Running, Evidence: InputRequired, To: AwaitingInput},
	{Row: 11, From: AwaitingInput, Evidence: InputContinued, To: Running},
	{Row: 11, From: Running, Evidence: ProvenUnsent, To: AwaitingInput, After: ofContinuation},
	{Row: 11, From: Running, Evidence: RefusedByConvention, To: AwaitingInput, After: ofContinuation},
	{Row: 11, From: Running, Evidence: NeedsURL, To: AwaitingInput, After: ofContinuation},
	{Row: 12, From: Unknown, Evidence: RefusedByConvention, To: Released, FirstRound: true, Doubt: noDoubt},
	{Row: 12, From: Unknown, Evidence: NeedsURL, To: Released, FirstRound: true, Doubt: noDoubt},
	{Row: 12, From: Unknown, Evidence: AnsweredResult, To: Completed},
	{Row: 12, From: Unknown, Evidence: AnsweredErrorResult, To: Completed, Doubt: notResent},
	{Row: 12, From: Unknown, Evidence: NothingHappened, To: Released, Doubt: noDoubt},
	{Row: 12, From: Unknown, Evidence: AnsweredErrorReply, To: Completed, Doubt: notResent},
	{Row: 13, From: Unknown, Evidence: CheckExecuted, To: Completed, Closed: true},
	{Row: 14, From: Unknown, Evidence: CheckNotExecuted, To: Released, Closed: true},
	{Row: 15, From: Unknown, Evidence: PersonExecuted, To: Completed},
	{Row: 15, From: Unknown, Evidence: PersonNotExecuted, To: Released, Closed: true},
	{Row: 15, From: AwaitingInput, Evidence: InputExpired, To: Unknown},
	{Row: 16, From: Unknown, Evidence: ResentWithKey, To: Running, NewAttempt: true, Closed: true},
	{Row: 16, From: Running, Evidence: ProvenUnsent, To: Unknown, After: ofCall, Doubt: inDoubt},
	{Row: 16, From: Running, Evidence: RefusedByConvention, To: Unknown, After: ofCall, Doubt: inDoubt},
	{Row: 16, From: Running, Evidence: NeedsURL, To: Unknown, After: ofCall, Doubt: inDoubt},
	{Row: 16, From: Running, Evidence: NothingHappened, To: Unknown, Doubt: inDoubt},
	{Row: 16, From: Running, Evidence: AnsweredErrorResult, To: Unknown, Doubt: resentByKey},
	{Row: 16, From: Running, Evidence: AnsweredErrorReply, To: Unknown, Doubt: resentByKey},
	{Row: 17, From: Unknown, Evidence: SafeToRepeat, To: Running, NewAttempt: true, Closed: true},
	{Row: 18, From: Released, Evidence: AnsweredResult, To: Completed, After: []Row{14, 15}},
	{Row: 18, From: Released, Evidence: AnsweredErrorResult, To: Completed, After: []Row{14, 15}},
	{Row: 18, From: Released, Evidence: AnsweredErrorReply, To: Completed, After: []Row{14, 15}},
	{Row: 20, From: Running, Evidence: Abandoned, To: Unknown},
}

// RowContradicted is the row of an answer that comes for an attempt which a
// newer one has superseded: it moves nothing, and is put on record.
const RowContradicted Row = 19

// moveFor finds the move that the evidence justifies for an entry.
func moveFor(e Entry, evidence Evidence) (Move, bool) {
	for _, m := range Moves {
		if m.From == e.State && m.Evidence == evidence &&
			(len(m.After) == 0 || slices.Contains(m.After, e.Row)) &&
			(len(m.Doubt) == 0 || slices.Contains(m.Doubt, e.Doubt)) &&
			(!m.Closed || !e.Open()) && (!m.FirstRound || e.Round == 0) {
			return m, true
		}
	}
	return Move{}, false
}

// Answers reports whether the evidence is an answer that settles an operation: a
// result, or an error that is one.
func (e Evidence) Answers() bool {
	return e == AnsweredResult || e == AnsweredErrorResult || e == AnsweredErrorReply
}
