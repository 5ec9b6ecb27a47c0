package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/mcp-idem/mcp-idem/config"
	"github.com/mcp-idem/mcp-idem/dedup/sqlite"
	"github.com/mcp-idem/mcp-idem/upstream"
)

// Exit codes. They are part of the interface.
const (
	exitFine     = 0
	exitFailed   = 1
	exitUsage    = 2
	exitLedger   = 3
	exitUpstream = 4
)

// A usageError is a mistake in the command line or the settings.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// run is the program: it ends in good order on SIGINT, SIGTERM and SIGHUP, at once
// on the second of them, says in one line on stderr what went wrong, and returns the
// exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), endings(args)...)
	defer stop()
	context.AfterFunc(ctx, stop)
	root := rootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitFine
	}
	for _, line := range lines(err) {
		fmt.Fprintf(stderr, "mcp-idem: %s\n", line)
	}
	return exitCode(err)
}

// lines are the words of an error, one line of them for each mistake in a
// configuration. What a server or its files have said may be in them.
func lines(err error) (all []string) {
	if errors.As(err, new(*config.Error)) {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			all = append(all, plain(line))
		}
		return all
	}
	return []string{plain(strings.ReplaceAll(err.Error(), "\n", "; "))}
}

// endings are the signals that end the program, less those that it was started to
// ignore, as nohup does. serve reads its configuration anew on SIGHUP.
func endings(args []string) []os.Signal {
	ending := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if len(args) == 0 || args[0] != "serve" {
		ending = append(ending, syscall.SIGHUP)
	}
	return slices.DeleteFunc(ending, signal.Ignored)
}

func exitCode(err error) int {
	switch {
	case errors.As(err, new(*usageError)):
		return exitUsage
	case errors.As(err, new(*sqlite.OpenError)):
		return exitLedger
	case errors.As(err, new(*upstream.StartError)):
		return exitUpstream
	}
	return exitFailed
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "mcp-idem",
		Short: "Makes the side effects of MCP servers safe to repeat",
		Long: `mcp-idem stands in front of an MCP server. Tools with side effects then ask for
an idempotency_key; a repeated call is answered from a durable ledger and not
executed again; and where nobody can know whether a call was executed, the caller
is told EFFECT_UNKNOWN in place of an error.`,
		Example: `  # where a client starts the server itself, start it through mcp-idem:
  mcp-idem wrap -- npx -y @modelcontextprotocol/server-memory

  # for instance, in Claude Code:
  claude mcp add memory -- mcp-idem wrap -- npx -y @modelcontextprotocol/server-memory

  # several servers as one, by the file that clients use:
  mcp-idem serve servers.json

  # which of a server's tools will ask for a key, and why:
  mcp-idem tools -- npx -y @modelcontextprotocol/server-memory

  # what happened, and what is unknown:
  mcp-idem ledger list --state unknown`,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			return usagef("say what to do: wrap, serve, tools, ledger, demo or version; see mcp-idem --help")
		},
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("there is no command %q; see mcp-idem --help", args[0])
			}
			return nil
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%s: %w; see %s --help", cmd.CommandPath(), err, cmd.CommandPath())
	})
	root.AddCommand(wrapCommand(), serveCommand(), toolsCommand(), ledgerCommand(), demoCommand(), versionCommand())
	return root
}

// noArguments refuses what a command does not take.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no arguments, and got %q", cmd.CommandPath(), args[0])
	}
	return nil
}
