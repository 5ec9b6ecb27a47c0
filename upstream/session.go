package upstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// MaxStderrLine is the number of bytes of a line of a server's standard error
// that an Observer gets; the rest of the line is dropped.
const MaxStderrLine = 8 << 10

// exitSettle is how long a child that has closed its output is given to exit,
// so that the exit is named as the cause, which it mostly is.
const exitSettle = 250 * time.Millisecond

var (
	errSessionOver  = errors.New("its session is over")
	errOutputClosed = errors.New("closed its standard output")
	errClosed       = errors.New("it was told to end")
)

// A life is the Session of a server's process, from its start to its end.
type life struct {
	p     *Process
	child *child
	out   *writer
	born  time.Time

	mu      sync.Mutex
	pending map[string]*Call // by jsonrpc.IDKey of our id; nil once the session is over
	over    error            // why it is over
	last    []byte           // the last line of standard error that is not blank

	opened        atomic.Pointer[opening] // the one that has made a handshake; nil before
	probed, heard atomic.Bool             // server/discover was sent; an opening was answered
	ear           hearing                 // of the modern era

	done     chan struct{} // closed when over is set
	gone     chan struct{} // closed when the process is reaped and all goroutines have ended
	replaced chan struct{} // closed when another has got what this one could not bear

	quitOnce sync.Once
	quitting chan struct{} // closed by quit, after:
	reason   error
	force    bool

	died bool // the child exited by itself; set by watch
}

func newSession(p *Process, c *child) *life {
	s := &life{
		p: p, child: c, born: time.Now(), pending: map[string]*Call{},
		done: make(chan struct{}), gone: make(chan struct{}), replaced: make(chan struct{}), quitting: make(chan struct{}),
	}
	s.ear.s = s
	s.out = newWriter(c.stdin, p.o.WriteTimeout, s.busy, func(err error) {
		// A server that stopped reading in the middle of a message will read
		// no end of input either; one that closed its input may still answer.
		s.quit(err, errors.Is(err, os.ErrDeadlineExceeded))
	})
	return s
}

// Send implements Session.
func (s *life) Send(ctx context.Context, m jsonrpc.Message) (*Call, error) {
	return s.SendTo(ctx, m, Listener{})
}

// SendTo implements Session: the id is an integer that this Process has not used
// before. What has not begun to be written within WriteTimeout is not sent. What
// has begun is finished, also after ctx has ended, and may take until the end of
// the session; see Options.WriteTimeout.
func (s *life) SendTo(ctx context.Context, m jsonrpc.Message, l Listener) (*Call, error) {
	c := s.newCall(m.ID, l.Answered)
	if d := s.modern(); d != nil {
		var local []byte
		if m, local = d.request(m); local != nil {
			return s.answerHere(c, local)
		}
	} else if params := legacyParams(m.Params); len(params) != len(m.Params) {
		m = m.With("params", params)
	}
	return s.send(ctx, m, c)
}

func (s *life) newCall(theirs []byte, heard func(jsonrpc.Message)) *Call {
	return &Call{owner: s, theirs: theirs, id: strconv.AppendInt(nil, s.p.ids.Add(1), 10), heard: heard, settled: make(chan struct{})}
}

// send writes the request of a call. Its error is a *NotSent.
func (s *life) send(ctx context.Context, m jsonrpc.Message, c *Call) (*Call, error) {
	if err := s.open(c); err != nil {
		return nil, &NotSent{Name: s.p.cmd.Name, Err: err}
	}
	if err := s.out.send(ctx, jsonrpc.Line(m.With("id", c.id).Raw()), &c.whole); err != nil {
		s.take(string(c.id))
		return nil, &NotSent{Name: s.p.cmd.Name, Err: err}
	}
	return c, nil
}

// answerHere answers what the server has no use for, as long as it lives.
func (s *life) answerHere(c *Call, result []byte) (*Call, error) {
	if err := s.open(c); err != nil {
		return nil, &NotSent{Name: s.p.cmd.Name, Err: err}
	}
	if s.take(string(c.id)) == c {
		c.deliver(jsonrpc.Result(c.id, result))
	}
	return c, nil
}

// Notify implements Session. Without an error a notification is lost only with the
// session, or to a server that has no open call and does not read for
// WriteTimeout.
func (s *life) Notify(m jsonrpc.Message) error {
	if d := s.modern(); d != nil && d.drops(m) {
		return nil
	}
	return s.post(m)
}

// Reply implements Session.
func (s *life) Reply(m jsonrpc.Message) error { return s.post(m) }

func (s *life) post(m jsonrpc.Message) error {
	if err := s.out.post(jsonrpc.Line(m.Raw())); err != nil {
		return &NotSent{Name: s.p.cmd.Name, Err: err}
	}
	return nil
}

// open puts the call into the table of those that wait for an answer.
func (s *life) open(c *Call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != nil {
		return s.over
	}
	s.pending[jsonrpc.IDKey(c.id)] = c
	return nil
}

// take takes the call that a raw id names out of the table, if it is there. An
// id of ours that comes back as a string is known again, as the public SDKs do.
func (s *life) take(id string) *Call {
	if text, ok := rawjson.Unquote([]byte(id)); ok {
		if _, err := strconv.ParseInt(text, 10, 64); err != nil {
			return nil
		}
		id = text
	}
	key := jsonrpc.IDKey([]byte(id))
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.pending[key]
	delete(s.pending, key)
	return c
}

// busy reports whether the server has a call before it that is not answered yet.
// One that waits for its turn to be written, or is being written, is none.
func (s *life) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.pending {
		if c.whole.Load() {
			return true
		}
	}
	return false
}

// quit begins the end of the session, by force or by asking. It does not wait.
func (s *life) quit(reason error, force bool) {
	s.quitOnce.Do(func() {
		s.reason, s.force = reason, force
		close(s.quitting)
	})
}

// run is the session's life. It returns when nothing is left of it.
func (s *life) run() {
	defer close(s.gone)
	var loops sync.WaitGroup
	read := make(chan struct{})
	loops.Go(s.out.run)
	loops.Go(s.readStderr)
	loops.Go(func() { defer close(read); s.readStdout() })

	s.watch(read)
	s.out.shut()
	s.end()
	s.child.stopReading()
	<-read // answers that were in the pipe already are still delivered
	s.lose()
	loops.Wait()
	s.child.hangUp()
}

// watch returns when the session has to end: the child has exited, or it is
// told to, or a pipe is broken. The last mostly means that it is about to exit,
// and is given a moment to do so.
func (s *life) watch(read <-chan struct{}) {
	select {
	case <-s.child.exited:
	case <-s.quitting:
	case <-read:
		s.quit(errOutputClosed, false)
	}
	if isClosed(s.quitting) && s.reason != errClosed && !s.force {
		s.child.exitsWithin(exitSettle, s.p.hurry)
	}
	s.died = isClosed(s.child.exited)
	if isClosed(read) {
		s.lose() // at once: however long the end takes, no answer can come
	}
}

// end ends the process, which may have ended already.
func (s *life) end() {
	hurry := s.p.hurry
	if isClosed(s.quitting) && s.force {
		hurry = make(chan struct{})
		close(hurry)
	}
	s.child.end(s.p.o.Grace, hurry)
}

// lose ends the session for its callers: whoever waits for an answer is told
// that none will come.
func (s *life) lose() {
	cause, err := s.fate()
	s.mu.Lock()
	lost := s.pending
	s.pending = nil
	if s.over == nil {
		s.over = err
		close(s.done)
	}
	s.mu.Unlock()
	s.out.shut()
	s.ear.stop()
	for _, c := range lost {
		c.lose(cause, err)
	}
}

// fate says why the session is over, once watch has returned.
func (s *life) fate() (LossCause, error) {
	switch {
	case s.died:
		return UpstreamExited, s.child.exit()
	case s.reason == errClosed:
		return UpstreamExited, s.reason
	default:
		return ConnectionLost, s.reason
	}
}

// readStderr hands the lines of standard error to the observer.
func (s *life) readStderr() {
	in := bufio.NewReaderSize(s.child.stderr, MaxStderrLine)
	rest := false // of a line that was cut
	for {
		line, more, err := in.ReadLine()
		if err != nil {
			return
		}
		if !rest {
			line = bytes.Clone(line)
			s.remember(line)
			s.p.o.Observer.stderr(line)
		}
		rest = more
	}
}

func (s *life) remember(line []byte) {
	if line = bytes.TrimSpace(line); len(line) > 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.last = line
	}
}

// lastWords returns the last line of standard error as a clause of a sentence,
// safe to be printed.
func (s *life) lastWords() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		return ""
	}
	return fmt.Sprintf("; the last line of its standard error is %q", s.last)
}
