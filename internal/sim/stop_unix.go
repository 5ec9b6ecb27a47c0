//go:build unix

package main

import (
	"os"
	"syscall"
)

// stopProcess stops a process, and continueProcess lets it go on.
func stopProcess(p *os.Process) error     { return p.Signal(syscall.SIGSTOP) }
func continueProcess(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
