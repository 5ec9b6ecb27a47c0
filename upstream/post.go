package upstream

import (
	"context"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

// A letter is a message that has no answer.
type letter struct {
	m    jsonrpc.Message
	sent func(error) // told once the server has taken it, or not; may be nil
}

// Notify implements Session. The modern era has no notifications/cancelled over
// HTTP: there the stream of the call is closed.
func (s *link) Notify(m jsonrpc.Message) error {
	switch {
	case s.modern != nil && m.Method == notifyCancelled:
		s.cancelCall(m)
		return nil
	case s.modern != nil && s.modern.drops(m):
		return nil
	}
	return s.mail(letter{m: m})
}

// Reply implements Session.
func (s *link) Reply(m jsonrpc.Message) error { return s.mail(letter{m: m}) }

// mail queues a letter. Its error is a *NotSent.
func (s *link) mail(l letter) error {
	s.mu.Lock()
	over := s.over
	s.mu.Unlock()
	if over != nil {
		return s.notSent(over)
	}
	select {
	case s.out <- l:
		return nil
	default:
		return s.notSent(errQueueFull)
	}
}

// mailAll sends the letters, one after the other, until the link is over.
func (s *link) mailAll() {
	for {
		select {
		case <-s.ctx.Done():
			return
		case l := <-s.out:
			err := s.sendLetter(l.m)
			if l.sent != nil {
				l.sent(err)
			}
		}
	}
}

// sendLetter fails where the server did not get the letter, or did not take it.
func (s *link) sendLetter(m jsonrpc.Message) error {
	ctx, cancel := context.WithTimeoutCause(s.ctx, s.r.o.WriteTimeout, errWriteTimeout)
	defer cancel()
	resp, err := s.r.wire.post(ctx, s.target(), s.header(m), m.Raw())
	if err != nil {
		s.doubt()
		return err
	}
	discard(resp)
	s.answeredPost(resp.StatusCode)
	if !succeeded(resp) {
		return statusError(resp, nil)
	}
	return nil
}
