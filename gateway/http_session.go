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
	client    *client
	own       estate // what stands behind it alone; nil where that is shared
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
	if !h.reserve(principal) {
		return nil, refuse(http.StatusServiceUnavailable, codeUnavailable, "%d sessions are open already", h.quota()).with("Retry-After", "60")
	}
	s := &session{id: rand.Text(), principal: principal, depart: func() {}, since: time.Now()}
	s.client = newClient(h.life, h.log, s)
	s.client.caller.namespace = principal
	if h.options.Process == PerSession {
		own, err := h.settle(s.client)
		if err != nil {
			h.unreserve(principal)
			s.client.requests.end(errSessionOver)
			return nil, refuse(http.StatusBadGateway, codeUnavailable, "%s", err)
		}
		s.own = own
	} else {
		h.site.welcome(s.client, s)
	}
	s.idle = time.AfterFunc(h.options.SessionIdle, func() { h.endSession(s, errSessionOver) })
	if !h.enrol(s) { // the gateway is being shut down
		s.end(errShutdown)
		s.retire(h.life, h.taking)
		return nil, noSession()
	}
	return s, nil
}

// quota is how many sessions a principal may have: none takes the room of another.
func (h *HTTP) quota() int { return max(1, h.options.MaxSessions/max(1, len(h.keys))) }

// reserve makes room for a session. Where there is none, what is left of the session
// goes that the principal has ended first, or else the one that was idle for longest.
func (h *HTTP) reserve(principal string) bool {
	leave := func() {}
	defer func() { leave() }() // without the lock
	h.mu.Lock()
	defer h.mu.Unlock()
	held := h.opening[principal]
	var ended *session
	for s, p := range h.parting {
		if s.principal != principal {
			continue
		}
		held++
		if ended == nil || p.since.Before(h.parting[ended].since) {
			ended = s
		}
	}
	var idle *session
	var since time.Time
	for _, s := range h.sessions {
		if s.principal != principal {
			continue
		}
		held++
		if t, ok := s.idleSince(); ok && (idle == nil || t.Before(since)) {
			idle, since = s, t
		}
	}
	switch {
	case held < h.quota():
	case ended != nil:
		h.parting[ended].cut()
		delete(h.parting, ended)
	case idle != nil:
		leave = h.part(idle, errSessionOver)
	default:
		return false
	}
	h.opening[principal]++
	return true
}

func (h *HTTP) unreserve(principal string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.opening[principal]--
}

// enrol takes a session in, for which room was reserved. It fails at a shutdown.
func (h *HTTP) enrol(s *session) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.opening[s.principal]--
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
// for them.
func (h *HTTP) endSession(s *session, cause error) {
	h.mu.Lock()
	leave := h.part(s, cause)
	h.mu.Unlock()
	leave()
}

// part is the part of endSession that is done with the lock held; the rest is left to
// do without. At a shutdown, only that ends sessions.
func (h *HTTP) part(s *session, cause error) (leave func()) {
	if h.sessions[s.id] != s || h.taking.Err() != nil && cause != errShutdown {
		return func() {}
	}
	delete(h.sessions, s.id)
	ctx, cancel := context.WithCancel(h.life)
	h.parting[s] = parting{time.Now(), cancel}
	h.retiring.Add(1)
	return func() {
		s.end(cause)
		h.log.Debug().Str("cause", cause.Error()).Msg("a session is over")
		go func() {
			defer h.retiring.Done()
			defer cancel()
			s.retire(ctx, h.taking)
			h.mu.Lock()
			delete(h.parting, s)
			h.mu.Unlock()
		}()
	}
}

// parting is an ended session of which something is left: calls that are recorded run
// on, and late answers are listened for.
type parting struct {
	since time.Time
	cut   context.CancelFunc
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
// ended when its calls have, and no late answer is listened for any more; when late
// ends it is listened for none, when drain ends for nothing.
func (s *session) retire(drain, late context.Context) {
	s.client.requests.handlers.Wait()
	s.depart()
	if s.own != nil {
		s.own.linger(drain, late)
		s.own.drain(drain, s.client.requests)
		hangUp(s.own)
	}
}

func (s *session) setLevel(level severity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.level = level
}
