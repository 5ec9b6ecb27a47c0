package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// childVariable tells this program to be one of several processes on a ledger: its
// arguments are the ledger's path, what its keys begin with, callers and calls.
const childVariable = "LEDGERCOST_CHILD"

// Several processes have so many callers each.
const processes, callersEach = 8, 8

func runChild(args []string) error {
	callers, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	calls, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	opened, err := ledger{path: args[0]}.open(false)
	if err != nil {
		return err
	}
	_, err = together(callers, calls, func(n int) error { return pair(opened, args[1]+strconv.Itoa(n)) })
	return errors.Join(err, opened.Close())
}

func (l ledger) child(keys string, callers, calls int) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, l.path, keys, strconv.Itoa(callers), strconv.Itoa(calls))
	cmd.Env = append(os.Environ(), childVariable+"=1")
	cmd.Stderr = os.Stderr
	return cmd, nil
}

// inProcesses measures several processes at once, their start included, and counts
// syncs in one.
func (l ledger) inProcesses(f *figures) error {
	var running []*exec.Cmd
	began := time.Now()
	for i := range processes {
		cmd, err := l.child(fmt.Sprintf("process%d:", i), callersEach, l.calls/processes)
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		running = append(running, cmd)
	}
	var errs []error
	for _, cmd := range running {
		errs = append(errs, cmd.Wait())
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	f.add(fmt.Sprintf("claim and answer, %d processes of %d callers", processes, callersEach), micros,
		float64(time.Since(began).Microseconds())/float64(l.calls))
	for _, callers := range []int{1, 64} {
		syncs, err := l.syncs(callers)
		if err != nil {
			return err
		}
		f.add(fmt.Sprintf("fsyncs for each call, %d callers", callers), perCall, syncs)
	}
	return nil
}

// syncs counts the system calls that wait for the disk, less those of a process that
// makes no calls. It is negative where there is no strace.
func (l ledger) syncs(callers int) (float64, error) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		return -1, nil
	}
	log := filepath.Join(filepath.Dir(l.path), "strace.log")
	defer os.Remove(log)
	var counted [2]int
	for i, calls := range []int{0, l.calls / 4} {
		cmd, err := l.child(fmt.Sprintf("traced%d:", callers), callers, calls)
		if err != nil {
			return 0, err
		}
		traced := exec.Command(strace, append([]string{"-f", "--seccomp-bpf", "-qq", "-e", "trace=fsync,fdatasync", "-e", "signal=none", "-o", log}, cmd.Args...)...)
		traced.Env, traced.Stderr = cmd.Env, os.Stderr
		if err := traced.Run(); err != nil {
			return 0, err
		}
		text, err := os.ReadFile(log)
		if err != nil {
			return 0, err
		}
		counted[i] = bytes.Count(text, []byte("sync("))
	}
	return float64(counted[1]-counted[0]) / float64(l.calls/4), nil
}
