// Command clients registers the gateway in real MCP clients, and prints to which of
// them it is connected: over stdio, by HTTP, and by HTTP with a bearer token.
//
//	go run ./internal/clients [CLIENT...]
//
// Each client is installed from the npm registry; it and its install scripts have a
// HOME of their own. None needs an account or a model for this. It is what
// docs/clients.md says of the clients that can be run so, to be said again when there
// are newer ones.
//
// It needs Go, npm, Node.js, a registry that npm is configured for, and a Unix. Exit
// status: 0 when all have connected, else 1.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "clients:", err)
		os.Exit(1)
	}
}

// run tries the clients of the names, or all, one after the other, and prints a row
// for each.
func run(ctx context.Context, out io.Writer, names []string) error {
	folder, err := os.MkdirTemp("", "mcp-idem-clients")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	b := bench{folder: folder, gateway: filepath.Join(folder, "mcp-idem")}
	if said, err := exec.CommandContext(ctx, "go", "build", "-o", b.gateway, "./cmd/mcp-idem").CombinedOutput(); err != nil {
		return fmt.Errorf("build mcp-idem: %w\n%s", err, said)
	}
	stop, err := b.serve(ctx)
	defer stop()
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "CLIENT\tVERSION\t%s\tON %s\n", strings.ToUpper(strings.Join(ways, "\t")), time.Now().UTC().Format(time.DateOnly))
	for _, c := range clients {
		if len(names) > 0 && !slices.Contains(names, c.name) {
			continue
		}
		version, connected, tried := b.try(ctx, c)
		cells := []string{c.name, version}
		for _, way := range ways {
			word := "yes"
			if !connected[way] {
				word, err = "no", errors.Join(err, fmt.Errorf("%s is not connected by %s", c.name, way))
			}
			cells = append(cells, word)
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
		err = errors.Join(err, tried)
	}
	return errors.Join(err, table.Flush())
}
