// Package upstreamtest is a scripted MCP server over standard input and output
// that counts its effects and misbehaves on cue. It speaks raw JSON-RPC, since
// no library would let it do what it has to do.
//
// A test binary that calls Main first thing in its TestMain can start itself as
// the server with the command line that Self returns; the program in
// cmd/scripted is the same server by itself.
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

// options are the flags of the server; see Run.
type options struct {
	effects, gate, received, tools, protocol, stderr string
	faults                                           faults
	junk, pageSize, stopReadingAfter                 int
	exit, silent, ignoreEOF, listChanged, orphan     bool
	grandchild, farewell                             string
	sleep                                            time.Duration
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("scripted", flag.ContinueOnError)
	f.StringVar(&o.effects, "effects", "", "append a line to this `FILE` for each effect")
	f.StringVar(&o.received, "received", "", "append each line that is read to this `FILE`")
	f.StringVar(&o.gate, "gate", "", "`DIR` where started.N is made for each call, and gates are waited for")
	f.Var(&o.faults, "fault", "`TOOL|METHOD[:nth=N][,when=before_read|before_effect|after_effect],do=ACTION`, repeatable")
	f.StringVar(&o.tools, "tools", "", "`FILE` with the JSON array of tools to offer")
	f.StringVar(&o.protocol, "protocol", "2025-06-18", "protocol `VERSION` to answer initialize with")
	f.StringVar(&o.stderr, "stderr", "", "`TEXT` to print on standard error first")
	f.IntVar(&o.junk, "junk", 0, "print `N` lines that are not JSON first")
	f.IntVar(&o.pageSize, "page-size", 0, "tools on a page of tools/list; 0 for all")
	f.IntVar(&o.stopReadingAfter, "stop-reading-after", 0, "read no more after `N` messages, until the gate \"read\" is open")
	f.BoolVar(&o.exit, "exit-before-initialize", false, "exit with status 1 at once")
	f.BoolVar(&o.silent, "silent", false, "never answer")
	f.BoolVar(&o.ignoreEOF, "ignore-eof", false, "outlive the end of input and SIGTERM")
	f.StringVar(&o.farewell, "farewell", "", "outlive the end of input, and take a moment to write this `FILE` at SIGTERM")
	f.BoolVar(&o.listChanged, "notify-list-changed", false, "send notifications/tools/list_changed after the handshake")
	f.StringVar(&o.grandchild, "grandchild", "", "start a process that holds standard output open, and write its pid to `FILE`")
	f.BoolVar(&o.orphan, "orphan", false, "put the grandchild into a session of its own")
	f.DurationVar(&o.sleep, "sleep", 0, "be no server, only sleep")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	return o, nil
}

// Run is the server: it serves standard input and output until their end and
// returns the exit status.
//
// The actions of a fault are exit[:STATUS], kill (by SIGKILL), hang, drop,
// delay:DURATION, gate:NAME (makes DIR/NAME.waiting and waits until DIR/NAME
// exists), progress:N, garbage (a line that is not JSON, and no answer), broken
// (an answer that is no JSON-RPC), error:CODE:TEXT, iserror:TEXT, result:JSON,
// wrong_id, string_id, twice, big:BYTES and close_stdout. do= comes last, so
// that a TEXT may have commas. nth counts the calls of the tool over restarts if
// there is a file of effects, beside which the calls are counted.
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
