package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/mcp-idem/mcp-idem/config"
	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/gateway"
)

// isConfiguration reports whether a word on the command line is the name of a
// configuration rather than of a program.
func isConfiguration(word string) bool {
	endings := []string{".json", ".jsonc", ".json5", ".yaml", ".yml"}
	return slices.Contains(endings, strings.ToLower(filepath.Ext(word)))
}

// showAllTools shows the tools of all servers of a configuration. One that cannot be
// asked does not hide those of the others.
func showAllTools(cmd *cobra.Command, f *toolsFlags, path string) error {
	file, err := config.Load(path, os.LookupEnv)
	if err != nil {
		return &usageError{err}
	}
	s := serveSettings{flags: cmd.Flags(), file: path, settings: settings{
		serverSettings: f.serverSettings, callTimeout: gateway.DefaultCallTimeout, lateWindow: gateway.DefaultLateWindow,
		wait: gateway.DefaultWait, inputWindow: dedup.DefaultInputWindow,
	}}
	upstreams, err := s.upstreams(file, zerolog.Nop())
	if err != nil {
		return err
	}
	lists := make([]listing, len(upstreams))
	problems := make([]error, len(upstreams))
	var asking sync.WaitGroup
	for i, o := range upstreams {
		asking.Go(func() {
			tools, err := gateway.Inspect(cmd.Context(), o, version())
			lists[i], problems[i] = listing{Options: o, tools: tools}, err
		})
	}
	asking.Wait()
	if f.tool != "" {
		return f.printOne(cmd, lists, errors.Join(problems...))
	}
	for i, l := range lists {
		if problems[i] != nil {
			continue
		}
		if i > 0 && !f.json {
			fmt.Fprintln(cmd.OutOrStdout())
		}
		if err := f.print(cmd, l); err != nil {
			return err
		}
	}
	return errors.Join(problems...)
}

// printOne prints the tool that a flag names, as SERVER__TOOL.
func (f *toolsFlags) printOne(cmd *cobra.Command, lists []listing, problem error) error {
	var others []gateway.InspectedTool
	for _, l := range lists {
		for _, t := range l.tools {
			own := t.Name
			if t.Name = l.Offered(own); t.Name == f.tool {
				t.Name = own
				l.tools = []gateway.InspectedTool{t}
				return errors.Join(f.print(cmd, l), problem)
			}
			others = append(others, t)
		}
	}
	_, err := named(others, f.tool)
	return errors.Join(err, problem)
}
