package upstream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// errNoHandshake says that initialize was answered with something that is no
// answer to it.
var errNoHandshake = errors.New("answered initialize with something that is no answer to it")

// supervise sees the sessions through, one after the other, until Close or
// until the first start has failed for good.
func (p *Process) supervise(s *life) {
	defer close(p.ended)
	defer p.close()
	pause := backoff{o: p.o}
	for first := true; s != nil; {
		p.see(s, first)
		if p.life.Err() != nil || p.Err() != nil {
			return
		}
		if !p.proved.Load() {
			next := p.secondChance(s)
			if next == nil {
				p.fail(p.exitedEarly(s))
				return
			}
			s = next
			continue
		}
		_, err := s.fate()
		s, first = p.respawn(&pause, time.Since(s.born), err), false
	}
}

// see sees one session through to its end.
func (p *Process) see(s *life, first bool) {
	stop := context.AfterFunc(p.life, func() { s.quit(errClosed, false) })
	defer stop()
	go s.run()
	if !first {
		p.reintroduce(s)
	}
	<-s.gone
	p.mu.Lock()
	p.session, p.greeted = nil, false
	p.change()
	p.mu.Unlock()
}

// reintroduce does the client's handshake again, with a new process.
func (p *Process) reintroduce(s *life) {
	if err := p.repeatHandshake(s); err != nil {
		p.shun(s)
		s.quit(err, false)
		return
	}
	p.mu.Lock()
	p.session, p.greeted = s, true
	p.change()
	p.mu.Unlock()
	s.listen()
	p.o.Observer.restarted(s)
}

func (p *Process) repeatHandshake(s *life) error {
	p.mu.Lock()
	params, initialized := p.params, p.initialized
	p.mu.Unlock()
	if params == nil {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(p.life, p.o.StartTimeout, errNoAnswer)
	defer cancel()
	m, err := s.shake(ctx, params)
	switch {
	case err != nil:
		return err
	case m.Result == nil:
		return fmt.Errorf("%w: %s", errNoHandshake, m.Error)
	case initialized != nil:
		return s.Notify(*initialized)
	}
	return nil
}

// alive reports whether something can be sent on s.
func (s *life) alive() bool { return !isClosed(s.done) }

// firstFailure turns the failure of a first handshake into one of the Process
// where it is one, and returns what the caller is told: nil means that another
// process has got a second chance, and the handshake with it.
func (p *Process) firstFailure(ctx context.Context, s *life, err error) error {
	if p.proved.Load() || ctx.Err() != nil {
		return err
	}
	lost := &LostError{}
	isLost := errors.As(err, &lost)
	switch {
	case errors.Is(err, errNoHandshake), isLost && lost.Cause == BadAnswer:
		p.fail(&StartError{Name: p.cmd.Name, Err: err, Reason: noHandshake(err, "the command is an MCP server")})
	case errors.Is(err, errNoAnswer), errors.Is(err, errWriteTimeout):
		p.fail(&StartError{Name: p.cmd.Name, Err: err, Reason: fmt.Sprintf(
			"did not answer %s within %s; check that the command is an MCP server, or give it more time", p.opener(), p.o.StartTimeout)})
	default: // it is ending; the supervisor knows better why
		select {
		case <-s.replaced:
			return nil
		case <-p.ended:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if p.Err() == nil { // by Close
			return err
		}
	}
	p.close()
	return p.Err()
}

// opener is the request that decides about a first handshake.
func (p *Process) opener() string {
	if p.o.Era == EraModern {
		return methodDiscover
	}
	return methodInitialize
}

// exitedEarly says how a process ended that has never worked.
func (p *Process) exitedEarly(s *life) *StartError {
	_, err := s.fate()
	p.mu.Lock()
	stage := "it answered " + p.opener()
	if p.params != nil {
		stage = "the handshake was complete"
	}
	p.mu.Unlock()
	return &StartError{Name: p.cmd.Name, Err: err, Reason: fmt.Sprintf("%v before %s%s", err, stage, s.lastWords())}
}

// respawn starts the command again, as often as it takes. It returns nil when
// Close is called meanwhile.
func (p *Process) respawn(pause *backoff, lived time.Duration, err error) *life {
	for {
		wait := pause.next(lived)
		p.o.Observer.exited(err, wait)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-p.life.Done():
			timer.Stop()
			return nil
		}
		var c *child
		if c, err = spawn(p.cmd); err == nil {
			return newSession(p, c)
		}
		lived = 0
	}
}

// A backoff spaces restarts out.
type backoff struct {
	o     Options
	delay time.Duration
}

// next returns how long to wait after a process that lived for so long: between
// half and all of a delay that doubles, so that many servers which died together
// do not start together.
func (b *backoff) next(lived time.Duration) time.Duration {
	if b.delay = min(2*b.delay, b.o.BackoffMax); b.delay == 0 || lived >= b.o.BackoffReset {
		b.delay = b.o.BackoffMin
	}
	return b.delay/2 + rand.N(b.delay/2+1)
}
