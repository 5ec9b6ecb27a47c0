//go:build unix

package main

import (
	"os"
	"syscall"
)

// signals are those that scripts send.
var signals = map[string]os.Signal{
	"INT": os.Interrupt, "TERM": syscall.SIGTERM, "STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT, "HUP": syscall.SIGHUP,
}
