package dedup

import (
	"slices"
	"time"
)

// DefaultInputWindow is how long a question may be answered, unless it says otherwise.
const DefaultInputWindow = time.Hour

// A Question is what an upstream asks for before it goes on with a call. The caller
// answers by making the same call again with the answers and the state that came with
// the question (Model Context Protocol 2026-07-28, multi round-trip requests).
type Question struct {
	Body   []byte        // the upstream's answer, raw; not kept when over MaxResultBytes
	State  Digest        // of the opaque state that came with it; zero: none came
	Bare   bool          // it asks for nothing but to be called again
	Within time.Duration // how long it may be answered; zero: DefaultInputWindow
}

// A Continuation is what a call says to a question. That it is a question's answer is
// told by the state, so that the first of several answers is the one that counts.
type Continuation struct {
	State   Digest // of the opaque state that the caller gave back; zero: none
	Answers Digest // tells two continuations apart where questions came with the same state
}

// A Round is one question that an operation was asked, and what became of it.
type Round struct {
	Number  int // Entry.Round when it was asked
	Attempt int // that was asked
	State   Digest
	Bare    bool
	// Downstream is Request.Downstream of the attempt: a continuation in another form
	// would be a stranger to the upstream.
	Downstream string
	Answers    Digest // of the newest continuation; zero: none was claimed
	Question   []byte // only Find fills it; nil where it is not kept (any more)
}

// roundOf finds the round that a continuation answers: the newest that came with its
// state. Where several did, a continuation that was sent already is known by its
// answers; but where the upstream just wants to be called again, calling again is all
// there is to say, as often as it asks.
func roundOf(rounds []Round, c Continuation, waits bool) (at int, ok bool) {
	at = -1
	for i, r := range slices.Backward(rounds) {
		if r.State != c.State {
			continue
		}
		if at < 0 {
			at = i
		}
		newest := i == len(rounds)-1
		if newest && r.Bare {
			return i, true
		}
		if (!newest || !waits) && r.Answers == c.Answers {
			return i, true
		}
	}
	return at, at >= 0
}

// judgeContinuation rules on a call that answers a question.
func judgeContinuation(r Request, e Entry, s Surroundings) ruling {
	at, ok := roundOf(s.Rounds, *r.Continues, e.State == AwaitingInput)
	if !ok {
		return ruling{verdict: Stray{e, ReasonInputUnknown}}
	}
	round := s.Rounds[at]
	switch newest := at == len(s.Rounds)-1; {
	case !newest:
		return judgeConsumed(r, e, s, at)
	case e.State != AwaitingInput || e.Unanswered(s.Now):
		return judgeStanding(r, e, s.Now)
	case round.Downstream != r.Downstream:
		return ruling{verdict: Stray{e, ReasonKeyFormChanged}}
	}
	round.Answers = r.Continues.Answers
	return ruling{evidence: InputContinued, round: &round}
}

// judgeConsumed rules on a continuation that was sent, and whose answer was another
// question. That is told again, as long as it is kept (Entry.KeepsQuestions); after
// that, and where it was asked by a later attempt, the caller is told how the operation
// stands. It never goes upstream again.
func judgeConsumed(r Request, e Entry, s Surroundings, at int) ruling {
	next := s.Rounds[at+1]
	told := judgeStanding(r, e, s.Now)
	if told.verdict == nil {
		return ruling{verdict: Lost{e}}
	}
	if _, expired := told.verdict.(Expired); expired || next.Attempt != s.Rounds[at].Attempt || next.Question == nil {
		return told
	}
	e.Result = next.Question
	return ruling{verdict: Asked{e}}
}

// Ask records what the upstream asks for. The operation then waits for a call that
// answers, in whatever process. Errors are as for Complete.
func (l *Lease) Ask(q Question) (Entry, error) {
	if q.Within <= 0 {
		q.Within = DefaultInputWindow
	}
	return l.settle(settlement{evidence: InputRequired, apply: ReasonInputRequired.record, asked: &q, downstream: l.downstream})
}

// record puts a question into a change that leads to AwaitingInput.
func (q Question) record(c *Change, downstream string, now time.Time) {
	c.Entry.InputUntil = now.Add(q.Within)
	c.Round = &Round{Number: c.Entry.Round, Attempt: c.Entry.Attempt, State: q.State, Bare: q.Bare, Downstream: downstream}
	if len(q.Body) <= MaxResultBytes {
		c.Round.Question = q.Body
		c.Entry.Result = q.Body
	}
}
