package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A session is a client of one server process: no more than lines in and out, so
// that what is measured is the server.
type session struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	mu   sync.Mutex
	wait map[int64]chan []byte
	last atomic.Int64
	done chan struct{}
}

// open starts a server and shakes hands with it.
func open(command []string) (*session, error) {
	s := &session{cmd: exec.Command(command[0], command[1:]...), wait: map[int64]chan []byte{}, done: make(chan struct{})}
	s.cmd.Stderr = os.Stderr
	in, err := s.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.in = in
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go s.read(out)
	s.request(`"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"compare","version":"1"}}`)
	_, err = io.WriteString(s.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	return s, err
}

func (s *session) read(out io.Reader) {
	defer close(s.done)
	lines := bufio.NewReaderSize(out, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var m struct {
			ID int64 `json:"id"`
		}
		if json.Unmarshal(line, &m) != nil {
			continue
		}
		s.mu.Lock()
		answer := s.wait[m.ID]
		delete(s.wait, m.ID)
		s.mu.Unlock()
		if answer != nil {
			answer <- line
		}
	}
}

// request sends what stands between the id and the end of a request, and returns
// the response. A server that dies ends the comparison.
func (s *session) request(rest string) []byte {
	id := s.last.Add(1)
	answer := make(chan []byte, 1)
	s.mu.Lock()
	s.wait[id] = answer
	_, err := fmt.Fprintf(s.in, `{"jsonrpc":"2.0","id":%d,%s}`+"\n", id, rest)
	s.mu.Unlock()
	if err != nil {
		panic(err)
	}
	select {
	case line := <-answer:
		return line
	case <-s.done:
		panic("the server has ended: " + strings.Join(s.cmd.Args, " "))
	}
}

// close ends the server as clients do.
func (s *session) close() {
	_ = s.in.Close()
	<-s.done
	_ = s.cmd.Wait() // how it ended was not asked
}

// perCall makes the calls with so many callers at once, and returns the wall time
// for each.
func (s *session) perCall(calls, callers int, call func(n int) string) time.Duration {
	var next atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for range callers {
		all.Go(func() {
			for n := int(next.Add(1)); n <= calls; n = int(next.Add(1)) {
				line := s.request(call(n))
				if bytes.Contains(line, []byte(`"isError":true`)) || bytes.Contains(line, []byte(`"error":`)) {
					panic("a call was refused: " + string(line))
				}
			}
		})
	}
	all.Wait()
	return (time.Since(began) / time.Duration(calls)).Round(time.Microsecond)
}

func reader(int) string {
	return `"method":"tools/call","params":{"name":"get_balance","arguments":{}}`
}

// refund is a call with side effects, with a key of the format or without one.
func refund(key string) func(int) string {
	return func(n int) string {
		if key == "" {
			return fmt.Sprintf(`"method":"tools/call","params":{"name":"refund","arguments":{"order":"order-%d","amount":5}}`, n)
		}
		return fmt.Sprintf(`"method":"tools/call","params":{"name":"refund","arguments":{"order":"order-%d","amount":5,"idempotency_key":"`+key+`"}}`, n, n)
	}
}

// resident is a process's memory as Linux counts it.
func resident(pid int) (string, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			return strings.TrimSpace(value), nil
		}
	}
	return "", fmt.Errorf("process %d has no VmRSS", pid)
}

func countLines(file string) (int, error) {
	text, err := os.ReadFile(file)
	return bytes.Count(text, []byte("sync(")), err
}
