package main

import (
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/gateway"
)

// A row is an operation as it is printed. Keys, arguments and results are not
// among its members.
type row struct {
	OperationID string  `json:"operation_id"`
	Upstream    string  `json:"upstream"`
	Tool        string  `json:"tool"`
	State       string  `json:"state"`
	Outcome     string  `json:"outcome"`
	IsError     bool    `json:"is_error"`
	Attempt     int     `json:"attempt"`
	ReplayCount int     `json:"replay_count"`
	KeyHint     string  `json:"key_hint"`
	CreatedAt   string  `json:"created_at"`
	CompletedAt *string `json:"completed_at"`
	Reason      *string `json:"reason"`
	Namespace   string  `json:"namespace"`
	Account     string  `json:"account"`
	Class       string  `json:"class"`
	Open        bool    `json:"open"`
}

const milliseconds = "2006-01-02T15:04:05.000Z"

func rowOf(e dedup.Entry) row {
	r := row{
		OperationID: e.ID.String(), Upstream: e.Scope.Upstream, Tool: e.Scope.Tool, State: e.State.String(), Outcome: gateway.OutcomeOf(e),
		IsError: e.IsError, Attempt: e.Attempt, ReplayCount: e.Replays, KeyHint: e.KeyHint, CreatedAt: e.CreatedAt.UTC().Format(milliseconds),
		Namespace: e.Scope.Namespace, Account: e.Scope.Account, Class: e.Class, Open: e.Open(),
	}
	if e.State == dedup.Completed {
		at := e.SettledAt.UTC().Format(milliseconds)
		r.CompletedAt = &at
	}
	if e.Reason != "" {
		reason := string(e.Reason)
		r.Reason = &reason
	}
	return r
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

func printList(w io.Writer, entries iter.Seq2[dedup.Entry, error], asJSON bool) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	lines := 0
	for e, err := range entries {
		switch {
		case err != nil:
			return err
		case asJSON:
			err = printJSON(w, rowOf(e))
		default:
			if lines == 0 {
				fmt.Fprintln(table, "OPERATION\tCALLED\tTOOL\tSTATE\tREASON\tREPLAYS\tKEY")
			}
			_, err = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\t%s\n", e.ID, e.ClaimedAt.UTC().Format(time.RFC3339), plain(e.Scope.Tool), stateOf(e), orDash(string(e.Reason)), e.Replays, plain(e.KeyHint))
		}
		if err != nil {
			return err
		}
		lines++
	}
	if lines == 0 && !asJSON {
		fmt.Fprintln(table, "no operations")
	}
	return table.Flush()
}

// stateOf is a state as a person reads it.
func stateOf(e dedup.Entry) string {
	switch {
	case e.State == dedup.Completed && e.IsError:
		return "completed (error)"
	case e.Open():
		return "unknown (its answer may still arrive)"
	}
	return e.State.String()
}

func printOperation(w io.Writer, e dedup.Entry, events []dedup.Event, renames []dedup.Rename, asJSON, withResult bool) error {
	if asJSON {
		return printOperationJSON(w, e, events, renames, withResult)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, line := range [][2]string{
		{"operation", e.ID.String()}, {"tool", e.Scope.Tool}, {"upstream", e.Scope.Upstream}, {"account", e.Scope.Account}, {"namespace", e.Scope.Namespace},
		{"class", e.Class}, {"state", stateOf(e)}, {"outcome", gateway.OutcomeOf(e)}, {"reason", orDash(string(e.Reason))}, {"key", e.KeyHint},
		{"attempt", strconv.Itoa(e.Attempt)}, {"replays", strconv.Itoa(e.Replays)}, {"first called", e.CreatedAt.UTC().Format(milliseconds)},
		{"last called", e.ClaimedAt.UTC().Format(milliseconds)}, {"by", orDash(string(e.Provenance))},
	} {
		fmt.Fprintf(table, "%s\t%s\n", line[0], plain(line[1]))
	}
	for _, r := range renames {
		fmt.Fprintf(table, "renamed\t%s: to %s by %s: %s\n", r.At.UTC().Format(milliseconds), shownAddress(r.To), plain(r.Actor), plain(r.Note))
	}
	fmt.Fprintln(table, "\nWHEN\tATTEMPT\tSTATE\tROW\tWHO\tNOTE")
	for _, event := range events {
		fmt.Fprintf(table, "%s\t%d\t%s\t%d\t%s\t%s\n", event.At.UTC().Format(milliseconds), event.Attempt, event.State, event.Row, plain(orDash(event.Actor)), plain(orDash(event.Note)))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	switch {
	case e.Kept != dedup.KeptWhole:
		return nil
	case !withResult:
		_, err := fmt.Fprintf(w, "\na result of %d bytes is recorded; --result prints it\n", len(e.Result))
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", plain(string(e.Result)))
	return err
}

func printOperationJSON(w io.Writer, e dedup.Entry, events []dedup.Event, renames []dedup.Rename, withResult bool) error {
	shown := struct {
		row
		Provenance json.RawMessage `json:"provenance,omitempty"`
		Renames    []renameRow     `json:"renames,omitempty"`
		History    []eventRow      `json:"history"`
		Result     json.RawMessage `json:"result,omitempty"`
	}{row: rowOf(e), Provenance: e.Provenance, History: eventRows(events)}
	for _, r := range renames {
		shown.Renames = append(shown.Renames, renameRow{r.To.Upstream, r.To.Account, r.At.UTC().Format(milliseconds), r.Actor, r.Note})
	}
	if withResult && e.Kept == dedup.KeptWhole {
		shown.Result = e.Result
	}
	return printJSON(w, shown)
}

func printTotals(w io.Writer, totals []dedup.Total, asJSON bool) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	if !asJSON {
		fmt.Fprintln(table, "DAY\tTOOL\tOPERATIONS\tERRORS\tUNKNOWN\tRESOLVED\tREPLAYS\tCONFLICTS\tNEAR-DUPLICATES\tREFUSED\t")
	}
	var all dedup.Total
	for _, t := range totals {
		if asJSON {
			if err := printJSON(w, statsRow(t)); err != nil {
				return err
			}
			continue
		}
		printTotal(table, t.Day, plain(t.Tool), t)
		all = sum(all, t)
	}
	if !asJSON {
		printTotal(table, "all", "", all)
	}
	return table.Flush()
}

func printTotal(w io.Writer, day, tool string, t dedup.Total) {
	fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", day, tool, operations(t), t.Errors, t.States[dedup.Unknown], t.Resolved,
		t.Tallies[dedup.TallyReplay], t.Tallies[dedup.TallyConflict], t.Tallies[dedup.TallyNearDuplicate], t.Tallies[dedup.TallyRefused])
}

func sum(a, b dedup.Total) dedup.Total {
	if a.States == nil {
		a.States, a.Tallies = map[dedup.State]int{}, map[dedup.TallyKind]int{}
	}
	for state, n := range b.States {
		a.States[state] += n
	}
	for kind, n := range b.Tallies {
		a.Tallies[kind] += n
	}
	a.Errors += b.Errors
	a.Resolved += b.Resolved
	return a
}

func operations(t dedup.Total) (n int) {
	for _, count := range t.States {
		n += count
	}
	return n
}

func statsRow(t dedup.Total) map[string]any {
	states := map[string]int{}
	for state, n := range t.States {
		states[state.String()] = n
	}
	return map[string]any{
		"day": t.Day, "upstream": t.Upstream, "tool": t.Tool, "operations": operations(t), "states": states, "errors": t.Errors, "resolved": t.Resolved,
		"replays": t.Tallies[dedup.TallyReplay], "conflicts": t.Tallies[dedup.TallyConflict],
		"near_duplicates": t.Tallies[dedup.TallyNearDuplicate], "refused": t.Tallies[dedup.TallyRefused],
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// plain escapes what could deceive a reader of a terminal in text that did not
// come from us: control, escape and bidirectional characters.
func plain(s string) string {
	if utf8.ValidString(s) && strings.IndexFunc(s, deceives) < 0 {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)): // no UTF-8
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case deceives(r):
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func deceives(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }
