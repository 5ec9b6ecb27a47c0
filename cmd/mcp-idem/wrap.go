package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/dedup/sqlite"
	"github.com/mcp-idem/mcp-idem/gateway"
)

func wrapCommand() *cobra.Command {
	var s settings
	cmd := &cobra.Command{
		Use:   "wrap [flags] (-- COMMAND [ARG...] | --url URL)",
		Short: "Protect one MCP server: serve it on stdio with its side effects safe to repeat",
		Long: `wrap starts COMMAND, an MCP server that speaks stdio, and serves it on its own
stdin and stdout. Tools with side effects ask for an idempotency_key (mcp-idem
tools shows which); everything else passes through. COMMAND gets the environment
of wrap, less MCP_IDEM_*.

With --url the server is somewhere else, and is spoken with by HTTP.

Flags end at the first word that is none; the -- may be left out. Every flag is
also an environment variable: --call-timeout is MCP_IDEM_CALL_TIMEOUT.`,
		Example: `  # in the configuration of a client, in place of the server's own command:
  mcp-idem wrap -- npx -y @modelcontextprotocol/server-memory

  # for clients that come by HTTP, on this machine or with a token from a file:
  mcp-idem wrap --http -- npx -y @modelcontextprotocol/server-memory
  mcp-idem wrap --http 0.0.0.0:7423 --token-file tokens.yaml -- ./server

  # a server behind a URL:
  mcp-idem wrap --url https://example.com/mcp --header 'Authorization: Bearer ${TOKEN}'

  # a tool that can be repeated without harm, and one that only reads:
  mcp-idem wrap --class 'set_*=SAFE_RETRY' --class 'peek=READ_ONLY' -- ./server --port-free`,
		RunE: func(cmd *cobra.Command, args []string) error {
			args, err := s.http.takeAddress(cmd, args)
			if err == nil {
				err = fromEnvironment(cmd)
			}
			if err == nil {
				err = s.at.needsServer("wrap")(cmd, args)
			}
			if err != nil {
				return s.decline(cmd, err)
			}
			return wrap(cmd, &s, args)
		},
	}
	s.register(cmd.Flags())
	cmd.Flags().SetInterspersed(false)
	return cmd
}

func wrap(cmd *cobra.Command, s *settings, command []string) error {
	log, err := s.logger(cmd.ErrOrStderr())
	if err != nil {
		return s.decline(cmd, err)
	}
	options, err := s.options(command, log)
	if err != nil {
		return s.decline(cmd, err)
	}
	web, err := s.http.optionsIfAny(s.at.url != "", log)
	if err != nil {
		return s.decline(cmd, err)
	}
	ledger, path, err := s.openLedger(cmd.Context(), log)
	if err != nil {
		return s.decline(cmd, err)
	}
	// A client that dies closes our output while its calls go on. A write there must
	// not end the process, as it does unless SIGPIPE is caught (package os/signal);
	// ignoring the signal would hand that on to the server.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	log.Info().Str("upstream", options.Scope.Upstream).Str("account", options.Scope.Account).Str("namespace", options.Scope.Namespace).
		Str("ledger", absolute(path)).Str("version", version()).Msg("starting")
	if s.http.address != "" {
		err = s.http.serve(cmd, ledger, options, web)
	} else {
		err = gateway.New(ledger, options).ServeStdio(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
	}
	return errors.Join(err, ledger.Close())
}

// decline tells a client on stdio why it is not served, and returns that.
func (s *settings) decline(cmd *cobra.Command, why error) error {
	if in, ok := cmd.InOrStdin().(*os.File); s.http.address == "" && !(ok && term.IsTerminal(int(in.Fd()))) {
		gateway.Decline(cmd.InOrStdin(), cmd.OutOrStdout(), why)
	}
	return why
}

// openLedger opens the ledger that is set.
func (s *settings) openLedger(ctx context.Context, log zerolog.Logger) (*dedup.Ledger, string, error) {
	path, err := s.ledgerPath()
	if err != nil {
		return nil, path, err
	}
	ledger, err := openLedger(ctx, path, log)
	return ledger, path, err
}

// openLedger opens the ledger, and settles what dead processes have left in it.
func openLedger(ctx context.Context, path string, log zerolog.Logger) (*dedup.Ledger, error) {
	store, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		return nil, err
	}
	ledger, err := dedup.New(ctx, store, dedup.Options{Alarm: func(a dedup.Alarm) {
		event := log.Warn()
		if a.Err != nil {
			event = log.Error().Err(a.Err)
		}
		if !a.Operation.IsZero() {
			event = event.Str("operation_id", a.Operation.String())
		}
		event.Msg(a.Problem)
	}})
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return ledger, nil
}

func absolute(path string) string {
	if full, err := filepath.Abs(path); err == nil {
		return full
	}
	return path
}
