package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// A prunedRow is what was dropped, as it is printed.
type prunedRow struct {
	DryRun      bool  `json:"dry_run"`
	Answers     int   `json:"answers"`
	AnswerBytes int64 `json:"answer_bytes"`
	Released    int   `json:"released"`
	FreedBytes  int64 `json:"freed_bytes"`
}

func pruneCommand() *cobra.Command {
	var f ledgerFlags
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Drop what is kept and no longer given to anybody",
		Long: `prune drops recorded answers whose window has passed, as gateways do by and by, and
operations past their window whose keys evidence has released. Every other operation
stays, without its answer, so that its key remains used. It works in small commits with
rests between them, gives the free space back, and may be interrupted.`,
		Example: `  mcp-idem ledger prune --dry-run
  mcp-idem ledger prune`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.with(cmd, func(ctx context.Context, l *dedup.Ledger) error {
				p, err := l.Prune(ctx, dryRun)
				if err != nil {
					return fmt.Errorf("prune ended early, with %d answers and %d released operations dropped: %w", p.Answers, p.Released, err)
				}
				return printPruned(cmd.OutOrStdout(), prunedRow{dryRun, p.Answers, p.AnswerBytes, p.Released, p.FreedBytes}, f.json)
			})
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only count what would be dropped")
	return cmd
}

func printPruned(w io.Writer, p prunedRow, asJSON bool) (err error) {
	switch {
	case asJSON:
		return printJSON(w, p)
	case p.DryRun:
		_, err = fmt.Fprintf(w, "to drop: %d answers of %d bytes, %d released operations\n", p.Answers, p.AnswerBytes, p.Released)
	default:
		_, err = fmt.Fprintf(w, "dropped: %d answers of %d bytes, %d released operations; %d bytes given back\n", p.Answers, p.AnswerBytes, p.Released, p.FreedBytes)
	}
	return err
}
