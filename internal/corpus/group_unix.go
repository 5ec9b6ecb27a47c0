//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// endWithGroup makes the end of the command's context end what it has started
// too, such as a compiler under a rebuild.
func endWithGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
