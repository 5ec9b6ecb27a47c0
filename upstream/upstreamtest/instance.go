package upstreamtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// An Instance is a scripted server over HTTP, in a process of its own. It is not
// safe for concurrent use.
type Instance struct {
	// URL is where the server is. It stays the same over restarts.
	URL string

	t       testing.TB
	address string
	flags   []string
	cmd     *exec.Cmd
	stdin   *os.File // whose end tells the server that the test is over
}

// Serve starts the running test binary as the scripted server over HTTP, at a
// free port, with more flags, and returns when it can be reached. It ends with
// the test, which fails when the server does not start. The binary's TestMain
// calls Main.
func Serve(t testing.TB, flags ...string) *Instance {
	t.Helper()
	i := &Instance{t: t, address: "127.0.0.1:0", flags: flags}
	t.Cleanup(i.Kill)
	i.start()
	i.URL = "http://" + i.address + endpoint
	return i
}

// Kill kills the server with SIGKILL and waits for its end, if it runs. Its
// connections break.
func (i *Instance) Kill() {
	if i.cmd == nil || i.cmd.Process == nil {
		return
	}
	_ = i.cmd.Process.Kill() // it may have ended by a fault
	_ = i.cmd.Wait()         // with the signal for an error
	_ = i.stdin.Close()
	i.cmd = nil
}

// Restart kills the server and starts it anew at the same address, with the same
// flags and no memory of its sessions.
func (i *Instance) Restart() {
	i.t.Helper()
	i.Kill()
	i.start()
}

func (i *Instance) start() {
	i.t.Helper()
	file := filepath.Join(i.t.TempDir(), "address")
	program, args := Self(append([]string{"--http", i.address, "--address-file", file, "--until-eof"}, i.flags...)...)
	i.cmd = exec.Command(program, args...)
	i.cmd.Stderr, i.cmd.Env = os.Stderr, Env()
	theirs, ours, err := os.Pipe()
	if err != nil {
		i.t.Fatal(err)
	}
	i.cmd.Stdin, i.stdin = theirs, ours
	err = i.cmd.Start()
	_ = theirs.Close()
	if err != nil {
		_ = ours.Close()
		i.t.Fatal(err)
	}
	WaitForFile(i.t, file)
	address, err := os.ReadFile(file)
	if err != nil {
		i.t.Fatal(err)
	}
	i.address = strings.TrimSpace(string(address))
}
