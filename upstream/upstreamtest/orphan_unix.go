//go:build unix

package upstreamtest

import (
	"os/exec"
	"syscall"
)

// emancipate puts the process out of reach of signals to our process group.
func emancipate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
