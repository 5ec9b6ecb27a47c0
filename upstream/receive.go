package upstream

import (
	"errors"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

const (
	methodInitialize = "initialize"
	methodPing       = "ping"
)

// readStdout takes what the server writes, message by message, until the pipe
// ends or stopReading cuts it short.
func (s *life) readStdout() {
	in := jsonrpc.NewReader(s.child.stdout, s.p.o.MaxMessageBytes)
	for {
		line, err := in.Next()
		var long *jsonrpc.TooLongError
		switch {
		case errors.As(err, &long):
			s.receiveTooLong(long)
		case err != nil:
			return
		default:
			s.receive(line)
		}
	}
}

func (s *life) receive(line []byte) {
	m, err := jsonrpc.Parse(line)
	switch {
	case err != nil:
		s.receiveBroken(m, err, line)
	case m.IsResponse():
		s.receiveResponse(m)
	case m.IsNotification():
		s.receiveNotification(m)
	default:
		s.receiveRequest(m)
	}
}

func (s *life) receiveResponse(m jsonrpc.Message) {
	c := s.take(string(m.ID))
	if c == nil {
		s.p.o.Observer.stray(m)
		return
	}
	if c.opens == nil {
		s.p.proved.Store(true)
	} else {
		s.openedBy(c.opens, m)
	}
	c.deliver(m)
}

// receiveNotification hands a notification on as the legacy era has it.
func (s *life) receiveNotification(m jsonrpc.Message) {
	if d := s.modern(); d != nil {
		if m.Method == notifyAcknowledged {
			s.ear.acknowledged(m)
		}
		var ok bool
		if m, ok = d.incoming(m); !ok {
			return
		}
	}
	if s.p.o.Handler != nil {
		s.p.o.Handler.Notification(m)
	}
}

// receiveRequest answers what concerns this connection alone and hands on the
// rest. A server never sends what begins a handshake; a command that echoes its
// input does. The modern era has no requests of servers; one that comes all the
// same is refused. An answer that cannot be queued finds a server that does not
// read.
func (s *life) receiveRequest(m jsonrpc.Message) {
	begins := m.Method == methodInitialize || m.Method == methodDiscover
	switch {
	case m.Method == methodPing:
		_ = s.Reply(jsonrpc.Result(m.ID, emptyResult))
	case begins && s.echoed(m):
	case begins, s.modern() != nil, s.p.o.Handler == nil:
		if s.modern() != nil {
			s.p.o.Observer.junk(m.Raw())
		}
		_ = s.Reply(jsonrpc.ErrorReply(m.ID, &jsonrpc.Error{
			Code: jsonrpc.CodeMethodNotFound, Message: "Method not found: " + m.Method,
		}))
	default:
		s.p.o.Handler.Request(s, m)
	}
}

// echoed reports whether m is our own request come back that begins a handshake,
// and then ends the wait for its answer: the command repeats what it is sent.
func (s *life) echoed(m jsonrpc.Message) bool {
	s.mu.Lock()
	c := s.pending[jsonrpc.IDKey(m.ID)]
	s.mu.Unlock()
	if c == nil || c.opens == nil || s.take(string(m.ID)) != c {
		return false
	}
	c.lose(BadAnswer, errNoHandshake)
	return true
}

// receiveBroken takes a line that is no message. Where it has the id of an open
// call, it is the answer, and it will not come again in a better shape.
func (s *life) receiveBroken(m jsonrpc.Message, err error, line []byte) {
	if m.Method == "" && m.ID != nil {
		if c := s.take(string(m.ID)); c != nil {
			c.lose(BadAnswer, err)
			return
		}
	}
	var wire *jsonrpc.Error
	if m.Method != "" && m.ID != nil && errors.As(err, &wire) {
		_ = s.Reply(jsonrpc.ErrorReply(m.ID, wire))
	}
	s.p.o.Observer.junk(line)
}

func (s *life) receiveTooLong(long *jsonrpc.TooLongError) {
	if long.Method == "" && long.ID != nil {
		if c := s.take(string(long.ID)); c != nil {
			c.lose(BadAnswer, long)
			return
		}
	}
	s.p.o.Observer.tooLong(long)
}
