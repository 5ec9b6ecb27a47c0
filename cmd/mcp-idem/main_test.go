package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/mcp-idem/mcp-idem/upstream/upstreamtest"
)

// TestMain puts the programs that the tests start onto their PATH. Each is this
// test binary under another name, so that what runs is built with the tests'
// own flags, -race included.
func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){
		"mcp-idem": func() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
		"scripted": func() {
			upstreamtest.Main() // where it has started itself
			os.Exit(upstreamtest.Run(os.Args[1:]))
		},
		"socketed": func() { os.Exit(socketed(os.Args[1:])) },
	})
}

// leakChecked are tests after which no goroutine may be left.
type leakChecked struct{ *testing.M }

// Run runs the tests and fails where one of them has left a goroutine.
func (m leakChecked) Run() int {
	// Most of what the tests do is to wait for processes. A -parallel on the
	// command line is read later, and wins.
	if err := flag.Set("test.parallel", strconv.Itoa(4*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
	state, err := os.MkdirTemp("", "mcp-idem-state")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(state) }()
	for name, value := range map[string]string{
		"XDG_STATE_HOME":      state,             // nothing of the person's is read or written
		"MCP_IDEM_LATE_START": patience.String(), // on a busy machine servers start slowly
	} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	code := m.M.Run()
	if code != 0 {
		return code
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
