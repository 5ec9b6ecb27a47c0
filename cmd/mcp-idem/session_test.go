package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// patience is how long the tests wait for anything that must happen.
const patience = 2 * time.Minute

// maxLine is the longest line that a gateway may write.
const maxLine = 128 << 20

// A session is a running gateway and the client before it, who speaks raw
// JSON-RPC. It is safe for concurrent use.
type session struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout io.ReadCloser
	writer *jsonrpc.Writer
	exited chan struct{} // closed when the process is gone and its output is read

	mu      sync.Mutex
	lastID  int
	calls   map[string]chan jsonrpc.Message // our requests, by jsonrpc.IDKey
	inbox   []jsonrpc.Message               // what answers none of them, in order
	junk    []byte                          // the first line that was no message
	arrived chan struct{}                   // closed and replaced when something is put into inbox
}

// startSession starts the command, whose standard error goes to the end of the
// file log. Dir and environment are the command's own.
func startSession(cmd *exec.Cmd, log string) (*session, error) {
	s := &session{cmd: cmd, exited: make(chan struct{}), calls: map[string]chan jsonrpc.Message{}, arrived: make(chan struct{})}
	stderr, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer stderr.Close()
	cmd.Stderr = stderr
	if s.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if s.stdout, err = cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	s.writer = jsonrpc.NewWriter(s.stdin)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(s.exited)
		s.read()
		_ = cmd.Wait() // exit tells of its status
	}()
	return s, nil
}

func (s *session) read() {
	lines := jsonrpc.NewReader(s.stdout, maxLine)
	for {
		line, err := lines.Next()
		if err != nil {
			return
		}
		s.take(line)
	}
}

func (s *session) take(line []byte) {
	m, err := jsonrpc.Parse(line)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.junk = line
		return
	}
	key := jsonrpc.IDKey(m.ID)
	if answer := s.calls[key]; answer != nil && m.IsResponse() {
		delete(s.calls, key)
		answer <- m
		return
	}
	s.inbox = append(s.inbox, m)
	close(s.arrived)
	s.arrived = make(chan struct{})
}

// A pending request is one of which the answer has not been looked at.
type pending struct {
	session *session
	id      []byte
	answer  chan jsonrpc.Message // has room for one
}

// request sends a request.
func (s *session) request(method string, params []byte) (*pending, error) {
	s.mu.Lock()
	s.lastID++
	p := &pending{session: s, id: []byte(strconv.Itoa(s.lastID)), answer: make(chan jsonrpc.Message, 1)}
	s.calls[jsonrpc.IDKey(p.id)] = p.answer
	s.mu.Unlock()
	return p, s.writer.Write(jsonrpc.Request(p.id, method, params))
}

// wait returns the response.
func (p *pending) wait() (jsonrpc.Message, error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case m := <-p.answer:
		return m, nil
	case <-timer.C:
		return jsonrpc.Message{}, errors.New("no answer came in time")
	case <-p.session.exited:
	}
	select {
	case m := <-p.answer:
		return m, nil
	default:
		return jsonrpc.Message{}, errors.New("the gateway ended without an answer")
	}
}

// handshake introduces the client.
func (s *session) handshake() error {
	opening, err := s.request("initialize", []byte(`{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"script","version":"1"}}`))
	if err != nil {
		return err
	}
	m, err := opening.wait()
	if err == nil && m.Error != nil {
		err = fmt.Errorf("initialize was answered with %s", m.Error)
	}
	if err != nil {
		return err
	}
	return s.writer.Write(jsonrpc.Notification("notifications/initialized", nil))
}

// receive returns the first message for which nobody waits and which the filter
// accepts. The others stay.
func (s *session) receive(accept func([]byte) bool) (jsonrpc.Message, error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		m, arrived, ok := s.pick(accept)
		if ok {
			return m, nil
		}
		select {
		case <-arrived:
		case <-s.exited:
			if m, _, ok := s.pick(accept); ok {
				return m, nil
			}
			return m, errors.New("the gateway ended without such a message")
		case <-timer.C:
			return m, errors.New("no such message came in time")
		}
	}
}

func (s *session) pick(accept func([]byte) bool) (_ jsonrpc.Message, arrived <-chan struct{}, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, m := range s.inbox {
		if accept(m.Raw()) {
			s.inbox = append(s.inbox[:i:i], s.inbox[i+1:]...)
			return m, nil, true
		}
	}
	return jsonrpc.Message{}, s.arrived, false
}

// exit waits until the gateway has ended, and returns its exit status, which is
// -1 after a signal. Its standard output must have held nothing but messages.
func (s *session) exit() (int, error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-s.exited:
	case <-timer.C:
		return 0, errors.New("the gateway did not end in time")
	}
	if s.junk != nil {
		return 0, fmt.Errorf("the gateway wrote a line that is no message: %q", s.junk)
	}
	return s.cmd.ProcessState.ExitCode(), nil
}

// kill ends the gateway by force.
func (s *session) kill() {
	_ = s.cmd.Process.Kill() // of a process that has ended: an error and no more
	<-s.exited
	_ = s.stdin.Close()
}

// dismiss ends the gateway, and with it its server: one that is killed outright
// leaves a server behind that does not read.
func (s *session) dismiss() {
	if term := signals["TERM"]; term != nil && s.cmd.Process.Signal(term) == nil {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case <-s.exited:
		case <-timer.C:
		}
	}
	s.kill()
}

// callParams are the params of a tools/call. A meta that is empty is left out.
func callParams(tool, arguments, meta string) []byte {
	params := fmt.Appendf(nil, `{"name":%s,"arguments":%s`, rawjson.Quote(tool), arguments)
	if meta != "" {
		params = fmt.Appendf(params, `,"_meta":%s`, meta)
	}
	return append(params, '}')
}
