package upstream

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

// A Remote is a server behind a URL, which is spoken with over streamable HTTP, in
// either era of the protocol, or over the HTTP+SSE transport of revision
// 2024-11-05. Its sessions are begun anew when they are lost. It is safe for
// concurrent use.
type Remote struct {
	to       Endpoint
	o        Options
	wire     *wire
	ids      atomic.Int64
	bindings paramBindings
	handing  sync.Mutex    // held while the Handler is called
	shaking  chan struct{} // held by who makes a handshake

	life   context.Context // ends in the middle of Close
	close  context.CancelFunc
	closed sync.Once
	failed chan struct{} // closed when err is set
	loops  sync.WaitGroup

	mu          sync.Mutex
	changed     chan struct{} // closed and replaced at each change of what follows
	session     *link         // nil between two of them
	greeted     bool          // the session's handshake is complete
	params      []byte        // of the client's initialize, once answered with a result
	initialized *jsonrpc.Message
	era         Era   // in which the last handshake was made, or what Options.Known says
	trouble     error // why there is no session
	err         error // why it failed for good
	closing     bool
}

// Dial returns the server at the endpoint. Nothing is sent before Initialize. Its
// error is a *StartError about the URL.
func Dial(to Endpoint, o Options) (*Remote, error) {
	w, err := newWire(to)
	if err != nil {
		return nil, err
	}
	r := &Remote{
		to: to, o: o.withDefaults(), wire: w, era: o.Known,
		shaking: make(chan struct{}, 1), failed: make(chan struct{}), changed: make(chan struct{}),
	}
	r.life, r.close = context.WithCancel(context.Background())
	r.session = r.newLink(nil)
	r.session.first = true
	return r, nil
}

// spawn runs f in a goroutine that Close waits for, unless Close has begun.
func (r *Remote) spawn(f func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing {
		return false
	}
	r.loops.Go(f)
	return true
}

// Initialize makes the handshake in the era of the server, with the params of a
// client's initialize, and returns the response as the legacy era has it, a
// result or an error, whose id the caller replaces by the client's. The params
// of a request that was answered with a result serve for later sessions too.
//
// A first handshake that fails, or gets no answer within StartTimeout, fails the
// Remote for good. Other errors are a *NotSent, a *LostError, an
// *UnreachableError, and the cause of ctx.
func (r *Remote) Initialize(ctx context.Context, params []byte) (jsonrpc.Message, error) {
	if _, err := r.await(ctx, func() bool { return true }); err != nil {
		return jsonrpc.Message{}, err
	}
	limit, cancel := context.WithTimeoutCause(ctx, r.o.StartTimeout, errNoAnswer)
	defer cancel()
	params = append([]byte{}, params...) // never nil
	s, m, err := r.shake(limit, params)
	if err != nil {
		return m, r.firstFailure(ctx, err)
	}
	if s != nil {
		r.publish(s, params, false)
		r.spawn(func() { r.watch(s) })
	}
	return m, nil
}

// Initialized hands on the client's notifications/initialized, where the server's
// era has it. Ready waits until the server has taken it.
func (r *Remote) Initialized(m jsonrpc.Message) error {
	r.mu.Lock()
	s := r.session
	r.initialized = &m
	r.mu.Unlock()
	switch {
	case s == nil:
		return nil // a new session is on its way, and is told so
	case s.modern != nil:
		r.greet(s)
		return nil
	}
	return s.mail(letter{m: m, sent: func(error) { r.greet(s) }})
}

// Proceed says that the client goes on although it has not sent
// notifications/initialized. Before initialize has been answered with a result it
// does nothing.
func (r *Remote) Proceed() {
	r.mu.Lock()
	s := r.session
	if r.params == nil || s == nil {
		r.mu.Unlock()
		return
	}
	r.mu.Unlock()
	r.greet(s)
}

// Ready returns a session whose handshake is complete, or one without any if no
// client has begun one. A session that has been idle for IdleAfter, or on which
// a connection broke, is looked after first. It waits through outages.
//
// Its error is an *UnreachableError: the context ended first, or the Remote failed
// for good or was closed.
func (r *Remote) Ready(ctx context.Context) (Session, error) {
	for {
		s, err := r.await(ctx, func() bool { return r.greeted || r.params == nil })
		if err != nil {
			return nil, err
		}
		if s.sure() {
			return s, nil
		}
		if err := s.probe(ctx); err == nil {
			return s, nil
		}
	}
}

// await waits for a session on which something can be sent, and for the condition,
// which is asked under the lock.
func (r *Remote) await(ctx context.Context, condition func() bool) (*link, error) {
	for {
		r.mu.Lock()
		s, err, changed := r.session, r.err, r.changed
		usable := s != nil && s.alive() && condition()
		if r.closing && err == nil {
			err = errClosed
		}
		r.mu.Unlock()
		switch {
		case err != nil:
			return nil, &UnreachableError{Name: r.to.Name, Err: err}
		case ctx.Err() != nil:
			return nil, &UnreachableError{Name: r.to.Name, Err: r.because(context.Cause(ctx))}
		case usable:
			return s, nil
		}
		select {
		case <-changed: // also when a session ends: it is then taken away
		case <-ctx.Done():
		}
	}
}

// because adds to an error why there is no session, where there is none.
func (r *Remote) because(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.trouble == nil {
		return err
	}
	return fmt.Errorf("%w: %w", err, r.trouble)
}

// publish makes a link the session.
func (r *Remote) publish(s *link, params []byte, greeted bool) {
	era := EraLegacy
	if s.modern != nil {
		era = EraModern
	}
	r.mu.Lock()
	old, found := r.session, r.era != era && (era == EraModern || ofModernClient(params)) // else the other was not tried
	r.session, r.params, r.era, r.trouble = s, params, era, nil
	r.greeted = greeted
	r.change()
	r.mu.Unlock()
	if old != nil {
		old.retire()
	}
	if found {
		r.o.Observer.eraFound(era)
	}
	if greeted {
		s.listen()
	}
}

// greet marks the handshake of s as complete, if s is still the session.
func (r *Remote) greet(s *link) {
	r.mu.Lock()
	ours := r.session == s && r.params != nil
	if ours {
		r.greeted = true
		r.change()
	}
	r.mu.Unlock()
	if ours {
		s.listen()
	}
}

// change wakes those who await something. The caller holds the lock.
func (r *Remote) change() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// Failed is closed when the first handshake has failed for good; Err then says
// why. A server that has once worked never fails for good.
func (r *Remote) Failed() <-chan struct{} { return r.failed }

// Err returns the *StartError of a Remote that has failed for good, else nil.
func (r *Remote) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Close ends the session at the server, for which it takes no longer than Grace
// and ctx allow, and all connections. What is open is lost. When it returns
// nothing is left here. Its error is the cause of a ctx that ended before. It may
// be called again.
func (r *Remote) Close(ctx context.Context) error {
	r.closed.Do(func() {
		r.mu.Lock()
		r.closing = true
		s := r.session
		r.change()
		r.mu.Unlock()
		if s != nil {
			s.end(errClosed)
			s.farewell(ctx)
		}
		r.close()
		r.loops.Wait()
		r.wire.transport.CloseIdleConnections()
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
