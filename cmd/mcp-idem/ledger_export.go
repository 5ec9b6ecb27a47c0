package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"

	"github.com/spf13/cobra"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// An exportRow is an operation as it is exported. Keys and arguments are not in the
// ledger.
type exportRow struct {
	row
	ClaimedAt  string          `json:"claimed_at"`
	SettledAt  *string         `json:"settled_at"`
	Window     float64         `json:"window_s"`
	RepeatOf   string          `json:"repeat_of,omitempty"`
	Provenance json.RawMessage `json:"provenance,omitempty"`
	History    []eventRow      `json:"history"`
	Bytes      int             `json:"result_bytes"`
	Result     json.RawMessage `json:"result,omitempty"`
}

func exported(r dedup.Record) exportRow {
	e := r.Entry
	out := exportRow{
		row: rowOf(e), ClaimedAt: e.ClaimedAt.UTC().Format(milliseconds), Window: e.Window.Seconds(), Provenance: e.Provenance,
		History: eventRows(r.Events), Bytes: r.ResultBytes, Result: e.Result,
	}
	if !e.SettledAt.IsZero() {
		at := e.SettledAt.UTC().Format(milliseconds)
		out.SettledAt = &at
	}
	if !e.RepeatOf.IsZero() {
		out.RepeatOf = e.RepeatOf.String()
	}
	return out
}

func exportCommand() *cobra.Command {
	var f ledgerFlags
	var since string
	filter := dedup.RecordFilter{Events: true}
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Print all operations with their histories, as JSON, one a line",
		Long: `export prints operations in the order of their first calls, each as it stood at one
moment, while gateways go on. Recorded results are left out unless --results asks for
them, and those whose window has passed in any case. Keys and arguments are never in the
ledger.`,
		Example: "  mcp-idem ledger export --since 30d > operations.jsonl",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if since != "" {
				if filter.Since, err = parseSpan(since); err != nil {
					return usagef("--since: %w", err)
				}
			}
			return f.with(cmd, func(ctx context.Context, l *dedup.Ledger) error {
				return printRecords(cmd.OutOrStdout(), l.Export(ctx, filter))
			})
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&since, "since", "", "only operations that were called within this `time`, such as 90m, 24h or 7d")
	cmd.Flags().BoolVar(&filter.Results, "results", false, "with the recorded results")
	return cmd
}

// printRecords prints each record as it comes, so that any number of them need the same
// memory.
func printRecords(w io.Writer, records iter.Seq2[dedup.Record, error]) error {
	out := bufio.NewWriterSize(w, 1<<16)
	for r, err := range records {
		if err == nil {
			err = printJSON(out, exported(r))
		}
		if err != nil {
			return errors.Join(err, out.Flush())
		}
	}
	return out.Flush()
}

// An eventRow is an event as it is printed.
type eventRow struct {
	At      string `json:"at"`
	Attempt int    `json:"attempt"`
	State   string `json:"state"`
	Row     int    `json:"row"`
	Actor   string `json:"actor,omitempty"`
	Note    string `json:"note,omitempty"`
}

func eventRows(events []dedup.Event) (rows []eventRow) {
	for _, e := range events {
		rows = append(rows, eventRow{e.At.UTC().Format(milliseconds), e.Attempt, e.State.String(), int(e.Row), e.Actor, e.Note})
	}
	return rows
}
