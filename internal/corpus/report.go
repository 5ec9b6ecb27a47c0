package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/mcp-idem/mcp-idem/upstream"
)

// oneLine returns an error as one line, without what the line says already.
func oneLine(err error) string {
	text := err.Error()
	start := &upstream.StartError{}
	if errors.As(err, &start) {
		// Its name is the server's, which stands before it in the report.
		text = strings.Replace(text, start.Error(), start.Reason, 1)
	}
	return strings.Join(strings.Fields(text), " ")
}

// printTable prints a line for each server and the sums, and returns the number
// of servers that failed.
func printTable(out io.Writer, results []result) (failed int) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "server\tversion\ttools\tannotated\tseconds")
	var sum listing
	for _, r := range results {
		tools, annotated := fmt.Sprint(r.tools), fmt.Sprint(r.annotated)
		if r.err != nil {
			failed++
			tools, annotated = "failed", "-"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%.1f\n", r.Name, r.version(), tools, annotated, r.took.Seconds())
		sum.tools += r.tools
		sum.annotated += r.annotated
	}
	_ = table.Flush() // there is nobody to tell that standard output is gone
	fmt.Fprintf(out, "\n%d servers, %d failed, %d tools, %d annotated\n", len(results), failed, sum.tools, sum.annotated)
	return failed
}

// maxWords is the number of bytes of a line that is quoted in a report.
const maxWords = 300

// withWords adds to an error what the program that failed has written, as far as
// the error does not quote it already.
func withWords(err error, who string, output []byte) error {
	line := tellingLine(output)
	if line == "" || strings.Contains(err.Error(), strconv.Quote(line)) {
		return err
	}
	if len(line) > maxWords {
		line = line[:maxWords] + "..."
	}
	return fmt.Errorf("%w; %s %q", err, who, line)
}

// tellingLine returns the line that says most about a failure: the last one that
// speaks of an error, since Node.js and npm let others follow it, or else the
// last that is not blank.
func tellingLine(output []byte) string {
	last, telling := "", ""
	for line := range bytes.Lines(output) {
		text := strings.TrimSpace(string(line))
		if text == "" {
			continue
		}
		last = text
		if speaksOfError(text) {
			telling = text
		}
	}
	if telling != "" {
		return telling
	}
	return last
}

// speaksOfError reports whether a line names an error, and is neither a frame of
// a stack nor npm's remark about where its log is.
func speaksOfError(line string) bool {
	folded := strings.ToLower(line)
	return strings.Contains(folded, "error") && !strings.HasPrefix(folded, "at ") &&
		!strings.Contains(folded, "a complete log of this run")
}
