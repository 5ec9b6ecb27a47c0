//go:build !unix

package upstream

import (
	"os"
	"os/exec"
)

// Without process groups only the child itself is ended.

func isolate(*exec.Cmd) {}

// askToEnd does nothing: there is no request to end that a child understands,
// and it has seen the end of its input.
func askToEnd(*os.Process) {}

func killAll(p *os.Process) { _ = p.Kill() }

func signalOf(*os.ProcessState) string { return "" }

func lookPath(name string, _ []string) (string, error) { return exec.LookPath(name) }
