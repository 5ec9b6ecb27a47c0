package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// An installer puts the package of a server into the folder, which exists and is
// empty, and returns the command that starts the server, less the server's own
// arguments. It may be called by several goroutines at once.
type installer func(ctx context.Context, folder string, s server) (command []string, err error)

// lingering is how long the output of an npm that was ended is still waited for.
const lingering = time.Second

// npm installs with npm, as the person who runs us has configured it: with their
// registry, proxy and cache. Nothing of that is handed on to a server.
type npm struct {
	program string // a path, or a name on our PATH
}

// install is an installer.
func (n npm) install(ctx context.Context, folder string, s server) ([]string, error) {
	quiet := []string{"--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"}
	// A package.json of its own keeps npm from looking for one in the folders above.
	if err := os.WriteFile(filepath.Join(folder, "package.json"), []byte("{}\n"), 0o600); err != nil {
		return nil, err
	}
	if err := n.run(ctx, folder, slices.Concat([]string{"install", "--ignore-scripts", "--omit=dev"}, quiet, []string{s.Package})); err != nil {
		return nil, err
	}
	if len(s.Rebuild) > 0 {
		if err := n.run(ctx, folder, slices.Concat([]string{"rebuild"}, quiet, s.Rebuild)); err != nil {
			return nil, err
		}
	}
	return s.command(filepath.Join(folder, "node_modules"))
}

// command finds the server in the folder of installed packages.
func (s server) command(modules string) ([]string, error) {
	file, command := filepath.Join(modules, ".bin", s.Bin), []string{}
	if s.Script != "" {
		file, command = filepath.Join(modules, s.module(), s.Script), []string{"node"}
	}
	if _, err := os.Stat(file); err != nil {
		return nil, fmt.Errorf("the package has no %q; correct bin or script in the list: %w", s.Bin+s.Script, err)
	}
	return append(command, file), nil
}

// run runs npm and returns what it has to say where it fails.
func (n npm) run(ctx context.Context, folder string, args []string) error {
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, n.program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = folder, &said, &said, lingering
	endWithGroup(cmd)
	err := cmd.Run()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	return withWords(fmt.Errorf("npm %s: %w", args[0], err), "npm says", said.Bytes())
}
