package upstreamtest

import (
	"net/http"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

// other serves GET and DELETE, which faults can name as methods.
func (s *server) other(x *exchange, reused bool) {
	c := call{line: x, target: x.r.Method, reused: reused}
	s.count(&c)
	if !s.strikeAll(c) {
		return
	}
	version := x.r.Header.Get(mcp.HeaderProtocolVersion)
	switch {
	case s.era == sse:
		s.serve2024(x)
	case s.era == modern || s.era == both && mcp.IsModernProtocol(version):
		x.refuse(http.StatusMethodNotAllowed, "there are no sessions since "+modernVersion+"\n")
	case s.sessionless:
		x.refuse(http.StatusMethodNotAllowed, "there are no sessions here\n")
	default:
		if found, ok := s.session(x); ok {
			s.onSession(x, found)
		}
	}
}

// onSession serves a GET or a DELETE that names its session.
func (s *server) onSession(x *exchange, one *session) {
	if x.r.Method == http.MethodDelete {
		s.sessions.close(one)
		return
	}
	if !strings.Contains(strings.Join(x.r.Header.Values("Accept"), ","), "text/event-stream") {
		x.refuse(http.StatusNotAcceptable, "Accept must have text/event-stream\n")
		return
	}
	if answer, ok := s.fetch(x.r.Header.Get(mcp.HeaderLastEventID)); ok {
		x.say(answer)
		return
	}
	if !one.listen() {
		x.refuse(http.StatusConflict, "there is a stream already\n")
		return
	}
	defer one.unlisten()
	s.hub.attend(x.gone(), one.over, func() {
		x.open()
		if s.listChanged {
			x.say(jsonrpc.Notification("notifications/tools/list_changed", nil))
		}
	}, x.say)
}

// fetch returns the answer that waits behind an event, once.
func (s *server) fetch(id string) (jsonrpc.Message, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := s.waiting[id]
	delete(s.waiting, id)
	return m, ok
}

// open begins the stream of events before there is one.
func (x *exchange) open() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.begin()
}
