// Package upstream speaks with one MCP server: with a child process over its
// standard input and output, or with an URL over streamable HTTP. It sends each
// request once: nothing here ever sends anything again, and every error says
// whether bytes have left.
//
// A Server is what its callers know of it, over all its connections: a Process
// is started here and restarted, a Remote is somewhere else. A Session is one
// connection, a Call is one request on it. What an answer, or the want of one,
// proves about the execution of a tool is said by Judgement.
package upstream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// A Command says how to start a server.
type Command struct {
	Name string   // for errors
	Path string   // a path, or a name to be found on the PATH of Env
	Args []string // without the program's own name
	Env  []string // the complete environment; nothing is inherited beside it
	Dir  string   // working folder; empty for ours
}

// Options are the limits of a server and who is told about it. Each zero value
// stands for the default in brackets.
type Options struct {
	StartTimeout    time.Duration // from the first request of the handshake to its end [30 s]
	Grace           time.Duration // from the end of input to SIGTERM, and from there to SIGKILL; to end the session of a Remote [2 s]
	BackoffMin      time.Duration // before the first restart or reconnection; doubled for each further one [100 ms]
	BackoffMax      time.Duration // the most that is waited before a restart [30 s]
	BackoffReset    time.Duration // a process that lived this long starts the backoff anew [60 s]
	MaxMessageBytes int           // the longest message that is read [64 MiB]

	// WriteTimeout is how long the server may take to read one message [30 s].
	// A message that has not begun by then is not sent. One that has begun ends
	// the session by force, but not while another call is open: some servers
	// run their tools on the loop that reads, and must not be killed in the
	// middle of an effect. It is then given another WriteTimeout, and another,
	// until no other call has been open for all of the last one.
	WriteTimeout time.Duration

	// Era is how the protocol is spoken [EraAuto]. Known is what was found
	// earlier: EraAuto tries it first. A Process that is not known costs EraAuto
	// 500 ms where it neither answers server/discover nor refuses it, and a second
	// start where it ends at that.
	Era, Known Era
	// IdleAfter is how long the session of a Remote may have been idle without
	// being looked after before it is used [60 s].
	IdleAfter time.Duration

	Handler  Handler // nil: requests are refused, notifications dropped
	Observer Observer
}

// DefaultStartTimeout is how long a server may take for a handshake.
const DefaultStartTimeout = 30 * time.Second

func (o Options) withDefaults() Options {
	for _, d := range []struct {
		value *time.Duration
		other time.Duration
	}{
		{&o.StartTimeout, DefaultStartTimeout}, {&o.Grace, 2 * time.Second}, {&o.WriteTimeout, 30 * time.Second},
		{&o.BackoffMin, 100 * time.Millisecond}, {&o.BackoffMax, 30 * time.Second}, {&o.BackoffReset, time.Minute},
		{&o.IdleAfter, time.Minute},
	} {
		if *d.value == 0 {
			*d.value = d.other
		}
	}
	if o.MaxMessageBytes == 0 {
		o.MaxMessageBytes = 64 << 20
	}
	return o
}

// A Process is a server that is kept running. It is safe for concurrent use.
type Process struct {
	cmd    Command
	o      Options
	ids    atomic.Int64
	proved atomic.Bool // it has once worked, and is restarted for ever

	life   context.Context // ends when Close begins
	close  context.CancelFunc
	hurry  chan struct{} // closed when Close may not wait any longer
	failed chan struct{} // closed when err is set
	ended  chan struct{} // closed when the supervisor has returned

	mu          sync.Mutex
	changed     chan struct{} // closed and replaced at each change of what follows
	session     *life         // nil between two lives
	greeted     bool          // the session's handshake is complete
	params      []byte        // of the client's initialize, once answered with a result
	initialized *jsonrpc.Message
	era         Era   // that is tried first
	found       Era   // that the Observer knows of
	err         error // why it failed for good
}

// Start starts the command and keeps it running until Close. Its error is a
// *StartError.
func Start(cmd Command, o Options) (*Process, error) {
	first, err := spawn(cmd)
	if err != nil {
		return nil, err
	}
	p := &Process{
		cmd: cmd, o: o.withDefaults(), hurry: make(chan struct{}),
		failed: make(chan struct{}), ended: make(chan struct{}), changed: make(chan struct{}),
		era: o.Known, found: o.Known,
	}
	p.life, p.close = context.WithCancel(context.Background())
	p.session = newSession(p, first)
	go p.supervise(p.session)
	return p, nil
}

// Initialize makes the handshake in the era of the server, with the params of a
// client's initialize, and returns the response as the legacy era has it, a result
// or an error, whose id the caller replaces by the client's. With the params of a
// request that was answered with a result the handshake is made again after each
// restart.
//
// A first handshake that gets no answer within StartTimeout, or one that is no
// handshake, fails the Process for good. Other errors are a *NotSent, a
// *LostError, an *UnreachableError, and the cause of ctx.
func (p *Process) Initialize(ctx context.Context, params []byte) (jsonrpc.Message, error) {
	for {
		s, err := p.await(ctx, func() bool { return true })
		if err != nil {
			return jsonrpc.Message{}, err
		}
		limit, cancel := context.WithTimeoutCause(ctx, p.o.StartTimeout, errNoAnswer)
		m, err := s.shake(limit, params)
		cancel()
		if err == nil {
			return m, nil
		}
		if err = p.firstFailure(ctx, s, err); err != nil {
			return m, err
		}
	}
}

// remember keeps the params of a handshake, and its era, for restarts. With the
// first one begins the wait for its end. It is called before the answer is
// delivered, so that whoever has the answer, or sees the session end, finds it done.
func (p *Process) remember(s *life, o *opening) {
	p.mu.Lock()
	if p.params == nil && p.session == s {
		p.greeted = false
	}
	found := p.found != o.era() && (o.era() == EraModern || ofModernClient(o.params)) // else the other was not tried
	p.params, p.era = o.params, o.era()
	if found {
		p.found = o.era()
	}
	p.change()
	p.mu.Unlock()
	if found {
		p.o.Observer.eraFound(o.era())
	}
}

// Initialized hands on the client's notifications/initialized, which completes
// the handshake, where the server's era has it. It is sent again after each restart.
func (p *Process) Initialized(m jsonrpc.Message) error {
	p.mu.Lock()
	s := p.session
	p.initialized = &m
	p.mu.Unlock()
	if s == nil {
		return nil // a restart is under way, and completes the handshake itself
	}
	if err := s.Notify(m); err != nil {
		return err
	}
	p.proved.Store(true)
	p.greet(s)
	return nil
}

// Proceed says that the client goes on although it has not sent
// notifications/initialized. The handshake counts as complete, and nothing is
// sent; after each restart it is repeated without that notification, unless
// Initialized is called after all. Proceed does nothing before initialize has
// been answered with a result.
func (p *Process) Proceed() {
	p.mu.Lock()
	s := p.session
	if p.params == nil {
		p.mu.Unlock()
		return
	}
	p.proved.Store(true)
	p.mu.Unlock()
	if s != nil {
		p.greet(s)
	}
}

// Ready returns a session that lives and whose handshake is complete, or which
// merely lives if no client has begun one. It waits for it through restarts.
//
// Its error is an *UnreachableError: the context ended first, or the Process
// failed for good or was closed.
func (p *Process) Ready(ctx context.Context) (Session, error) {
	s, err := p.await(ctx, func() bool { return p.greeted || p.params == nil })
	if err != nil {
		return nil, err
	}
	return s, nil
}

// await waits for a session that lives and for the condition, which is asked
// under the lock.
func (p *Process) await(ctx context.Context, condition func() bool) (*life, error) {
	for {
		p.mu.Lock()
		s, err, changed := p.session, p.err, p.changed
		usable := s != nil && s.alive() && condition()
		p.mu.Unlock()
		switch {
		case err != nil:
			return nil, &UnreachableError{Name: p.cmd.Name, Err: err}
		case p.life.Err() != nil:
			return nil, &UnreachableError{Name: p.cmd.Name, Err: errClosed}
		case usable:
			return s, nil
		}
		select {
		case <-changed:
		case <-p.life.Done():
		case <-ctx.Done():
			return nil, &UnreachableError{Name: p.cmd.Name, Err: context.Cause(ctx)}
		}
	}
}

// Failed is closed when the first start has failed for good; Err then says why.
// A server that has once worked never fails for good, it is restarted.
func (p *Process) Failed() <-chan struct{} { return p.failed }

// Err returns the *StartError of a Process that has failed for good, else nil.
func (p *Process) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Close ends the server: end of input, after Grace SIGTERM, after another Grace
// SIGKILL, the latter two to its whole process group. It returns when the
// process has been reaped and nothing of it is left; when ctx ends it does not
// wait for the graces, but for less than half a second between SIGTERM and
// SIGKILL. What was open is lost.
//
// Its error is the cause of a ctx that ended before. It may be called again.
func (p *Process) Close(ctx context.Context) error {
	p.close()
	select {
	case <-p.ended:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	if !isClosed(p.hurry) {
		close(p.hurry)
	}
	p.mu.Unlock()
	<-p.ended
	return fmt.Errorf("upstream %q did not end in time and was ended by a signal: %w", p.cmd.Name, context.Cause(ctx))
}

// change wakes those who await something. The caller holds the lock.
func (p *Process) change() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// greet marks the handshake of s as complete, if s is still the session.
func (p *Process) greet(s *life) {
	p.mu.Lock()
	ours := p.session == s
	if ours {
		p.greeted = true
		p.change()
	}
	p.mu.Unlock()
	if ours {
		s.listen()
	}
}

// fail gives the Process up, unless it has been already.
func (p *Process) fail(err *StartError) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
		close(p.failed)
		p.change()
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// isHandshake reports whether m answers the request that begins a handshake.
func isHandshake(m jsonrpc.Message) bool {
	if m.Result != nil {
		_, err := rawjson.ParseObject(m.Result)
		return err == nil
	}
	_, ok := jsonrpc.ParseError(m.Error)
	return ok
}

var errNoAnswer = errors.New("it did not answer initialize in time")
