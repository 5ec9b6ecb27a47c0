package upstreamtest

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// word is the first argument by which a test binary knows that it is to be the
// server. An environment variable would not pass through a gateway that cleans
// the environment.
const word = "scripted-upstream"

// Main turns the process into the scripted server, and never returns, if its
// first argument asks for that; else it does nothing.
func Main() {
	if len(os.Args) > 1 && os.Args[1] == word {
		os.Exit(Run(os.Args[2:]))
	}
}

// Self returns the program and the arguments that start the running test binary
// as the scripted server with the flags. The binary's TestMain calls Main.
func Self(flags ...string) (program string, args []string) {
	program, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return program, append([]string{word}, flags...)
}

// Env returns the environment of the running test for the server, which under
// the race detector would otherwise sleep for a second before it exits.
func Env() []string { return append(os.Environ(), "GORACE=atexit_sleep_ms=0") }

// Run is the server with the flags: it serves until its input ends, or over HTTP
// until the process does, and returns the exit status.
func Run(args []string) int {
	o, err := parse(args)
	if err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, err)
		}
		return 2
	}
	if o.sleep > 0 {
		<-time.After(o.sleep)
		return 0
	}
	if o.stderr != "" {
		fmt.Fprintln(os.Stderr, o.stderr)
	}
	if o.exit {
		return 1
	}
	if o.ignoreEOF {
		signal.Ignore(syscall.SIGTERM)
	}
	if o.farewell != "" {
		go o.sayFarewell()
	}
	if o.grandchild != "" {
		if err := breed(o); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
	}
	fmt.Print(strings.Repeat("this line is not JSON\n", o.junk))
	s, err := newServer(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	if o.httpAddr != "" {
		return s.runHTTP()
	}
	s.serve(os.Stdin)
	if o.ignoreEOF || o.farewell != "" {
		<-time.After(time.Hour)
	}
	return 0
}

// sayFarewell ends the process at SIGTERM, with something to put away first.
func (o options) sayFarewell() {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM)
	<-told
	<-time.After(100 * time.Millisecond)
	must(os.WriteFile(o.farewell, nil, 0o600))
	os.Exit(0)
}

// breed starts a process that does nothing but hold our standard output.
func breed(o options) error {
	program, args := Self("--sleep", "1m")
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if o.orphan {
		emancipate(cmd)
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	return os.WriteFile(o.grandchild, fmt.Append(nil, cmd.Process.Pid, "\n"), 0o600)
}
