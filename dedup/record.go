package dedup

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"
)

// A Record is one operation with its whole history, as Store.Records yields it.
type Record struct {
	// Entry is as it is stored, an overdue result included. Its Result is there only
	// where it was asked for and its window lasts.
	Entry       Entry
	Events      []Event   // oldest first; nil where they were not asked for
	ResultBytes int       // the size of the stored result; 0: there is none
	Now         time.Time // of the store's clock, when it was read
}

// A RecordFilter chooses records, and what of them is read. The zero value chooses all
// of them, without events and results.
type RecordFilter struct {
	Since   time.Duration // claimed within; of the store's clock; 0: ever
	Spent   bool          // only those of which Record.Spent is true
	Events  bool          // with events
	Results bool          // with results, while their window lasts
}

// Spent reports whether the operation's window has passed and something of it is still
// kept that nobody is given any more: an answer, or a key that is free anyhow.
func (r Record) Spent() bool {
	return r.Entry.Overdue(r.Now) || r.Entry.State == Released && !r.Now.Before(r.Entry.SettledAt.Add(r.Entry.Window))
}

// Export yields all that the ledger holds, for the operator. The order is that of the
// first claims. It takes its time in steps between which nothing is held; each record is
// as it stood at one moment, and an operation that was there at the beginning is yielded
// once.
func (l *Ledger) Export(ctx context.Context, f RecordFilter) iter.Seq2[Record, error] {
	return l.store.Records(ctx, f)
}

// Flaws says, one by one, what about a record no lawful life could have left: events
// that the table of moves lacks, and a standing to which the events do not lead. There
// are none in a sound ledger. The record must have been read with its events.
func (r Record) Flaws() (flaws []string) {
	if len(r.Events) == 0 {
		return []string{"it has no events"}
	}
	var l life
	for i, e := range r.Events {
		if why := l.follow(e); why != "" {
			flaws = append(flaws, fmt.Sprintf("event %d: %s", i+1, why))
		}
	}
	e := r.Entry
	if was := (life{e.State, e.Row, e.Attempt, e.Doubt, l.round}); was != l {
		flaws = append(flaws, fmt.Sprintf("its events lead to %s, and it is %s", l, was))
	}
	switch {
	case e.Kept == KeptWhole && r.ResultBytes == 0:
		flaws = append(flaws, "its answer is said to be stored, and is not")
	case e.Kept != KeptWhole && r.ResultBytes > 0:
		flaws = append(flaws, "an answer is stored that it is said not to have")
	case e.Kept != KeptNone && e.State != Completed:
		flaws = append(flaws, fmt.Sprintf("it is %s, and said to have an answer", e.State))
	}
	return flaws
}

// A life is how an operation stands by its events. The round is theirs alone: ledgers
// that are older than rounds do not count them.
type life struct {
	state   State
	row     Row
	attempt int
	doubt   Row
	round   int
}

func (l life) String() string {
	return fmt.Sprintf("%s by row %d in attempt %d with doubt %d", l.state, l.row, l.attempt, l.doubt)
}

// follow goes on by an event, and says what is wrong with it, if anything is. It goes on
// from there all the same, so that one fault is told once.
func (l *life) follow(e Event) (why string) {
	switch {
	case e.Row == RowContradicted:
		if l.state == 0 || e.State != l.state || e.Attempt > l.attempt || e.Attempt < 1 {
			return fmt.Sprintf("an answer is on record against %s in attempt %d, and it was %s", e.State, e.Attempt, l)
		}
		return ""
	case l.state != 0 && e.State == l.state && e.Row == l.row && e.Attempt == l.attempt:
		return "" // a note, which moves nothing
	}
	i := slices.IndexFunc(Moves, func(m Move) bool { return l.allows(m, e) })
	if i < 0 {
		why = fmt.Sprintf("no move of row %d leads from %s to %s in attempt %d", e.Row, l, e.State, e.Attempt)
		*l = life{e.State, e.Row, e.Attempt, l.doubt, l.round}
		return why
	}
	switch m := Moves[i]; {
	case m.NewAttempt && m.From == Unknown:
		l.doubt, l.round = m.Row, l.round+1
	case m.NewAttempt:
		l.doubt, l.round = 0, 0
	case m.Evidence == InputContinued:
		l.round++
	}
	l.state, l.row, l.attempt = e.State, e.Row, e.Attempt
	return ""
}

// allows reports whether a move of the table leads to an event. Whether an attempt was
// open is not among what events tell.
func (l *life) allows(m Move, e Event) bool {
	attempt := l.attempt
	if m.NewAttempt {
		attempt++
	}
	return m.Row == e.Row && m.From == l.state && m.To == e.State && attempt == e.Attempt &&
		(len(m.After) == 0 || slices.Contains(m.After, l.row)) &&
		(len(m.Doubt) == 0 || slices.Contains(m.Doubt, l.doubt)) &&
		(!m.FirstRound || l.round == 0)
}
