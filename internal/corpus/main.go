// Command corpus collects what published MCP servers answer to tools/list, so
// that schemas and classes can be tried on real tools:
//
//	go run ./internal/corpus --out FOLDER [--set fresh] [--only NAME,...] [--mask]
//
// For each server of its list it installs the npm package, starts the server
// over standard input and output, makes the handshake, reads every page of
// tools/list and writes FOLDER/tools/NAME.json. It needs npm and Node.js on the
// PATH, a registry that npm is configured for, and a Unix.
//
// # The folder
//
// A file is the result of tools/list, byte for byte as the server wrote it. The
// tools of several pages are put into the list of the first page, in their
// order, each with its own bytes. A file is written as a whole or not at all,
// and stays as it was when its server fails. With --mask the prose in it is
// replaced letter by letter, so that the folder can be handed to others; see
// mask.
//
// Tests find such a folder by the environment variable MCP_IDEM_CORPUS.
//
// # The list
//
// servers.json, or the file that --servers names, is an array of objects:
//
//	name     of the file that is written: lower case letters, digits, "-", "."
//	set      a word by which --set selects; "corpus" or "fresh" in servers.json
//	package  of the npm registry, with an exact version
//	bin      the program of the package that is the server; or
//	script   the file in the package that Node.js is to run
//	args     of the server
//	env      its environment beside PATH, HOME and TMPDIR
//	files    the text of files by their paths in HOME
//	rebuild  packages whose native parts are built before the start
//
// The word {home} in args, env and files stands for the server's HOME. All
// credentials are dummies: a server is asked for its tools and nothing else. The
// version of a package is exact, those of its dependencies are npm's choice.
//
// # What a server can reach
//
// Packages are installed without their install scripts, those under rebuild
// excepted. A server runs with your rights, in a temporary folder that is its
// HOME, and inherits no environment but PATH. Its whole process group is ended
// with it, and the folder removed, unless --keep is given.
//
// What fails is reported in one line each, and the others go on. The exit status
// is 0 when all servers were collected, 1 when one was not, and 2 for a command
// line or a list that makes no sense.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

//go:embed servers.json
var bundled []byte

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], npm{program: "npm"}.install, os.Stdout, os.Stderr))
}

// settings are the command line.
type settings struct {
	out, servers, set string
	only              []string
	keep, mask        bool
}

func parseFlags(args []string, stderr io.Writer) (settings, error) {
	var s settings
	f := flag.NewFlagSet("corpus", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&s.out, "out", "", "write tools/NAME.json into this `FOLDER`")
	f.StringVar(&s.servers, "servers", "", "read the list of servers from this `FILE`")
	f.StringVar(&s.set, "set", "", "collect the servers of this `SET` only")
	f.Func("only", "collect the servers of these `NAMES` only, separated by commas", func(names string) error {
		s.only = append(s.only, strings.Split(names, ",")...)
		return nil
	})
	f.BoolVar(&s.keep, "keep", false, "keep the installed packages and what the servers wrote on standard error")
	f.BoolVar(&s.mask, "mask", false, "replace the letters of prose by x")
	err := f.Parse(args)
	switch {
	case err != nil:
	case f.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", f.Arg(0))
	case s.out == "":
		err = errors.New("--out is missing: name the folder to write to")
	}
	return s, err
}

// run is the program but for the installer; it returns the exit status.
func run(ctx context.Context, args []string, install installer, stdout, stderr io.Writer) int {
	s, err := parseFlags(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	var servers []server
	if err == nil {
		servers, err = s.selected()
	}
	if err != nil {
		fmt.Fprintln(stderr, "corpus:", err)
		return 2
	}
	c := collector{install: install, mask: s.mask, keep: s.keep, stderr: stderr, limits: defaultLimits}
	results, err := c.collect(ctx, s.out, servers)
	if err != nil {
		fmt.Fprintln(stderr, "corpus:", err)
		return 1
	}
	if failed := printTable(stdout, results); failed > 0 {
		return 1
	}
	return 0
}

// selected returns the servers that the command line asks for.
func (s settings) selected() ([]server, error) {
	list, source := bundled, "servers.json"
	if s.servers != "" {
		var err error
		if list, err = os.ReadFile(s.servers); err != nil {
			return nil, err
		}
		source = s.servers
	}
	servers, err := parseServers(list)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	return choose(servers, s.set, s.only)
}
