package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

// An ear is the stream on which a modern server announces changes. It is opened
// anew when what is wanted changes, before the one that was open is closed.
type ear struct {
	mu    sync.Mutex
	close context.CancelFunc // of the stream that was asked for last; may be nil
}

// listen opens the stream of what the server sends of its own accord, once.
func (s *link) listen() {
	s.listening.Do(func() {
		switch {
		case s.mailbox != nil: // its stream is open already
		case s.modern == nil:
			s.r.spawn(s.hearAll)
		default:
			s.modern.onRefilter(s.tune)
			s.tune()
		}
	})
}

// hearAll reads the server's own stream of the legacy era, and opens it again when
// it ends, until the link is over or the server says that there is none.
func (s *link) hearAll() {
	pause := backoff{o: s.r.o}
	for {
		began := time.Now()
		retry, none := s.hear()
		if none || !sleep(s.ctx, max(pause.next(time.Since(began)), min(retry, s.r.o.BackoffMax))) {
			return
		}
	}
}

// hear reads the server's own stream once. It returns what the server wants to be
// waited before the next time; none says that there will be no next time.
func (s *link) hear() (retry time.Duration, none bool) {
	h := s.sessionHeader()
	s.mu.Lock()
	if s.lastID != "" {
		h.Set(mcp.HeaderLastEventID, s.lastID)
	}
	s.mu.Unlock()
	resp, err := s.r.wire.get(s.ctx, h)
	if err != nil {
		s.doubt()
		return 0, false
	}
	defer resp.Body.Close()
	s.answeredWith(resp.StatusCode)
	if !succeeded(resp) || mediaOf(resp) != mediaEvents {
		return 0, !passing(resp.StatusCode)
	}
	events := newServerEvents(resp.Body, s.r.o.MaxMessageBytes)
	for {
		e, err := events.next()
		if err != nil {
			s.deafened(err)
			return retry, false
		}
		s.mu.Lock()
		s.lastID = e.id
		s.mu.Unlock()
		retry = max(retry, e.retry)
		if len(e.data) > 0 && e.kind == "message" {
			s.heed(e.data)
		}
	}
}

// passing reports whether a status tells of something that may be over soon.
func passing(status int) bool { return status/100 == 5 || status == http.StatusTooManyRequests }

// deafened notes why a stream ended. A message that is too long is not asked for
// again.
func (s *link) deafened(err error) {
	var long *jsonrpc.TooLongError
	switch {
	case errors.As(err, &long):
		s.mu.Lock()
		s.lastID = ""
		s.mu.Unlock()
		s.r.o.Observer.tooLong(long)
	case !errors.Is(err, io.EOF):
		s.doubt()
	}
}

// heed takes one message of a stream that belongs to no call.
func (s *link) heed(data []byte) {
	m, err := jsonrpc.Parse(data)
	switch {
	case err != nil:
		s.r.o.Observer.junk(data)
	case m.IsResponse():
		s.r.o.Observer.stray(m)
	case m.IsNotification():
		s.handNotification(m, nil)
	default:
		s.handRequest(m)
	}
}

// tune opens a stream for what is wanted now.
func (s *link) tune() {
	s.ear.mu.Lock()
	defer s.ear.mu.Unlock()
	wanted := s.modern.wanted()
	closeOld := s.ear.close
	if closeOld == nil {
		closeOld = func() {}
	}
	s.ear.close = nil
	if wanted.empty() {
		closeOld()
		return
	}
	ctx, cancel := context.WithCancel(s.ctx)
	s.ear.close = cancel
	if !s.r.spawn(func() { defer cancel(); s.hearChanges(ctx, wanted, closeOld) }) {
		cancel()
	}
}

// hearChanges reads the stream of what is wanted, and opens it again when it ends.
// opened is called when it stands for the first time, or will not.
func (s *link) hearChanges(ctx context.Context, wanted filter, opened func()) {
	defer opened()
	pause := backoff{o: s.r.o}
	missed := func() {}
	for {
		began := time.Now()
		none := s.hearChangesOnce(ctx, wanted, func() { opened(); missed() })
		if none || !sleep(ctx, pause.next(time.Since(began))) {
			return
		}
		missed = func() {
			for _, m := range wanted.missed() {
				s.handNotification(m, nil)
			}
		}
	}
}

// hearChangesOnce makes the request subscriptions/listen and reads its stream. It
// calls opened when the stream stands; none says that the server has no such
// stream.
func (s *link) hearChangesOnce(ctx context.Context, wanted filter, opened func()) (none bool) {
	id := strconv.AppendInt(nil, s.r.ids.Add(1), 10)
	m, _ := s.modern.request(jsonrpc.Request(id, methodListen, wanted.params()))
	resp, err := s.r.wire.post(ctx, s.target(), s.header(m), m.Raw())
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	if !succeeded(resp) || mediaOf(resp) != mediaEvents {
		return !passing(resp.StatusCode)
	}
	opened()
	events := newServerEvents(resp.Body, s.r.o.MaxMessageBytes)
	for {
		e, err := events.next()
		if err != nil {
			s.deafened(err)
			return false
		}
		if answer, err := jsonrpc.Parse(e.data); err == nil && answer.IsResponse() && isOurs(answer.ID, id) {
			return answer.Error != nil
		}
		if len(e.data) > 0 && e.kind == "message" {
			s.heed(e.data)
		}
	}
}
