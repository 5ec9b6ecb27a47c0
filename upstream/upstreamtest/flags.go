package upstreamtest

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"time"
)

// options are the flags of the server.
type options struct {
	effects, received, gate, tools string
	faults                         faults
	pageSize                       int
	silent, listChanged            bool

	era, protocol, consumed string

	httpAddr, addressFile, requests string
	sessionless, untilEOF           bool

	stderr, grandchild, farewell string
	junk, stopReadingAfter       int
	exit, ignoreEOF, orphan      bool
	sleep                        time.Duration
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("scripted", flag.ContinueOnError)
	o.addWork(f)
	o.addProtocol(f)
	o.addHTTP(f)
	o.addProcess(f)
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	return o, o.check()
}

func (o *options) addWork(f *flag.FlagSet) {
	f.StringVar(&o.effects, "effects", "", "append a line to this `FILE` for each effect")
	f.StringVar(&o.received, "received", "", "append each message that is read to this `FILE`")
	f.StringVar(&o.gate, "gate", "", "`DIR` where started.N is made for each call, and gates are waited for")
	f.Var(&o.faults, "fault", "`TARGET[:nth=N][,when=before_read|before_effect|after_effect][,conn=new|reused],do=ACTION`, repeatable")
	f.StringVar(&o.tools, "tools", "", "`FILE` with the JSON array of tools to offer")
	f.IntVar(&o.pageSize, "page-size", 0, "tools on a page of tools/list; 0 for all")
	f.BoolVar(&o.silent, "silent", false, "never answer")
	f.BoolVar(&o.listChanged, "notify-list-changed", false, "send notifications/tools/list_changed as soon as the client can hear it")
}

func (o *options) addProtocol(f *flag.FlagSet) {
	f.StringVar(&o.era, "era", legacy, "`ERA` of the protocol: legacy, modern or both; sse for the HTTP transport of 2024-11-05")
	f.StringVar(&o.protocol, "protocol", "2025-06-18", "protocol `VERSION` to answer initialize with")
	f.StringVar(&o.consumed, "consumed", replayConsumed, "replay, refuse or execute what comes with a requestState that was used before")
}

func (o *options) addHTTP(f *flag.FlagSet) {
	f.StringVar(&o.httpAddr, "http", "", "serve HTTP at this `ADDRESS`, :0 for a free port of 127.0.0.1, at the path /mcp")
	f.StringVar(&o.addressFile, "address-file", "", "write the host and port that are served to this `FILE`")
	f.StringVar(&o.requests, "requests", "", "append a line with its headers to this `FILE` for each HTTP request")
	f.BoolVar(&o.sessionless, "sessionless", false, "serve HTTP without sessions in the legacy era, too")
	f.BoolVar(&o.untilEOF, "until-eof", false, "serve HTTP until the end of standard input")
}

func (o *options) addProcess(f *flag.FlagSet) {
	f.StringVar(&o.stderr, "stderr", "", "`TEXT` to print on standard error first")
	f.IntVar(&o.junk, "junk", 0, "print `N` lines that are not JSON first")
	f.IntVar(&o.stopReadingAfter, "stop-reading-after", 0, "read no more after `N` messages, until the gate \"read\" is open")
	f.BoolVar(&o.exit, "exit-before-initialize", false, "exit with status 1 at once")
	f.BoolVar(&o.ignoreEOF, "ignore-eof", false, "outlive the end of input and SIGTERM")
	f.StringVar(&o.farewell, "farewell", "", "outlive the end of input, and take a moment to write this `FILE` at SIGTERM")
	f.StringVar(&o.grandchild, "grandchild", "", "start a process that holds standard output open, and write its pid to `FILE`")
	f.BoolVar(&o.orphan, "orphan", false, "put the grandchild into a session of its own")
	f.DurationVar(&o.sleep, "sleep", 0, "be no server, only sleep")
}

// check fails for flags that do not go together.
func (o *options) check() error {
	switch {
	case !slices.Contains([]string{legacy, modern, both, sse}, o.era):
		return fmt.Errorf("there is no era %q", o.era)
	case !slices.Contains([]string{replayConsumed, refuseConsumed, executeConsumed}, o.consumed):
		return fmt.Errorf("what was used before cannot be treated by %q", o.consumed)
	case o.httpAddr != "":
		return o.faults.fit(onHTTP)
	case o.era == sse:
		return errors.New("--era sse is for http only")
	}
	return o.faults.fit(onStdio)
}
