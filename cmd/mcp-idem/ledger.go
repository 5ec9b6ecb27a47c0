package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/dedup/sqlite"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// ledgerFlags are what every command on a ledger takes.
type ledgerFlags struct {
	ledgerSetting
	json bool
}

func ledgerCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ledger",
		Short: "Look into the ledger, settle what is unknown, and keep it",
		Example: `  mcp-idem ledger list --state unknown
  mcp-idem ledger show op_0193c5a1f2e47b3c9d8e7f6a5b4c3d2e
  mcp-idem ledger resolve op_0193c5a1f2e47b3c9d8e7f6a5b4c3d2e --executed --by ada --note 'refund 8812 is in the books'`,
		RunE: func(*cobra.Command, []string) error {
			return usagef("ledger: say what to do: list, show, stats, resolve, abandon, rebind, verify, backup, export or prune; see mcp-idem ledger --help")
		},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("ledger: there is no command %q; see mcp-idem ledger --help", args[0])
			}
			return nil
		},
	}
	cmd.AddCommand(listCommand(), showCommand(), resolveCommand(), statsCommand(), verifyCommand(), backupCommand(), exportCommand(), pruneCommand(), abandonCommand(), rebindCommand())
	return cmd
}

func (f *ledgerFlags) register(cmd *cobra.Command) {
	f.ledgerSetting.register(cmd.Flags())
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON, one object a line")
}

// existing is the path of the ledger that the flags name, which must exist.
func (f *ledgerFlags) existing(cmd *cobra.Command) (path string, err error) {
	// What a person decides comes from the command line alone.
	if err := fromEnvironment(cmd, "ledger", "json"); err != nil {
		return "", err
	}
	if path, err = f.ledgerPath(); err != nil {
		return "", err
	}
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return "", &sqlite.OpenError{Path: absolute(path), Problem: "does not exist", Remedy: "name the ledger that the gateway uses with --ledger; it makes one at its first start", Err: err}
	}
	return path, nil
}

// with opens the ledger that the flags name, which must exist, for the time of do.
func (f *ledgerFlags) with(cmd *cobra.Command, do func(context.Context, *dedup.Ledger) error) error {
	path, err := f.existing(cmd)
	if err != nil {
		return err
	}
	ledger, err := openLedger(cmd.Context(), path, zerolog.Nop())
	if err != nil {
		return err
	}
	return errors.Join(do(cmd.Context(), ledger), ledger.Close())
}

func listCommand() *cobra.Command {
	var f ledgerFlags
	var state, since string
	var filter dedup.Filter
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List operations, newest first",
		Example: "  mcp-idem ledger list --state unknown --since 7d",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if state != "" {
				if filter.State, err = dedup.ParseState(state); err != nil {
					return usagef("--state: %w", err)
				}
			}
			if since != "" {
				if filter.Since, err = parseSpan(since); err != nil {
					return usagef("--since: %w", err)
				}
			}
			if filter.Limit < 0 {
				return usagef("--limit: %d is less than none", filter.Limit)
			}
			return f.with(cmd, func(ctx context.Context, l *dedup.Ledger) error {
				return printList(cmd.OutOrStdout(), l.List(ctx, filter), f.json)
			})
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&state, "state", "", "only operations in this `state`: running, awaiting_input, completed, unknown or released")
	cmd.Flags().StringVar(&filter.Tool, "tool", "", "only operations of this tool")
	cmd.Flags().StringVar(&since, "since", "", "only operations that were called within this `time`, such as 90m, 24h or 7d")
	cmd.Flags().IntVar(&filter.Limit, "limit", 0, "at most so many; 0 is all")
	return cmd
}

// parseSpan reads a length of time as Go writes it, or in days.
func parseSpan(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil && n > 0 {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%q is no length of time: write 90m, 24h or 7d", text)
	}
	return d, nil
}

func showCommand() *cobra.Command {
	var f ledgerFlags
	var result bool
	cmd := &cobra.Command{
		Use:     "show OPERATION",
		Short:   "Show one operation and its history",
		Example: "  mcp-idem ledger show op_0193c5a1f2e47b3c9d8e7f6a5b4c3d2e --result",
		Args:    oneOperation,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := dedup.ParseOperationID(args[0])
			if err != nil {
				return usagef("show: %w", err)
			}
			return f.with(cmd, func(ctx context.Context, l *dedup.Ledger) error {
				e, events, err := l.Get(ctx, id)
				if err != nil {
					return notFound(id, err)
				}
				renames, err := renamesOf(ctx, l, e)
				if err != nil {
					return err
				}
				return printOperation(cmd.OutOrStdout(), e, events, renames, f.json, result)
			})
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&result, "result", false, "print the recorded result too")
	return cmd
}

func oneOperation(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usagef("%s: give one operation id; mcp-idem ledger list shows them", cmd.CommandPath())
	}
	return nil
}

func notFound(id dedup.OperationID, err error) error {
	if errors.Is(err, dedup.ErrNotFound) {
		return fmt.Errorf("%s is not in this ledger; mcp-idem ledger list shows what is", id)
	}
	return err
}

func resolveCommand() *cobra.Command {
	var f ledgerFlags
	var r dedup.Resolution
	var notExecuted bool
	var resultFile string
	cmd := &cobra.Command{
		Use:   "resolve OPERATION --executed|--not-executed --by NAME --note TEXT",
		Short: "Settle an unknown operation, on a person's word",
		Long: `resolve puts on record what a person has found out about a call of which nobody
knew whether it was executed. After --executed, a repeated call gets the result
given, or is told that it was executed; after --not-executed, the key may be used
again.`,
		Example: `  mcp-idem ledger resolve op_0193c5a1f2e47b3c9d8e7f6a5b4c3d2e --executed --by ada --note 'refund 8812 is in the books'
  mcp-idem ledger resolve op_0193c5a1f2e47b3c9d8e7f6a5b4c3d2e --not-executed --by ada --note 'no refund of order 4812 there'`,
		Args: oneOperation,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := dedup.ParseOperationID(args[0])
			if err != nil {
				return usagef("resolve: %w", err)
			}
			if err := checkResolution(&r, notExecuted, resultFile); err != nil {
				return err
			}
			return f.with(cmd, func(ctx context.Context, l *dedup.Ledger) error {
				return resolve(ctx, cmd, l, id, r, f.json)
			})
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&r.Executed, "executed", false, "the call was executed")
	cmd.Flags().BoolVar(&notExecuted, "not-executed", false, "the call was not executed; its key is free again")
	cmd.Flags().StringVar(&resultFile, "result", "", "with --executed: a `file` with the tools/call result to replay, a JSON object")
	cmd.Flags().StringVar(&r.By, "by", "", "the `name` of who has found out")
	cmd.Flags().StringVar(&r.Note, "note", "", "on what grounds")
	cmd.Flags().BoolVar(&r.Force, "force", false, "with --not-executed: although its answer may still arrive")
	return cmd
}

func checkResolution(r *dedup.Resolution, notExecuted bool, resultFile string) (err error) {
	switch {
	case r.Executed == notExecuted:
		return usagef("resolve: give one of --executed and --not-executed")
	case strings.TrimSpace(r.By) == "" || strings.TrimSpace(r.Note) == "":
		return usagef("resolve: give --by with your name and --note with what you have found")
	case resultFile != "" && notExecuted:
		return usagef("resolve: --result goes with --executed")
	case resultFile == "":
		return nil
	}
	if r.Result, err = os.ReadFile(resultFile); err != nil {
		return usagef("--result: %w", err)
	}
	o, err := rawjson.ParseObject(r.Result)
	if err != nil {
		return usagef("--result %s: %w; give a tools/call result, such as {\"content\":[{\"type\":\"text\",\"text\":\"done\"}]}", resultFile, err)
	}
	content, _ := o.Get("content")
	if _, err := rawjson.ParseArray(content); err != nil {
		return usagef("--result %s: its content is no array; give a tools/call result, such as {\"content\":[{\"type\":\"text\",\"text\":\"done\"}]}", resultFile)
	}
	return nil
}

func resolve(ctx context.Context, cmd *cobra.Command, l *dedup.Ledger, id dedup.OperationID, r dedup.Resolution, asJSON bool) error {
	e, err := l.Resolve(ctx, id, r)
	switch {
	case errors.Is(err, dedup.ErrStillOpen):
		return fmt.Errorf("%s: %w; wait for it, or close it with --force", id, err)
	case errors.Is(err, dedup.ErrNotUnknown):
		return fmt.Errorf("%s: %w", id, err)
	case err != nil:
		return notFound(id, err)
	case asJSON:
		return printJSON(cmd.OutOrStdout(), rowOf(e))
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is %s now (%s)\n", id, e.State, e.Reason)
	return err
}

func statsCommand() *cobra.Command {
	var f ledgerFlags
	cmd := &cobra.Command{
		Use:     "stats",
		Short:   "Count what the ledger was worth, by tool and day",
		Example: "  mcp-idem ledger stats",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.with(cmd, func(ctx context.Context, l *dedup.Ledger) error {
				totals, err := l.Totals(ctx)
				if err != nil {
					return err
				}
				return printTotals(cmd.OutOrStdout(), totals, f.json)
			})
		},
	}
	f.register(cmd)
	return cmd
}
