package upstream

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

// A Dialer makes a server of its own with each call. The server need not be there yet
// to be spoken to; see Server. It is safe for concurrent use.
type Dialer func(Options) (Server, error)

// A Persistent is a server that need not work at its first start: what has failed
// for good is dialled again, after pauses like those before restarts. It is safe for
// concurrent use.
type Persistent struct {
	name       string
	dial       Dialer
	o          Options // as the Dialer gets them
	introduced func(result []byte)

	life  context.Context // ends when Close begins
	close context.CancelFunc
	haste context.Context // ends when Close may not wait any longer
	hurry context.CancelFunc
	ended chan struct{} // closed when the supervisor has returned

	mu          sync.Mutex
	came        chan struct{} // closed and replaced when a server comes
	server      Server        // nil unless its handshake was answered with a result
	params      []byte        // of the newest initialize
	initialized *jsonrpc.Message
	proceeds    bool
	tried       *attempt // the last one, nil before Initialize
	trouble     error    // why there is no server
}

// An attempt is one start of a server, from the dial to the end of its handshake.
type attempt struct {
	waiting int           // how many calls of Initialize return what comes of it
	settled chan struct{} // closed when what follows is set
	answer  jsonrpc.Message
	err     error

	initialized *jsonrpc.Message // what was known of the client when the server came
	proceeds    bool
}

// Persist returns the server that dial makes, under the name that errors give it.
// Nothing is dialled before Initialize. Each dial is given o, whose Observer is told
// of starts that fail, and of the one after them that works, as of restarts.
//
// introduced, if not nil, is called with the result of each handshake that no call
// of Initialize returns, before Observer.Restarted is. By then the server has been
// told what Initialized or Proceed had been; where that was nothing, no session is
// ready before one of them is called, which introduced may do. It must not block,
// and must not call Close.
func Persist(name string, dial Dialer, o Options, introduced func(result []byte)) *Persistent {
	p := &Persistent{
		name: name, dial: dial, o: o, introduced: introduced,
		ended: make(chan struct{}), came: make(chan struct{}),
	}
	p.life, p.close = context.WithCancel(context.Background())
	p.haste, p.hurry = context.WithCancel(context.Background())
	return p
}

// Initialize makes the handshake with the server, if it is there. While it is being
// started, Initialize returns what comes of that, be it with the params of another
// call, and between two starts how the last one has failed. The first call begins
// the first start. The params serve for later starts, unless a server that is there
// has refused them.
//
// A start that is answered with an error has failed, too. One that takes longer than
// ctx goes on. The error is that of the Dialer or of its server, as it is, or an
// *UnreachableError: the context ended first, or the Persistent was closed.
func (p *Persistent) Initialize(ctx context.Context, params []byte) (jsonrpc.Message, error) {
	params = append([]byte{}, params...) // never nil
	a, server, err := p.join(params)
	switch {
	case err != nil:
		return jsonrpc.Message{}, err
	case server != nil:
		return p.initializeAgain(ctx, server, params)
	}
	select {
	case <-a.settled:
	case <-ctx.Done():
		if p.leave(a) {
			return jsonrpc.Message{}, p.late(ctx)
		}
	}
	return a.answer, a.err
}

// join returns the server if it is there, or the attempt of which the caller returns
// what comes of it.
func (p *Persistent) join(params []byte) (*attempt, Server, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.life.Err() != nil:
		return nil, nil, p.closed()
	case p.server != nil:
		return nil, p.server, nil
	}
	p.params = params
	switch {
	case p.tried == nil:
		p.tried = &attempt{settled: make(chan struct{})}
		go p.supervise(p.tried)
	case p.tried.answer.Result != nil: // it worked, and what it made has failed since
		return nil, nil, p.trouble
	}
	p.tried.waiting++
	return p.tried, nil, nil
}

// leave reports whether the attempt has still been without outcome; then the caller
// does not return it. Who is counted returns it in any case, so that each handshake
// is told either to a caller or to introduced.
func (p *Persistent) leave(a *attempt) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if isClosed(a.settled) {
		return false
	}
	a.waiting--
	return true
}

func (p *Persistent) initializeAgain(ctx context.Context, server Server, params []byte) (jsonrpc.Message, error) {
	m, err := server.Initialize(ctx, params)
	if err == nil && m.Result != nil {
		p.mu.Lock()
		p.params = params
		p.mu.Unlock()
	}
	return m, err
}

// Initialized hands on the client's notifications/initialized, which completes the
// handshake. It is sent again after each later start.
func (p *Persistent) Initialized(m jsonrpc.Message) error {
	p.mu.Lock()
	p.initialized = &m
	server := p.server
	p.mu.Unlock()
	if server == nil {
		return nil // the next one is told when it comes
	}
	return server.Initialized(m)
}

// Proceed says that the client goes on although it has not sent
// notifications/initialized. It holds for later starts, too, unless Initialized is
// called after all. Before the first Initialize it does nothing.
func (p *Persistent) Proceed() {
	p.mu.Lock()
	p.proceeds = p.tried != nil
	server := p.server
	p.mu.Unlock()
	if server != nil {
		server.Proceed()
	}
}

// Ready returns a session whose handshake is complete. It waits for one, through
// starts that fail, and before Initialize. Its error is an *UnreachableError: the
// context ended first, and why there was no server then, or the Persistent was closed.
func (p *Persistent) Ready(ctx context.Context) (Session, error) {
	for {
		p.mu.Lock()
		server, came := p.server, p.came
		p.mu.Unlock()
		if server != nil {
			if s, err := server.Ready(ctx); err == nil || ctx.Err() != nil {
				return s, err
			}
		}
		select {
		case <-came: // another, where this one has failed
		case <-p.life.Done():
			return nil, p.closed()
		case <-ctx.Done():
			return nil, p.late(ctx)
		}
	}
}

func (p *Persistent) closed() error { return &UnreachableError{Name: p.name, Err: errClosed} }

// late is the error of who could not wait any longer. It says why there is no server.
func (p *Persistent) late(ctx context.Context) error {
	err := context.Cause(ctx)
	if trouble := p.Trouble(); trouble != nil {
		err = fmt.Errorf("%w: %w", err, trouble)
	}
	return &UnreachableError{Name: p.name, Err: err}
}

// Trouble returns why the last start has failed, or what it made has since. It is nil
// before the end of the first start, and while there is a server, even if that is
// just restarting itself.
func (p *Persistent) Trouble() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.trouble
}

// Failed returns nil, which is never closed: no failure is for good.
func (p *Persistent) Failed() <-chan struct{} { return nil }

// Err returns nil. See Trouble.
func (p *Persistent) Err() error { return nil }

// Close ends the server, or the start of one, which get no more time when ctx ends.
// What was open is lost. When it returns nothing is left, and nobody is told anything
// any more. Its error is the cause of a ctx that ended before. It may be called again.
func (p *Persistent) Close(ctx context.Context) error {
	p.mu.Lock()
	p.close()
	if p.tried == nil && !isClosed(p.ended) { // there is no supervisor, and never will be
		close(p.ended)
	}
	p.mu.Unlock()
	select {
	case <-p.ended:
		return nil
	case <-ctx.Done():
	}
	p.hurry()
	<-p.ended
	return fmt.Errorf("upstream %q did not end in time: %w", p.name, context.Cause(ctx))
}

// supervise makes one attempt after the other, and sees each through, until Close.
func (p *Persistent) supervise(a *attempt) {
	defer close(p.ended)
	pause := backoff{o: p.o.withDefaults()}
	for again := false; ; again = true {
		lived, err := p.see(a, again)
		if p.life.Err() != nil {
			return
		}
		wait := pause.next(lived)
		p.o.Observer.exited(err, wait)
		if !sleep(p.life, wait) {
			return
		}
		a = &attempt{settled: make(chan struct{})}
		p.mu.Lock()
		p.tried = a
		p.mu.Unlock()
	}
}

// see makes an attempt, and sees its server through. When it returns, nothing of that
// is left. It says how long the server has worked, and why it does not any more.
func (p *Persistent) see(a *attempt, again bool) (lived time.Duration, err error) {
	server, err := p.dial(p.o)
	if err != nil {
		return 0, p.settle(a, nil, jsonrpc.Message{}, err)
	}
	defer p.end(server)
	p.mu.Lock()
	params := p.params
	p.mu.Unlock()
	m, err := server.Initialize(p.life, params)
	if err := p.settle(a, server, m, err); err != nil {
		return 0, err
	}
	born := time.Now()
	p.present(a, server, again)
	select {
	case <-server.Failed():
	case <-p.life.Done():
	}
	err = server.Err()
	p.mu.Lock()
	p.server, p.trouble = nil, err
	p.mu.Unlock()
	return time.Since(born), err
}

// settle tells those who wait what has come of an attempt, and returns why it has
// failed. If it has not, the server is there for all.
func (p *Persistent) settle(a *attempt, server Server, m jsonrpc.Message, err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life.Err() != nil {
		m, err = jsonrpc.Message{}, p.closed()
	}
	a.answer, a.err = m, err
	if p.trouble = err; err == nil && m.Result == nil {
		p.trouble = p.refusal(m)
	}
	if p.trouble == nil {
		p.server, a.initialized, a.proceeds = server, p.initialized, p.proceeds
		close(p.came)
		p.came = make(chan struct{})
	}
	close(a.settled)
	return p.trouble
}

// refusal is the failure of a handshake that was answered with an error.
func (p *Persistent) refusal(m jsonrpc.Message) error {
	refused, ok := jsonrpc.ParseError(m.Error)
	if !ok {
		return &StartError{Name: p.name, Reason: errNoHandshake.Error(), Err: errNoHandshake}
	}
	return &StartError{Name: p.name, Reason: "refused the handshake: " + refused.Error(), Err: refused}
}

// present completes the handshake of a server that has come, and tells of it. Where a
// caller has the result of a first start, there is nothing to be told.
func (p *Persistent) present(a *attempt, server Server, again bool) {
	switch {
	case a.initialized != nil:
		_ = server.Initialized(*a.initialized) // its session may be over, which Ready or Failed says as well
	case a.proceeds:
		server.Proceed()
	}
	heard := a.waiting > 0 // which nobody changes any more
	if heard && !again {
		return
	}
	if !heard && p.introduced != nil {
		p.introduced(a.answer.Result)
	}
	if s, err := server.Ready(p.life); err == nil {
		p.o.Observer.restarted(s)
	}
}

// end closes a server, and waits no longer than its graces, nor than Close can.
func (p *Persistent) end(server Server) {
	ctx, cancel := context.WithTimeout(p.haste, 2*p.o.withDefaults().Grace)
	defer cancel()
	_ = server.Close(ctx) // its error is that of the context, and nothing is left in any case
}
