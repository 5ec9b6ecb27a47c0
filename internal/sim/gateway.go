package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// errLost is what a call came to that got no answer: its gateway died, or its caller
// gave up. Whether it was executed, it does not say.
var errLost = errors.New("no answer")

// A gateway is one process, with a client before it. It is safe for concurrent use.
type gateway struct {
	cmd    *exec.Cmd
	client client
	exited chan struct{} // closed when the process is gone and its output is read
	gone   time.Time     // when that was, for who has waited for it
}

// wait waits for the end of the process, and notes it.
func (g *gateway) wait() {
	_ = g.cmd.Wait() // it is killed more often than not
	g.gone = time.Now()
	close(g.exited)
}

// A client calls tools of a gateway.
type client interface {
	// call returns the result of a tools/call, errLost, or an error that should not be.
	call(ctx context.Context, arguments []byte) (result []byte, err error)
	// close lets go of the gateway, which has ended.
	close()
}

// command is a command of the program, with the environment of this process less the
// settings in it.
func command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Env = append(cmd.Env, "GORACE=atexit_sleep_ms=0")
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "MCP_IDEM_") {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	return cmd
}

// startStdio starts a gateway that serves stdio, and introduces a client.
func startStdio(cmd *exec.Cmd, log io.Writer) (*gateway, error) {
	g := &gateway{cmd: cmd, exited: make(chan struct{})}
	cmd.Stderr = log
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := newStdioClient(in, out, g.exited)
	g.client = c
	go func() {
		c.read()
		g.wait()
	}()
	if err := c.introduce(); err != nil {
		g.kill()
		return nil, err
	}
	return g, nil
}

// startHTTP starts a gateway that serves HTTP, and waits until it says where.
func startHTTP(cmd *exec.Cmd, log io.Writer) (*gateway, error) {
	g := &gateway{cmd: cmd, exited: make(chan struct{})}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	address := make(chan string, 1)
	go func() {
		copyLog(stderr, log, address)
		g.wait()
	}()
	select {
	case at := <-address:
		g.client = newHTTPClient(at)
		return g, nil
	case <-g.exited:
		return nil, errors.New("the gateway ended before it listened")
	}
}

// copyLog copies a log, and hands on where its gateway listens.
func copyLog(from io.Reader, to io.Writer, address chan<- string) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var entry struct{ Message, Address string }
		if json.Unmarshal(lines.Bytes(), &entry) == nil && entry.Message == "listening" {
			address <- entry.Address
		}
		_, _ = to.Write(append(lines.Bytes(), '\n')) // for who reads it
	}
}

// kill ends the gateway with SIGKILL, and waits for its end.
func (g *gateway) kill() {
	_ = g.cmd.Process.Kill() // of a process that has ended: an error and no more
	<-g.exited
	g.client.close()
}

// A logFile is written by several processes' readers in turn.
type logFile struct {
	mu sync.Mutex
	f  *os.File
}

// Write writes one line, or a part of the log of one process.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.f.Write(p)
}
