package upstream

import "github.com/mcp-idem/mcp-idem/internal/jsonrpc"

// handNotification hands a notification of the server on, to own where that is not
// nil, else to the Handler.
func (s *link) handNotification(m jsonrpc.Message, own func(jsonrpc.Message)) {
	if s.modern != nil {
		var ok bool
		if m, ok = s.modern.incoming(m); !ok {
			return
		}
	}
	if own != nil {
		own(m)
		return
	}
	s.hand(func(h Handler) { h.Notification(m) })
}

// handRequest answers what concerns this connection alone, and hands the rest on.
// The modern era has no requests of servers, and no way to answer one.
func (s *link) handRequest(m jsonrpc.Message) {
	switch {
	case s.modern != nil:
		s.r.o.Observer.junk(m.Raw())
	case m.Method == methodPing:
		_ = s.Reply(jsonrpc.Result(m.ID, emptyResult)) // a server that does not read finds out itself
	case m.Method == methodInitialize, s.r.o.Handler == nil:
		_ = s.Reply(jsonrpc.ErrorReply(m.ID, &jsonrpc.Error{ // likewise
			Code: jsonrpc.CodeMethodNotFound, Message: "Method not found: " + m.Method,
		}))
	default:
		s.hand(func(h Handler) { h.Request(s, m) })
	}
}

// hand calls the Handler for one message at a time, whatever stream it came on,
// and not once the link is mute.
func (s *link) hand(call func(Handler)) {
	s.r.handing.Lock()
	defer s.r.handing.Unlock()
	if s.r.o.Handler != nil && !s.muted {
		call(s.r.o.Handler)
	}
}

// mute keeps what still comes from being handed on: the Observer is told next that
// the session is gone.
func (s *link) mute() {
	s.r.handing.Lock()
	defer s.r.handing.Unlock()
	s.muted = true
}
