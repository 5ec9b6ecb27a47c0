package upstreamtest

import (
	"net/http"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

// A stream2024 is the one stream of a session of the transport of 2024-11-05, on
// which all its requests are answered.
type stream2024 struct {
	*exchange
	over *ending
}

// serve2024 serves the stream. Its first event says where messages are taken.
func (s *server) serve2024(x *exchange) {
	one := s.sessions.open()
	one.stream = &stream2024{exchange: x, over: one.over}
	defer x.finish()
	defer s.sessions.close(one)
	s.hub.attend(x.gone(), one.over, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.event("endpoint", []byte(messages+"?sessionId="+one.id))
	}, x.say)
}

// message takes one message. A fault that strikes before it is read strikes its
// own request; else it has been accepted, and everything goes over the stream.
func (s *server) message(x *exchange, reused bool) {
	one := s.sessions.find(x.r.URL.Query().Get("sessionId"))
	if one == nil {
		x.refuse(http.StatusNotFound, "no such session\n")
		return
	}
	m, ok := s.read(x)
	if !ok {
		return
	}
	c := s.newCall(m, x)
	c.reused = reused
	switch {
	case !m.IsRequest():
		s.accept(c)
	case s.silent:
		x.accepted()
	case s.begin(&c):
		x.accepted()
		c.line = one.stream
		s.behind.Go(func() { s.run(c) })
	}
}

// answer is one event among others.
func (l *stream2024) answer(m jsonrpc.Message) { l.say(m) }

// shape can change no more than how the events are written from now on.
func (l *stream2024) shape(f fault) {
	if f.action == "sse" {
		l.exchange.shape(f)
	}
}

// fail breaks the stream, or else only leaves the request unanswered.
func (l *stream2024) fail(f fault) {
	switch f.action {
	case "reset", "drop":
		l.exchange.fail(f)
		l.over.end()
	case "end":
		l.over.end()
	}
}
