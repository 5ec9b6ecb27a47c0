package main

import (
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// pause is how long the tests wait before they look again, or try again.
const pause = 5 * time.Millisecond

// until runs a program again and again, until what it prints matches a pattern;
// with neg, until it does not match any more.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: [!] until PATTERN PROGRAM [ARG...]")
	}
	pattern, err := regexp.Compile(args[0])
	ts.Check(err)
	p := playOf(ts)
	var printed []byte
	ts.Check(repeat("that", func() bool {
		cmd := exec.Command(args[1], args[2:]...)
		cmd.Dir, cmd.Env = ts.MkAbs("."), p.variables()
		printed, err = cmd.CombinedOutput()
		return err != nil || pattern.Match(printed) != neg
	}))
	if err != nil {
		ts.Fatalf("%s: %v: %s", args[1], err, printed)
	}
	_, err = ts.Stdout().Write(printed)
	ts.Check(err)
}

// insist sends a gateway a signal again and again, until it has ended. One alone
// may come before the gateway has made up its mind about the last.
func (p *play) insist(neg bool, name string, args []string) error {
	s := p.session(name)
	return repeat("the gateway's end", func() bool {
		if err := p.signal(neg, name, args); err != nil {
			<-s.exited
		}
		select {
		case <-s.exited:
			return true
		default:
			return false
		}
	})
}

// repeat does something until it reports that this was enough.
func repeat(what string, enough func() bool) error {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	end := time.After(patience)
	for !enough() {
		select {
		case <-tick.C:
		case <-end:
			return errors.New(fmt.Sprint("waited in vain for ", what))
		}
	}
	return nil
}
