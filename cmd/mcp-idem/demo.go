package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/mcp-idem/mcp-idem/internal/demo"
)

func demoCommand() *cobra.Command {
	var o demo.Options
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Lose answers and kill the gateway, and count what was executed",
		Long: `demo makes the experiment behind mcp-idem, with real processes. Callers want a
refund for each order from a bundled MCP server, which commits the refund and then
loses some of its answers. First they call it straight, and repeat until they have
an answer. Then they call through mcp-idem wrap, which is killed on the way; where
they are told EFFECT_UNKNOWN, the demo looks into the server's list of refunds and
runs mcp-idem ledger resolve. At the end the server's own file is counted: the
command fails if the protected run has not exactly one refund for each order.`,
		Example: `  mcp-idem demo
  mcp-idem demo --calls 200 --loss 0.5 --seed 7 --keep`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := o.Validate(); err != nil {
				return usagef("%w", err)
			}
			if o.Program, err = os.Executable(); err != nil {
				return err
			}
			o.Out, o.Progress = cmd.OutOrStdout(), cmd.ErrOrStderr()
			o.ProgressIsTerminal = isTerminal(o.Progress)
			return demo.Run(cmd.Context(), o)
		},
	}
	cmd.Flags().IntVar(&o.Calls, "calls", 1000, "how many refunds are wanted")
	cmd.Flags().Uint64Var(&o.Seed, "seed", 1, "which answers are lost and when the gateway is killed: the same seed, the same losses")
	cmd.Flags().Float64Var(&o.Loss, "loss", 0.3, "the share of answers that is lost, from 0 to less than 1")
	cmd.Flags().BoolVar(&o.Keep, "keep", false, "leave the files (the server's refunds, the ledger, the logs) and say where they are")
	cmd.AddCommand(demoUpstreamCommand())
	return cmd
}

// demoUpstreamCommand is the demo's MCP server. People do not start it, so it is
// not listed.
func demoUpstreamCommand() *cobra.Command {
	var o demo.UpstreamOptions
	cmd := &cobra.Command{
		Use:    "upstream",
		Short:  "Serve the demo's MCP server on stdio",
		Hidden: true,
		Args:   noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Refunds == "" {
				return usagef("demo upstream: --refunds: name the file of its refunds")
			}
			if err := demo.ValidateLoss(o.Loss); err != nil {
				return usagef("demo upstream: %w", err)
			}
			return demo.ServeUpstream(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), o)
		},
	}
	cmd.Flags().StringVar(&o.Refunds, "refunds", "", "the `file` in which refunds are committed")
	cmd.Flags().Float64Var(&o.Loss, "loss", 0, "the share of answers that is lost")
	cmd.Flags().Uint64Var(&o.Seed, "seed", 1, "which answers are lost")
	return cmd
}
