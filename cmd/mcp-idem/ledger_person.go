package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// A signature is who decides something, and on what grounds.
type signature struct{ by, note string }

func (s *signature) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.by, "by", "", "the `name` of who decides")
	cmd.Flags().StringVar(&s.note, "note", "", "on what grounds")
}

func (s *signature) check(command string) error {
	if strings.TrimSpace(s.by) == "" || strings.TrimSpace(s.note) == "" {
		return usagef("%s: give --by with your name and --note with what you have found", command)
	}
	return nil
}

func abandonCommand() *cobra.Command {
	var f ledgerFlags
	var signed signature
	cmd := &cobra.Command{
		Use:   "abandon OPERATION --by NAME --note TEXT",
		Short: "Say that the machine which runs an operation is gone",
		Long: `abandon moves a running operation to unknown whose gateway nobody can see any more.
What a gateway of this machine ran that has ended becomes unknown by itself; and while
the gateway that runs an operation lives, it is refused.`,
		Example: "  mcp-idem ledger abandon op_0193c5a1f2e47b3c9d8e7f6a5b4c3d2e --by ada --note 'the host was scrapped'",
		Args:    oneOperation,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := dedup.ParseOperationID(args[0])
			if err != nil {
				return usagef("abandon: %w", err)
			}
			if err := signed.check("abandon"); err != nil {
				return err
			}
			return f.with(cmd, func(ctx context.Context, l *dedup.Ledger) error {
				e, err := l.Abandon(ctx, id, signed.by, signed.note)
				return printAbandoned(cmd, id, e, err, f.json)
			})
		},
	}
	f.register(cmd)
	signed.register(cmd)
	return cmd
}

func printAbandoned(cmd *cobra.Command, id dedup.OperationID, e dedup.Entry, err error, asJSON bool) error {
	switch {
	case errors.Is(err, dedup.ErrOwnerLives):
		return fmt.Errorf("%s: %w; wait for its answer, or end that gateway, and it becomes unknown by itself", id, err)
	case errors.Is(err, dedup.ErrNotFound):
		return notFound(id, err)
	case err != nil:
		return fmt.Errorf("%s: %w", id, err)
	case asJSON:
		return printJSON(cmd.OutOrStdout(), rowOf(e))
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is %s now (%s)\n", id, e.State, e.Reason)
	return err
}

// A reboundRow is a rename as it is printed.
type reboundRow struct {
	DryRun     bool   `json:"dry_run"`
	Upstream   string `json:"upstream"`
	Account    string `json:"account"`
	ToUpstream string `json:"to_upstream"`
	ToAccount  string `json:"to_account"`
	Operations int    `json:"operations"`
}

func rebindCommand() *cobra.Command {
	var f ledgerFlags
	var signed signature
	var r dedup.Rebinding
	var account, toAccount string
	cmd := &cobra.Command{
		Use:   "rebind --from UPSTREAM --to UPSTREAM --by NAME --note TEXT",
		Short: "Let a renamed server answer for the operations of its old name",
		Long: `rebind puts on record that a server, or an account of it, goes by another name now. A
call under the new name that uses a key of the old one is then the same call, and is no
longer refused (scope_changed). It is for the same server only: two servers of which one
is bound to the other share their keys for good.`,
		Example: `  mcp-idem ledger rebind --from shop --to shop-eu --by ada --note 'renamed in servers.json' --dry-run
  mcp-idem ledger rebind --from files --from-account /srv/a --to files --to-account /srv/b --by ada --note 'the folder was moved'`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkRebinding(cmd, &signed, r); err != nil {
				return err
			}
			if cmd.Flags().Changed("from-account") {
				r.Account = &account
			}
			if cmd.Flags().Changed("to-account") {
				r.ToAccount = &toAccount
			}
			r.By, r.Note = signed.by, signed.note
			return f.with(cmd, func(ctx context.Context, l *dedup.Ledger) error { return rebind(ctx, cmd, l, r, f.json) })
		},
	}
	f.register(cmd)
	signed.register(cmd)
	cmd.Flags().StringVar(&r.Upstream, "from", "", "the `name` that the server had")
	cmd.Flags().StringVar(&account, "from-account", "", "only operations of this `account`; all unless set")
	cmd.Flags().StringVar(&r.ToUpstream, "to", "", "the `name` that the server has")
	cmd.Flags().StringVar(&toAccount, "to-account", "", "the `account` that it has, with --from-account; the same unless set")
	cmd.Flags().BoolVar(&r.DryRun, "dry-run", false, "only say which operations are concerned")
	return cmd
}

func checkRebinding(cmd *cobra.Command, signed *signature, r dedup.Rebinding) error {
	from, to := cmd.Flags().Changed("from-account"), cmd.Flags().Changed("to-account")
	switch {
	case r.Upstream == "" || r.ToUpstream == "":
		return usagef("rebind: give --from with the name that the server had and --to with the one that it has")
	case to && !from:
		return usagef("rebind: --to-account goes with --from-account")
	case r.Upstream == r.ToUpstream && !to:
		return usagef("rebind: --from and --to are the same")
	}
	return signed.check("rebind")
}

func rebind(ctx context.Context, cmd *cobra.Command, l *dedup.Ledger, r dedup.Rebinding, asJSON bool) error {
	rebound, err := l.Rebind(ctx, r)
	if errors.Is(err, dedup.ErrNothingToRebind) {
		return fmt.Errorf("%w: %q; mcp-idem ledger list --json shows upstreams and accounts", err, r.Upstream)
	}
	if err != nil {
		return err
	}
	verb := "count as those of"
	if r.DryRun {
		verb = "would count as those of"
	}
	for _, b := range rebound {
		if asJSON {
			err = printJSON(cmd.OutOrStdout(), reboundRow{r.DryRun, b.From.Upstream, b.From.Account, b.To.Upstream, b.To.Account, b.Operations})
		} else {
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d operations of %s %s %s\n", b.Operations, shownAddress(b.From), verb, shownAddress(b.To))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// shownAddress is an upstream and its account as a person reads them.
func shownAddress(a dedup.Address) string {
	return fmt.Sprintf("%s (account %s)", plain(a.Upstream), plain(fmt.Sprintf("%q", a.Account)))
}

// A renameRow is a rename of an operation's upstream or account as it is printed.
type renameRow struct {
	ToUpstream string `json:"to_upstream"`
	ToAccount  string `json:"to_account"`
	At         string `json:"at"`
	Actor      string `json:"actor"`
	Note       string `json:"note"`
}

// renamesOf are the renames of an operation's own upstream and account.
func renamesOf(ctx context.Context, l *dedup.Ledger, e dedup.Entry) ([]dedup.Rename, error) {
	renames, err := l.Renames(ctx)
	return slices.DeleteFunc(renames, func(r dedup.Rename) bool { return r.From != e.Scope.Address() }), err
}
