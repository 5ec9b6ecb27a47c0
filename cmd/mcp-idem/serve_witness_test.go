package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

// witnessProtocol is the revision that a witness speaks.
const witnessProtocol = "2025-11-25"

// A carrier carries the messages of a witness.
type carrier interface {
	post(m jsonrpc.Message) error
	// listen begins to hear what answers no request, after the handshake.
	listen() error
	// leave ends the connection, and waits until nothing more is heard.
	leave() error
}

// A witness is a client that notes all that it is told, and answers what it is asked
// with one and the same answer for each method. It is safe for concurrent use.
type witness struct {
	wire    carrier
	answers map[string]string // results, by method
	saying  sync.WaitGroup

	mu      sync.Mutex
	lastID  int
	heard   []jsonrpc.Message
	arrived chan struct{} // closed and replaced when something is heard
	wrong   []error
}

func newWitness(answers map[string]string) *witness {
	return &witness{answers: answers, arrived: make(chan struct{})}
}

// hear notes a message, and answers it if it is a request.
func (w *witness) hear(m jsonrpc.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heard = append(w.heard, m)
	close(w.arrived)
	w.arrived = make(chan struct{})
	if !m.IsRequest() {
		return
	}
	reply := jsonrpc.ErrorReply(m.ID, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "the witness has no answer"})
	if answer, ok := w.answers[m.Method]; ok {
		reply = jsonrpc.Result(m.ID, []byte(answer))
	}
	w.saying.Go(func() { w.note(w.wire.post(reply)) })
}

func (w *witness) note(err error) {
	if err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.wrong = append(w.wrong, err)
	}
}

// mark is where the next message will stand among those that were heard.
func (w *witness) mark() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.heard)
}

// since waits until what was heard since the mark is enough, and returns it.
func (w *witness) since(t *testing.T, mark int, what string, enough func([]jsonrpc.Message) bool) []jsonrpc.Message {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		w.mu.Lock()
		heard, arrived := w.heard[mark:len(w.heard):len(w.heard)], w.arrived
		w.mu.Unlock()
		if enough(heard) {
			return heard
		}
		select {
		case <-arrived:
		case <-timer.C:
			require.FailNow(t, "waited in vain for "+what, "%s", rawOf(heard))
		}
	}
}

func rawOf(messages []jsonrpc.Message) string {
	var text strings.Builder
	for _, m := range messages {
		fmt.Fprintf(&text, "%s\n", m.Raw())
	}
	return text.String()
}

// ask sends a request, and returns its id.
func (w *witness) ask(t *testing.T, method, params string) []byte {
	t.Helper()
	w.mu.Lock()
	w.lastID++
	id := []byte(strconv.Itoa(w.lastID))
	w.mu.Unlock()
	require.NoError(t, w.wire.post(jsonrpc.Request(id, method, []byte(params))))
	return id
}

// answerTo finds the response to a request.
func answerTo(heard []jsonrpc.Message, id []byte) (jsonrpc.Message, bool) {
	for _, m := range heard {
		if m.IsResponse() && jsonrpc.SameID(m.ID, id) {
			return m, true
		}
	}
	return jsonrpc.Message{}, false
}

// request sends a request and waits for the response.
func (w *witness) request(t *testing.T, method, params string) jsonrpc.Message {
	t.Helper()
	mark := w.mark()
	id := w.ask(t, method, params)
	heard := w.since(t, mark, "the answer to "+method, func(heard []jsonrpc.Message) bool {
		_, ok := answerTo(heard, id)
		return ok
	})
	m, _ := answerTo(heard, id)
	return m
}

// notify sends a notification.
func (w *witness) notify(t *testing.T, method, params string) {
	t.Helper()
	require.NoError(t, w.wire.post(jsonrpc.Notification(method, []byte(params))))
}

// greet makes the handshake.
func (w *witness) greet(t *testing.T, capabilities string) jsonrpc.Message {
	t.Helper()
	m := w.request(t, "initialize", `{"protocolVersion":"`+witnessProtocol+`","capabilities":`+capabilities+`,"clientInfo":{"name":"witness","version":"1"}}`)
	require.Nil(t, m.Error, "%s", m.Raw())
	w.notify(t, "notifications/initialized", "{}")
	require.NoError(t, w.wire.listen())
	return m
}

// leave ends the client, which must not have met with anything out of order.
func (w *witness) leave(t *testing.T) {
	t.Helper()
	assert.NoError(t, w.wire.leave())
	w.saying.Wait()
	assert.Empty(t, w.wrong)
}

// A pipeWire is a process on whose standard input and output one speaks.
type pipeWire struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	writer *jsonrpc.Writer
	exited chan error
}

// witnessOf starts a process, and returns its client.
func witnessOf(t *testing.T, cmd *exec.Cmd, answers map[string]string) *witness {
	t.Helper()
	w := newWitness(answers)
	if cmd.Stderr == nil {
		cmd.Stderr = t.Output()
	}
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	p := &pipeWire{cmd: cmd, stdin: stdin, writer: jsonrpc.NewWriter(stdin), exited: make(chan error, 1)}
	w.wire = p
	require.NoError(t, cmd.Start())
	go func() {
		for lines := jsonrpc.NewReader(stdout, maxLine); ; {
			line, err := lines.Next()
			if err != nil {
				break
			}
			m, err := jsonrpc.Parse(line)
			if err != nil {
				w.note(fmt.Errorf("a line that is no message: %q", line))
				continue
			}
			w.hear(m)
		}
		p.exited <- cmd.Wait()
	}()
	return w
}

func (p *pipeWire) post(m jsonrpc.Message) error { return p.writer.Write(m) }

func (p *pipeWire) listen() error { return nil }

func (p *pipeWire) leave() error {
	_ = p.stdin.Close()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case err := <-p.exited:
		return err
	case <-timer.C:
		_ = p.cmd.Process.Kill()
		return errors.Join(errors.New("it did not end when its input did"), <-p.exited)
	}
}

// kill ends a process that has promised nothing about its end.
func (p *pipeWire) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// A postWire is a session of streamable HTTP.
type postWire struct {
	address string
	hear    func(jsonrpc.Message)
	note    func(error)
	client  *http.Client
	life    context.Context
	hangUp  context.CancelFunc
	reading sync.WaitGroup

	mu      sync.Mutex
	session string
}

// witnessAt is a client of a gateway that serves HTTP.
func witnessAt(address string, answers map[string]string) *witness {
	w := newWitness(answers)
	p := &postWire{address: address, hear: w.hear, note: w.note, client: &http.Client{Transport: &http.Transport{}}}
	p.life, p.hangUp = context.WithCancel(context.Background())
	w.wire = p
	return w
}

func (p *postWire) send(method string, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(p.life, method, p.address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	session := p.session
	p.mu.Unlock()
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Content-Type", "application/json")
	if session != "" {
		r.Header.Set("MCP-Protocol-Version", witnessProtocol)
		r.Header.Set("Mcp-Session-Id", session)
	}
	return p.client.Do(r)
}

// post does not wait for the response to a request, but for that of all else.
func (p *postWire) post(m jsonrpc.Message) error {
	if m.IsRequest() {
		p.reading.Go(func() { p.note(p.converse(m)) })
		return nil
	}
	response, err := p.send(http.MethodPost, m.Raw())
	if err != nil {
		return err
	}
	if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusAccepted {
		return errors.Join(err, fmt.Errorf("%s was answered with HTTP status %d", m.Raw(), response.StatusCode))
	}
	return nil
}

func (p *postWire) converse(m jsonrpc.Message) error {
	response, err := p.send(http.MethodPost, m.Raw())
	if err != nil {
		return p.unlessHungUp(err)
	}
	if id := response.Header.Get("Mcp-Session-Id"); id != "" {
		p.mu.Lock()
		p.session = id
		p.mu.Unlock()
	}
	return p.unlessHungUp(readResponse(response, p.hear))
}

func (p *postWire) unlessHungUp(err error) error {
	if p.life.Err() != nil {
		return nil
	}
	return err
}

func (p *postWire) listen() error {
	stream, err := p.send(http.MethodGet, nil)
	if err != nil {
		return err
	}
	if stream.StatusCode != http.StatusOK {
		return errors.Join(stream.Body.Close(), fmt.Errorf("GET was answered with HTTP status %d", stream.StatusCode))
	}
	p.reading.Go(func() { p.note(p.unlessHungUp(readResponse(stream, p.hear))) })
	return nil
}

func (p *postWire) leave() error {
	response, err := p.send(http.MethodDelete, nil)
	if err == nil {
		err = response.Body.Close()
	}
	p.hangUp()
	p.reading.Wait()
	p.client.CloseIdleConnections()
	return err
}
