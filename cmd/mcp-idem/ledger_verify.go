package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/mcp-idem/mcp-idem/dedup/sqlite"
)

// A faultRow is a fault as it is printed.
type faultRow struct {
	Fault       string `json:"fault"`
	OperationID string `json:"operation_id,omitempty"`
	Problem     string `json:"problem"`
}

// An examinedRow is what a ledger or a copy of it was found to hold.
type examinedRow struct {
	File       string `json:"file"`
	Version    int    `json:"schema_version"`
	Operations int    `json:"operations"`
	Events     int    `json:"events"`
	Faults     int    `json:"faults"`
}

func examined(e sqlite.Examination) examinedRow {
	return examinedRow{e.Path, e.Version, e.Operations, e.Events, e.Faults}
}

func verifyCommand() *cobra.Command {
	var f ledgerFlags
	var o sqlite.VerifyOption
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Examine the ledger: its file, its schema, and every operation's history",
		Long: `verify changes nothing, and may run while gateways do. It asks SQLite whether the
file is sound, compares the schema with what it should be, looks for what belongs to
nothing, and holds every operation and its events to the table of moves. It prints a
line for each fault, and ends with exit code 1 where there is one.`,
		Example: `  mcp-idem ledger verify
  mcp-idem ledger verify --full --ledger backup.db`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := f.existing(cmd)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			done, err := sqlite.Verify(cmd.Context(), path, o, func(fault sqlite.Fault) error { return printFault(out, fault, f.json) })
			if err != nil {
				return err
			}
			return printExamined(out, done, f.json)
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&o.Full, "full", false, "compare every index with its table too; takes several times as long")
	return cmd
}

func printFault(w io.Writer, f sqlite.Fault, asJSON bool) error {
	row := faultRow{Fault: string(f.Kind), Problem: f.Problem}
	if !f.Operation.IsZero() {
		row.OperationID = f.Operation.String()
	}
	if asJSON {
		return printJSON(w, row)
	}
	line := row.Fault + ": "
	if row.OperationID != "" {
		line += row.OperationID + ": "
	}
	_, err := fmt.Fprintln(w, line+plain(row.Problem))
	return err
}

// printExamined prints what was examined, and fails where there were faults.
func printExamined(w io.Writer, done sqlite.Examination, asJSON bool) (err error) {
	if asJSON {
		err = printJSON(w, examined(done))
	} else if done.Faults == 0 {
		_, err = fmt.Fprintf(w, "%s is sound: %d operations, %d events\n", plain(done.Path), done.Operations, done.Events)
	}
	if err == nil && done.Faults > 0 {
		err = fmt.Errorf("%s is not sound: faults found: %d", done.Path, done.Faults)
	}
	return err
}

func backupCommand() *cobra.Command {
	var f ledgerFlags
	var force bool
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Copy the ledger while gateways use it, and examine the copy",
		Long: `backup writes the ledger, as it stands at one moment, into a file of its own that only
this user may read, and gives it its name once it was found sound and is on disk. The
copy holds what the ledger holds, recorded results and the secret of its keys included.`,
		Example: "  mcp-idem ledger backup /var/backups/mcp-idem.db",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return usagef("%s: give one file to write", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := f.existing(cmd)
			if err != nil {
				return err
			}
			done, err := sqlite.Backup(cmd.Context(), path, args[0], force)
			switch {
			case err != nil:
				return err
			case f.json:
				return printJSON(cmd.OutOrStdout(), examined(done))
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is written: %d operations, %d events\n", plain(done.Path), done.Operations, done.Events)
			return err
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&force, "force", false, "replace the file where it exists")
	return cmd
}
