package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

const (
	// MaxListening is how many GET streams one session may have open. Over it, the
	// oldest ends.
	MaxListening = 4
	// maxBacklog is how many messages wait for a client that has no stream open.
	maxBacklog = 256
)

var errSessionOver = errors.New("the session was ended")

// A session is one client of the legacy era, from its initialize to its DELETE. It
// is safe for concurrent use.
type session struct {
	id        string
	principal string
	g         *Gateway // its own, or the shared one
	client    *client
	own       bool   // g is
	depart    func() // ends what it hears of what others do too

	taking sync.Mutex // messages are taken one after the other

	mu      sync.Mutex
	busy    int // HTTP requests of it
	idle    *time.Timer
	since   time.Time // of being idle
	level   severity  // of the log messages that it wants
	posts   []*stream // of requests that are open
	listens []*stream // its GET streams, the newest last
	backlog []jsonrpc.Message
	ended   bool
}

// openSession begins a session, with an upstream of its own or as one of many.
func (h *HTTP) openSession(principal string) (*session, *refusal) {
	if !h.reserve() {
		return nil, refuse(http.StatusServiceUnavailable, codeUnavailable, "%d sessions are open already", h.options.MaxSessions).with("Retry-After", "60")
	}
	s := &session{id: rand.Text(), principal: principal, g: h.g, depart: func() {}, since: time.Now()}
	if h.options.Process == PerSession {
		s.g, s.own = New(h.ledger, h.shape), true
		s.client = newClient(h.life, s.g, s)
	} else {
		s.client = newGuest(h.life, h.hub, s)
	}
	s.client.caller.namespace = principal
	if s.own {
		if err := s.g.dial(s.client); err != nil {
			h.unreserve()
			s.client.requests.end(errSessionOver)
			return nil, refuse(http.StatusBadGateway, codeUnavailable, "%s", err)
		}
	}
	s.idle = time.AfterFunc(h.options.SessionIdle, func() { h.endSession(s, errSessionOver) })
	if !h.enrol(s) { // the gateway is being shut down
		s.end(errShutdown)
		s.retire(h.life)
		return nil, noSession()
	}
	return s, nil
}

// reserve makes room for a session, where there is none by ending the one that has
// been idle for longest.
func (h *HTTP) reserve() bool {
	h.mu.Lock()
	var oldest *session
	full := len(h.sessions)+h.opening >= h.options.MaxSessions
	if full {
		oldest = h.longestIdle()
	}
	granted := !full || oldest != nil
	if granted {
		h.opening++
	}
	h.mu.Unlock()
	if oldest != nil {
		h.endSession(oldest, errSessionOver)
	}
	return granted
}

// longestIdle is called with the lock held; nil where all sessions are in use.
func (h *HTTP) longestIdle() (oldest *session) {
	var since time.Time
	for _, s := range h.sessions {
		if t, idle := s.idleSince(); idle && (oldest == nil || t.Before(since)) {
			oldest, since = s, t
		}
	}
	return oldest
}

func (h *HTTP) unreserve() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.opening--
}

// enrol takes a session in, for which room was reserved. It fails at a shutdown.
func (h *HTTP) enrol(s *session) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.opening--
	if h.taking.Err() != nil {
		return false
	}
	h.sessions[s.id] = s
	return true
}

// session finds a client's session. What is another principal's is not there.
func (h *HTTP) session(id, principal string) *session {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.sessions[id]; s != nil && s.principal == principal {
		return s
	}
	return nil
}

// endSession ends a session, once. Calls that are recorded run on; it does not wait
// for them. At a shutdown, only that ends sessions.
func (h *HTTP) endSession(s *session, cause error) {
	h.mu.Lock()
	if h.sessions[s.id] != s || h.taking.Err() != nil && cause != errShutdown {
		h.mu.Unlock()
		return
	}
	delete(h.sessions, s.id)
	h.retiring.Add(1)
	h.mu.Unlock()
	s.end(cause)
	h.g.log.Debug().Str("cause", cause.Error()).Msg("a session is over")
	go func() {
		defer h.retiring.Done()
		ctx, cancel := context.WithTimeout(h.life, s.g.options.DrainFor)
		defer cancel()
		s.retire(ctx)
	}()
}

// enter notes an HTTP request of the session; false means that the session has
// ended. posts is the request's stream, if what belongs to no request may go there.
func (s *session) enter(post *stream) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.busy++
	s.idle.Stop()
	if post != nil {
		s.posts = append(s.posts, post)
	}
	return true
}

// leave is the end of what enter has begun.
func (s *session) leave(post *stream, idleFor time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.posts = slices.DeleteFunc(s.posts, func(p *stream) bool { return p == post })
	if s.busy--; s.busy == 0 && !s.ended {
		s.since = time.Now()
		s.idle.Reset(idleFor)
	}
}

// idleSince is when the session was used last; ok is false where it is in use.
func (s *session) idleSince() (since time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.since, s.busy == 0
}

// put implements outlet: what belongs to a request goes on its stream.
func (s *session) put(m jsonrpc.Message, about *Exchange) bool {
	switch {
	case m.Method == methodMessage && !s.wants(m):
		return true
	case about == nil || about.stream == nil:
		return s.post(m)
	case m.IsResponse():
		return about.stream.end(m)
	}
	return about.stream.put(m)
}

// wants reports whether a log message is severe enough for the client.
func (s *session) wants(m jsonrpc.Message) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return severityOf(m) >= s.level
}

// post sends what belongs to no request on one stream (section Multiple Connections
// of the transport): a request of the upstream where the client is sure to read, a
// notification where it listens. Without one it waits for the client to listen.
func (s *session) post(m jsonrpc.Message) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	streams := slices.Clone(s.listens)
	if m.IsRequest() {
		streams = append(streams, s.posts...)
	}
	for _, open := range slices.Backward(streams) {
		if open.put(m) {
			return true
		}
	}
	if s.ended || len(s.backlog) >= maxBacklog {
		return false
	}
	s.backlog = append(s.backlog, m)
	return true
}

// listen adds a GET stream, on which the client hears from now on: the newest is
// the one that is read, where a client has come anew and the old connection has not
// been found dead yet.
func (s *session) listen(l *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, m := range s.backlog {
		if !l.put(m) {
			s.backlog = s.backlog[i:]
			return
		}
	}
	s.backlog = nil
	if s.listens = append(s.listens, l); len(s.listens) > MaxListening {
		s.listens[0].close()
		s.listens = s.listens[1:]
	}
	if s.ended {
		l.close()
	}
}

func (s *session) unlisten(l *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listens = slices.DeleteFunc(s.listens, func(o *stream) bool { return o == l })
}

// end ends the session for its client.
func (s *session) end(cause error) {
	s.mu.Lock()
	s.ended = true
	s.idle.Stop()
	for _, l := range s.listens {
		l.close()
	}
	s.mu.Unlock()
	s.client.requests.close()
	s.client.requests.end(cause)
}

// retire waits until nothing of an ended session is left. An upstream of its own is
// ended when its calls are, or drain ends.
func (s *session) retire(drain context.Context) {
	s.client.requests.handlers.Wait()
	s.depart()
	if s.own {
		s.g.drain(drain, s.client.requests)
		s.g.hangUp()
	}
}

func (s *session) setLevel(level severity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.level = level
}
