//go:build unix

package upstream

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// isolate puts the child into a process group of its own, so that what it
// starts can be ended with it, and a Ctrl-C at our terminal does not reach it.
func isolate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// askToEnd sends SIGTERM to the child's process group.
func askToEnd(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGTERM) }

// killAll sends SIGKILL to the child's process group. The group outlives its
// leader while any of its members does, and no new process is given its number
// for as long; that the number of an empty group is used anew between the
// leader's end and this call is left to chance.
func killAll(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }

// signalOf returns the name of the signal that ended the process, if one did.
func signalOf(state *os.ProcessState) string {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return status.Signal().String()
	}
	return ""
}

// lookPath finds a command on the PATH of the environment that the child gets,
// which need not be ours. Relative folders of the PATH are passed over, as
// os/exec does.
func lookPath(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	path := ""
	for _, variable := range env {
		if value, ok := strings.CutPrefix(variable, "PATH="); ok {
			path = value
		}
	}
	for _, folder := range filepath.SplitList(path) {
		file := filepath.Join(folder, name)
		info, err := os.Stat(file)
		if err == nil && filepath.IsAbs(folder) && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
}
