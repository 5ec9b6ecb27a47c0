package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

var errNoMailbox = errors.New("it has no stream that names an endpoint")

// A mailbox is the transport of revision 2024-11-05: a stream of events, the first
// of which names the address where messages are posted. All answers come on that
// stream, and the session lasts as long as it does.
type mailbox struct {
	to     *url.URL
	events *serverEvents
	body   io.Closer
	cancel context.CancelFunc
}

// openMailbox opens the stream and reads where messages go. The address must be
// of the same origin as the stream: it gets our headers.
func (r *Remote) openMailbox(ctx context.Context) (*link, error) {
	life, cancel := context.WithCancel(r.life)
	stop := context.AfterFunc(ctx, cancel)
	b, err := r.mailboxAt(life, cancel)
	if !stop() && err == nil { // ctx has ended, and the stream with it
		_, err = b.body.Close(), context.Cause(ctx)
	}
	if err != nil {
		cancel()
		return nil, err
	}
	s := r.newLink(nil)
	s.mailbox = b
	if !r.spawn(s.empty) {
		cancel()
		return nil, errClosed
	}
	return s, nil
}

func (r *Remote) mailboxAt(ctx context.Context, cancel context.CancelFunc) (*mailbox, error) {
	resp, err := r.wire.get(ctx, http.Header{})
	if err != nil {
		return nil, err
	}
	if !succeeded(resp) || mediaOf(resp) != mediaEvents {
		discard(resp)
		return nil, errNoMailbox
	}
	b := &mailbox{events: newServerEvents(resp.Body, r.o.MaxMessageBytes), body: resp.Body, cancel: cancel}
	e, err := b.events.next()
	if err == nil && e.kind == "endpoint" {
		if to, bad := r.wire.target.Parse(string(e.data)); bad == nil && to.Scheme == r.wire.target.Scheme && to.Host == r.wire.target.Host {
			b.to = to
			return b, nil
		}
	}
	_ = resp.Body.Close()
	return nil, errNoMailbox
}

// empty takes what comes on the stream. With it ends the session, and what is open
// on it is lost.
func (s *link) empty() {
	defer context.AfterFunc(s.ctx, s.mailbox.cancel)()
	defer s.mailbox.cancel()
	defer s.mailbox.body.Close()
	for {
		e, err := s.mailbox.events.next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errStreamEnded
			}
			s.end(err)
			s.loseAll(err)
			return
		}
		if len(e.data) > 0 && e.kind == "message" {
			s.unpack(e.data)
		}
	}
}

// unpack takes one message of the stream.
func (s *link) unpack(data []byte) {
	m, err := jsonrpc.Parse(data)
	var x *exchange
	if m.Method == "" && m.ID != nil {
		x = s.exchangeOf(m.ID)
	}
	switch {
	case x == nil:
		s.heed(data)
	case err != nil:
		if s.remove(x) {
			x.call.lose(BadAnswer, err)
		}
	default:
		x.deliver(m)
	}
}

// exchangeOf returns the open exchange with the id.
func (s *link) exchangeOf(id []byte) *exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.pending {
		if isOurs(id, x.call.id) {
			return x
		}
	}
	return nil
}

// loseAll settles what is open: no answer can come any more.
func (s *link) loseAll(err error) {
	s.mu.Lock()
	lost := s.pending
	s.pending = map[string]*exchange{}
	s.mu.Unlock()
	for _, x := range lost {
		x.call.lose(ConnectionLost, err)
	}
}
