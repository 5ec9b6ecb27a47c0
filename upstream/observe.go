package upstream

import (
	"time"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

// A Handler takes what a server sends of its own accord. Its methods are called
// in the order in which the messages came, on the goroutine that reads them:
// while one blocks, no answer of that server is read. They must not wait for an
// answer of the server, nor for anything that does. Nothing of a session is
// handed on after Observer.Exited was told of its end.
//
// A Remote has several streams. The messages of each come in their order, and
// those of all one at a time.
type Handler interface {
	// Notification takes a notification.
	Notification(jsonrpc.Message)
	// Request takes a request. It is answered with s.Reply, then or later.
	Request(s Session, m jsonrpc.Message)
}

// An Observer is told what happens to a server beside the calls. Each function
// may be nil, may be called on any goroutine, and must not block; what it is
// given it may keep. Nothing in it has been escaped for a terminal.
type Observer struct {
	// Stderr is given each line of the server's standard error, without its
	// end, cut after MaxStderrLine bytes.
	Stderr func(line []byte)
	// Junk is given each line of the server's standard output, or event of a
	// Remote's streams, that is no JSON-RPC message and no answer to an open call;
	// and each request of a modern server, since that era has none.
	Junk func(line []byte)
	// TooLong is given each message that was dropped because it is longer than
	// MaxMessageBytes and is no answer to an open call.
	TooLong func(*jsonrpc.TooLongError)
	// Stray is given each response that answers no open call: an unknown id, a
	// second answer, an answer to a call that was forgotten, an id of null.
	Stray func(jsonrpc.Message)
	// Exited is given why a server is gone, and in what time the next start is
	// tried. It is called once for each session that had worked and did not end
	// by Close, after the last message of that session was handed on and what
	// was open on it is lost (calls of a Remote may still be answered); and once
	// for each start after it that failed, or whose handshake did.
	Exited func(err error, next time.Duration)
	// Restarted is given the new session, ready to be used, after a restart,
	// and so after Exited. Messages of the new session may come before it.
	Restarted func(Session)
	// EraFound is given the era that a handshake was made in, where the modern one
	// was tried, and it is another
	// than Options.Known or the one that was found before. It is meant to be
	// remembered, for the next Options.Known.
	EraFound func(Era)
}

func (o Observer) eraFound(e Era) {
	if o.EraFound != nil {
		o.EraFound(e)
	}
}

func (o Observer) stderr(line []byte) {
	if o.Stderr != nil {
		o.Stderr(line)
	}
}

func (o Observer) junk(line []byte) {
	if o.Junk != nil {
		o.Junk(line)
	}
}

func (o Observer) tooLong(err *jsonrpc.TooLongError) {
	if o.TooLong != nil {
		o.TooLong(err)
	}
}

func (o Observer) stray(m jsonrpc.Message) {
	if o.Stray != nil {
		o.Stray(m)
	}
}

func (o Observer) exited(err error, next time.Duration) {
	if o.Exited != nil {
		o.Exited(err, next)
	}
}

func (o Observer) restarted(s Session) {
	if o.Restarted != nil {
		o.Restarted(s)
	}
}
