package demo

import (
	"fmt"
	"io"
	"sync/atomic"
	"text/tabwriter"
	"time"
)

// counts are what callers and operator have met in a run. They are safe for
// concurrent use.
type counts struct {
	unknown     atomic.Int64 // EFFECT_UNKNOWN told
	executed    atomic.Int64 // resolved as
	notExecuted atomic.Int64
	replays     atomic.Int64
}

// A tally is what the upstream's book says of a run.
type tally struct {
	calls      int
	effects    int
	duplicates int // effects beyond the first of an order
	missing    int // orders without an effect
	lost       int // answers
}

// tallyOf counts the effects in a book against the orders 1 to calls.
func tallyOf(refunds []refund, calls int) tally {
	t := tally{calls: calls, effects: len(refunds)}
	perOrder := map[string]int{}
	for _, r := range refunds {
		if perOrder[r.Order]++; perOrder[r.Order] > 1 {
			t.duplicates++
		}
		if r.AnswerLost {
			t.lost++
		}
	}
	for n := range calls {
		if perOrder[orderOf(n+1)] == 0 {
			t.missing++
		}
	}
	return t
}

// A finding is what came of one run.
type finding struct {
	tally
	counts *counts // nil for a run without a gateway
	kills  int
	took   time.Duration
}

// verdict is an error where the run had not one effect for each call.
func (f finding) verdict() error {
	if f.duplicates == 0 && f.missing == 0 && f.effects == f.calls {
		return nil
	}
	return fmt.Errorf("the promise is broken: the protected run has %s and %s", count(f.duplicates, "duplicate"), count(f.missing, "missing refund"))
}

// printFindings writes the table of both runs, and a sentence that says what it shows.
func printFindings(out io.Writer, straight, protected finding) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprint(w, "\n\tstraight\tprotected\n")
	for _, row := range []struct {
		name string
		of   func(finding) int
	}{
		{"calls", func(f finding) int { return f.calls }},
		{"effects", func(f finding) int { return f.effects }},
		{"duplicates", func(f finding) int { return f.duplicates }},
		{"missing", func(f finding) int { return f.missing }},
		{"lost answers", func(f finding) int { return f.lost }},
	} {
		fmt.Fprintf(w, "%s\t%d\t%d\n", row.name, row.of(straight), row.of(protected))
	}
	c := protected.counts
	fmt.Fprintf(w, "gateway kills\t-\t%d\n", protected.kills)
	fmt.Fprintf(w, "EFFECT_UNKNOWN seen\t-\t%d\n", c.unknown.Load())
	fmt.Fprintf(w, "resolved as executed\t-\t%d\n", c.executed.Load())
	fmt.Fprintf(w, "resolved as not executed\t-\t%d\n", c.notExecuted.Load())
	fmt.Fprintf(w, "replays\t-\t%d\n", c.replays.Load())
	fmt.Fprintf(w, "time\t%.1f s\t%.1f s\n\n", straight.took.Seconds(), protected.took.Seconds())
	fmt.Fprintln(w, sentence(straight, protected))
	return w.Flush()
}

func sentence(straight, protected finding) string {
	return fmt.Sprintf("Sent straight and repeated until answered, %s had %s; through mcp-idem, with %s and %s, %s had %s.",
		count(straight.calls, "call"), count(straight.effects, "effect"), count(protected.lost, "lost answer"), count(protected.kills, "kill"),
		count(protected.calls, "call"), count(protected.effects, "effect"))
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
