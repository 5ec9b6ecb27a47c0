package upstream

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// maxSilence is how often a server may leave a ping unanswered before its session is
// given up.
const maxSilence = 3

// watch sees a session and those that take its place through, one after the
// other, until the client begins another or Close is called.
func (r *Remote) watch(s *link) {
	pause := backoff{o: r.o}
	for s != nil {
		select {
		case <-s.done:
		case <-r.life.Done():
			return
		}
		if !r.lost(s) {
			return // another has taken its place
		}
		s.mute()
		if s = r.replace(s, &pause); s != nil {
			r.o.Observer.restarted(s)
		}
	}
}

// replace returns the session that takes the place of s, however long it takes. It
// returns nil where the client has begun another meanwhile, or Close is called.
func (r *Remote) replace(s *link, pause *backoff) *link {
	lived, err := time.Since(s.born), s.why()
	for tries := 1; ; tries++ {
		wait := pause.next(lived)
		r.o.Observer.exited(err, wait)
		if !sleep(r.life, wait) {
			return nil
		}
		var next *link
		if next, err = r.renew(s, tries); err == nil {
			return next
		}
		lived = 0
		r.mu.Lock()
		r.trouble = err
		r.mu.Unlock()
	}
}

// lost notes that the session is over. It reports whether it was still the one.
func (r *Remote) lost(s *link) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.session != s || r.closing {
		return false
	}
	r.session, r.greeted, r.trouble = nil, false, s.why()
	r.change()
	return true
}

// renew begins a new session in the place of an old one, or finds that the old one
// lives. It returns nil where the client has begun a session meanwhile.
func (r *Remote) renew(old *link, tries int) (*link, error) {
	ctx, cancel := context.WithTimeoutCause(r.life, r.o.StartTimeout, errNoAnswer)
	defer cancel()
	r.mu.Lock()
	params := r.params
	r.mu.Unlock()
	next, err := r.revive(ctx, old, tries < maxSilence)
	if next == nil && err == nil {
		next, err = r.reintroduce(ctx, params)
	}
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	taken := r.session != nil
	r.mu.Unlock()
	if taken {
		next.retire()
		return nil, nil
	}
	r.publish(next, params, true)
	return next, nil
}

// revive asks whether a server that could not be reached still knows the session,
// which then goes on on a new link. It returns nil where there is no session to go
// on with, and an error where the server still cannot be reached. With patience a
// server that is silent is one of the latter: it may have its hands full, and what
// the session holds would be lost.
func (r *Remote) revive(ctx context.Context, old *link, patience bool) (*link, error) {
	old.mu.Lock()
	version, session, lastID, over := old.version, old.session, old.lastID, old.over
	old.mu.Unlock()
	if session == "" || errors.Is(over, errSessionExpired) {
		return nil, nil
	}
	s := r.newLink(nil)
	s.mu.Lock()
	s.version, s.session, s.lastID = version, session, lastID
	s.mu.Unlock()
	err := s.ping(ctx)
	if err == nil {
		return s, nil
	}
	s.end(err)
	status := &StatusError{}
	busy := errors.As(err, &status) && passing(status.Status) || patience && errors.Is(err, errNoPong)
	if busy || errors.As(err, new(*NotSent)) {
		return nil, err
	}
	return nil, nil
}

// reintroduce does the client's handshake again.
func (r *Remote) reintroduce(ctx context.Context, params []byte) (*link, error) {
	s, m, err := r.shake(ctx, params)
	switch {
	case err != nil:
		return nil, err
	case s == nil:
		return nil, fmt.Errorf("%w: %s", errNoHandshake, m.Error)
	}
	r.mu.Lock()
	initialized := r.initialized
	r.mu.Unlock()
	if initialized == nil || s.modern != nil {
		return s, nil
	}
	if err := s.sendLetter(*initialized); err != nil {
		s.retire()
		return nil, err
	}
	return s, nil
}
