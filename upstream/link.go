package upstream

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// pingTimeout is how long a server may take to say that it still knows a session.
const pingTimeout = 5 * time.Second

var (
	errSessionExpired = errors.New("it does not know the session any more")
	errReplaced       = errors.New("the client has begun a new session")
	errCancelled      = errors.New("the call was cancelled")
)

// A link is the Session of a Remote: what one handshake has established. Calls
// that are open when it is over may still be answered.
type link struct {
	r       *Remote
	modern  *dialect // nil in the legacy era
	mailbox *mailbox // of the transport of 2024-11-05, else nil
	first   bool     // there has been no handshake yet, and it is never over

	ctx  context.Context // of the streams and the post; ends when it is over
	stop context.CancelFunc
	out  chan letter
	born time.Time

	muted     bool // guarded by the Remote's handing
	listening sync.Once
	ear       ear
	probing   chan struct{} // held by who finds out whether the session still lives

	mu      sync.Mutex
	version string // the legacy era's, once agreed upon
	session string // likewise; empty where the server has none
	lastID  string // of the last event on the server's own stream
	pending map[string]*exchange
	heard   time.Time // when the server last used the session; zero: that it still knows it is in doubt
	over    error
	done    chan struct{} // closed when over is set
}

// newLink returns a link of the modern era, or of the legacy one when the dialect
// is nil.
func (r *Remote) newLink(d *dialect) *link {
	s := &link{
		r: r, modern: d, out: make(chan letter, queueLength), born: time.Now(), probing: make(chan struct{}, 1),
		pending: map[string]*exchange{}, heard: time.Now(), done: make(chan struct{}),
	}
	s.ctx, s.stop = context.WithCancel(r.life)
	r.spawn(s.mailAll)
	return s
}

// Send implements Session.
func (s *link) Send(ctx context.Context, m jsonrpc.Message) (*Call, error) {
	return s.SendTo(ctx, m, Listener{})
}

// SendTo implements Session: each request is one POST. What has not begun to be
// written within WriteTimeout is not sent; one that has begun and is not written
// by then is lost.
func (s *link) SendTo(ctx context.Context, m jsonrpc.Message, l Listener) (*Call, error) {
	c := &Call{
		owner: s, theirs: m.ID, id: strconv.AppendInt(nil, s.r.ids.Add(1), 10), heard: l.Answered, settled: make(chan struct{}),
	}
	m = m.With("id", c.id)
	if s.modern != nil {
		var local []byte
		if m, local = s.modern.request(m); local != nil {
			c.deliver(jsonrpc.Result(c.id, local))
			return c, nil
		}
	} else if params := legacyParams(m.Params); len(params) != len(m.Params) {
		m = m.With("params", params)
	}
	x := s.newExchange(c, m.Method, l.Notified)
	err := s.open(ctx, x)
	if err == nil && !s.r.spawn(func() { x.run(m) }) {
		s.remove(x)
		err = errClosed
	}
	if err == nil {
		err = x.depart(ctx)
	}
	if err != nil {
		x.cancel(err)
		return nil, s.notSent(err)
	}
	return c, nil
}

func (s *link) notSent(err error) *NotSent { return &NotSent{Name: s.r.to.Name, Err: err} }

// open puts the exchange into the table of those that wait for an answer.
func (s *link) open(ctx context.Context, x *exchange) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != nil {
		return s.over
	}
	s.pending[string(x.call.id)] = x
	return nil
}

// remove takes the exchange out of the table, and reports whether it was there:
// then the caller is the one to settle it.
func (s *link) remove(x *exchange) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := string(x.call.id)
	if s.pending[id] != x {
		return false
	}
	delete(s.pending, id)
	return true
}

// take takes the call of one of our ids out of the table, for who no longer
// listens for its answer, and closes its stream.
func (s *link) take(id string) *Call {
	s.mu.Lock()
	x := s.pending[id]
	delete(s.pending, id)
	s.mu.Unlock()
	if x == nil {
		return nil
	}
	x.cancel(errForgotten)
	return x.call
}

// header returns the headers with which a message is sent.
func (s *link) header(m jsonrpc.Message) http.Header {
	if s.modern != nil {
		h := bodyHeaders(m, &s.r.bindings)
		h.Set(mcp.HeaderProtocolVersion, s.modern.version)
		return h
	}
	return s.sessionHeader()
}

func (s *link) sessionHeader() http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sessionHeaders(s.version, s.session)
}

// target is where messages are sent.
func (s *link) target() *url.URL {
	if s.mailbox != nil {
		return s.mailbox.to
	}
	return s.r.wire.target
}

// adopt notes the session that the server has begun.
func (s *link) adopt(session string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.session = session
}

// answeredWith notes that the server has answered, with an HTTP status. Success says
// that it knows the session, and 404 that it does not.
func (s *link) answeredWith(status int) {
	s.mu.Lock()
	if status/100 == 2 {
		s.heard = time.Now()
	}
	expired := status == http.StatusNotFound && s.session != ""
	s.mu.Unlock()
	if expired {
		s.end(errSessionExpired)
	}
}

// answeredPost is answeredWith for a message. Real servers also say 400 of a session
// that they do not know, and one that broke down may have forgotten it.
func (s *link) answeredPost(status int) {
	s.answeredWith(status)
	if status == http.StatusBadRequest || status/100 == 5 {
		s.doubt()
	}
}

// doubt has the session looked after before it is used again: a connection
// broke, and perhaps the server has started anew.
func (s *link) doubt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = time.Time{}
}

// end ends the link for who wants to send something. What is open on it goes on.
func (s *link) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over == nil && !s.first {
		s.over = err
		close(s.done)
		s.stop()
	}
}

// retire ends a link in whose place there is another, or which did not become one.
func (s *link) retire() {
	s.mu.Lock()
	s.first = false
	idle := len(s.pending) == 0
	s.mu.Unlock()
	s.end(errReplaced)
	if idle {
		s.r.spawn(func() { s.farewell(s.r.life) })
	}
}

// farewell ends the session at the server, where there is one.
func (s *link) farewell(ctx context.Context) {
	h := s.sessionHeader()
	if h.Get(mcp.HeaderSessionID) == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.r.o.Grace)
	defer cancel()
	s.r.wire.remove(ctx, h)
}

// why says why the link is over.
func (s *link) why() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

// alive reports whether something can be sent.
func (s *link) alive() bool { return !isClosed(s.done) }

// sure reports whether the session can be used without asking: there is none to
// be lost, or the server has used it lately, or is at work in it. A server that
// works on the loop that reads answers no ping meanwhile.
func (s *link) sure() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	busy := len(s.pending) > 0 && !s.heard.IsZero()
	return s.session == "" || busy || time.Since(s.heard) < s.r.o.IdleAfter
}

// probe asks the server whether it still knows the session, unless that is
// sure. It ends the link if it does not.
func (s *link) probe(ctx context.Context) error {
	select {
	case s.probing <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-s.probing }()
	if s.sure() {
		return nil
	}
	err := s.ping(ctx)
	if err != nil && ctx.Err() == nil {
		s.end(err)
	}
	return err
}

// ping fails where no JSON-RPC response comes; an error is one.
func (s *link) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, pingTimeout, errNoPong)
	defer cancel()
	_, err := s.ask(ctx, methodPing, nil)
	return err
}

var errNoPong = errors.New("it did not answer a ping in time")

// ask sends a request of our own and waits for the answer. A context that ends
// takes the call with it.
func (s *link) ask(ctx context.Context, method string, params []byte) (jsonrpc.Message, error) {
	call, err := s.Send(ctx, jsonrpc.Request([]byte("0"), method, params))
	if err != nil {
		return jsonrpc.Message{}, err
	}
	defer call.Forget()
	return call.Wait(ctx)
}

// cancelCall closes the stream of the call that a notifications/cancelled names,
// which is how the modern era cancels over HTTP.
func (s *link) cancelCall(m jsonrpc.Message) {
	params, err := rawjson.ParseTo(m.Params, 1)
	if err != nil || params.Get("requestId") == nil {
		return
	}
	if c := s.take(string(params.Get("requestId").Raw())); c != nil {
		c.lose(Forgotten, errCancelled)
	}
}
