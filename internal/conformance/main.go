// Command conformance runs the official conformance suite against the Go SDK's
// conformance server, directly and with the gateway between, and prints how many
// checks pass, and each scenario in which that differs:
//
//	go run ./internal/conformance [--run REGEXP] [--place REGEXP] [--keep FOLDER] [--gateway PROGRAM] [--wrap FLAGS]
//
// It needs Go, npm, and for what is not in the cache yet a network; where Node.js is
// older than 22.19, it gets another one on Linux. Exit status: 0 when the gateway is worse in
// nothing, or only as suite/expected.json says, else 1; 2 for a wrong command line.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/mcp-idem/mcp-idem/internal/conformance/suite"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s, err := parseFlags(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	case err != nil:
		os.Exit(2)
	}
	worse, err := s.run(ctx, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
	}
	if err != nil || worse {
		os.Exit(1)
	}
}

// settings are the command line.
type settings struct {
	runs, places  pattern
	keep, gateway string
	wrap          string // more flags of the gateway, with spaces between
	expected      []suite.Expectation
}

// A pattern is a flag that selects names; without one it selects all.
type pattern struct{ *regexp.Regexp }

// Set is part of flag.Value.
func (p *pattern) Set(text string) (err error) {
	p.Regexp, err = regexp.Compile(text)
	return err
}

// String is part of flag.Value.
func (p *pattern) String() string {
	if p.Regexp == nil {
		return ""
	}
	return p.Regexp.String()
}

func (p *pattern) selects(name string) bool { return p.Regexp == nil || p.MatchString(name) }

func parseFlags(args []string) (settings, error) {
	var s settings
	f := flag.NewFlagSet("conformance", flag.ContinueOnError)
	f.Var(&s.runs, "run", "make only the runs that match the `REGEXP`")
	f.Var(&s.places, "place", "only at the places that match the `REGEXP`; direct is always one")
	f.StringVar(&s.keep, "keep", "", "leave what the suite and the programs have said in this `FOLDER`")
	f.StringVar(&s.gateway, "gateway", "", "the `PROGRAM` of mcp-idem (default: build it)")
	f.StringVar(&s.wrap, "wrap", "", "more `FLAGS` of mcp-idem wrap, as \"--era legacy\"; what then differs is not on the list of what is expected")
	err := f.Parse(args)
	if err == nil && f.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", f.Arg(0))
		fmt.Fprintln(os.Stderr, "conformance:", err)
	}
	return s, err
}

// run makes the runs, and reports whether the gateway is worse than it is expected to be.
func (s settings) run(ctx context.Context, out io.Writer) (worse bool, err error) {
	if s.expected, err = suite.Expected(); err != nil {
		return false, err
	}
	folder := s.keep
	if folder == "" {
		if folder, err = os.MkdirTemp("", "mcp-idem-conformance"); err != nil {
			return false, err
		}
		defer os.RemoveAll(folder)
	}
	if s.gateway == "" {
		s.gateway = filepath.Join(folder, "mcp-idem")
		if said, err := exec.CommandContext(ctx, "go", "build", "-o", s.gateway, "./cmd/mcp-idem").CombinedOutput(); err != nil {
			return false, fmt.Errorf("build mcp-idem: %w\n%s", err, said)
		}
	}
	kit, err := suite.Fetch(ctx, s.gateway)
	if err != nil {
		return false, err
	}
	kit.Flags = strings.Fields(s.wrap)
	fmt.Fprintf(out, "%s, %s/%s, %d cores, %s\n", time.Now().UTC().Format(time.DateOnly), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
	for _, run := range suite.Runs {
		if !s.runs.selects(run.Name) {
			continue
		}
		made, err := s.measure(ctx, kit, run, filepath.Join(folder, run.Name))
		if err != nil {
			return worse, fmt.Errorf("%s: %w", run.Name, err)
		}
		if err := made.print(out); err != nil {
			return worse, err
		}
		worse = worse || made.worse()
	}
	return worse, nil
}
