package upstream

import (
	"context"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

// How long a process may leave server/discover unanswered before it is asked
// initialize as well. A legacy server may ignore a method that it does not know; one
// that was modern the last time is more likely to be slow.
const (
	probeFor      = 500 * time.Millisecond
	probeAgainFor = maxDiscover
)

// An opening is a request that begins a handshake.
type opening struct {
	params  []byte   // of the client's initialize
	dialect *dialect // that is spoken if this is the one; nil for the request initialize
}

func (o *opening) era() Era {
	if o.dialect != nil {
		return EraModern
	}
	return EraLegacy
}

// makes reports whether the answer makes a handshake of the opening.
func (o *opening) makes(answer jsonrpc.Message) bool {
	switch {
	case answer.Result == nil:
		return false
	case o.dialect == nil:
		return isHandshake(answer)
	}
	d, err := discovered(answer)
	if err == nil {
		o.dialect.filter = d.changes()
	}
	return err == nil
}

// shake makes a handshake, in the first era that the server knows, and returns the
// answer as initialize has it. Where no era makes one, the server's word on
// initialize counts.
//
// A server may be so slow to start that it cannot be told from one that ignores
// server/discover. It is then asked both, and its first good answer decides. There
// are servers that take any first request but initialize for a breach of the
// protocol, and end; what Process remembers then is the legacy era.
func (s *life) shake(ctx context.Context, params []byte) (jsonrpc.Message, error) {
	params = append([]byte{}, params...) // never nil
	eras := s.eras(params)
	last := len(eras) == 1
	switch {
	case eras[0] == EraModern && last:
		return s.discover(ctx, params)
	case eras[0] == EraModern:
		return s.discoverOrInitialize(ctx, params)
	}
	m, err := s.initialize(ctx, params)
	if last || err != nil || m.Result != nil {
		return m, err
	}
	limit, cancel := context.WithTimeoutCause(ctx, probeFor, errNoDiscovery)
	defer cancel()
	if found, err := s.discover(limit, params); err == nil && found.Result != nil {
		return found, nil
	}
	return m, nil
}

// eras returns those to be tried, in this order: once a handshake is made, the
// process has its era.
func (s *life) eras(params []byte) []Era {
	if era := s.era(); era != EraAuto {
		return []Era{era}
	}
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	return s.p.o.Era.order(s.p.era, s.p.params != nil, params)
}

// era returns the one of the process, EraAuto before a handshake.
func (s *life) era() Era {
	if o := s.opened.Load(); o != nil {
		return o.era()
	}
	return EraAuto
}

// modern returns how the process is spoken with in the modern era, or nil.
func (s *life) modern() *dialect {
	if o := s.opened.Load(); o != nil {
		return o.dialect
	}
	return nil
}

// initialize makes the handshake of the legacy era. A context that ends takes the
// call with it.
func (s *life) initialize(ctx context.Context, params []byte) (jsonrpc.Message, error) {
	call, err := s.sendInitialize(ctx, params)
	if err != nil {
		return jsonrpc.Message{}, err
	}
	defer call.Forget()
	return s.answerTo(ctx, call)
}

// discover makes the one of the modern era. There is nothing to be agreed upon but
// the version, for which it asks a second time at most.
func (s *life) discover(ctx context.Context, params []byte) (jsonrpc.Message, error) {
	version := mcp.LATEST_PROTOCOL_VERSION
	for again := true; ; again = false {
		call, err := s.sendDiscover(ctx, version, params)
		if err != nil {
			return jsonrpc.Message{}, err
		}
		m, err := s.answerTo(ctx, call)
		call.Forget()
		refusal, _ := jsonrpc.ParseError(m.Error)
		if refusal == nil || !again {
			return m, err
		}
		other, ok := otherVersion(refusal, version)
		if !ok {
			return m, err
		}
		version = other
	}
}

// discoverOrInitialize asks server/discover, and after a refusal, or without an
// answer in time, initialize.
func (s *life) discoverOrInitialize(ctx context.Context, params []byte) (jsonrpc.Message, error) {
	probe, err := s.sendDiscover(ctx, mcp.LATEST_PROTOCOL_VERSION, params)
	if err != nil {
		return jsonrpc.Message{}, err
	}
	defer probe.Forget()
	limit, cancel := context.WithTimeoutCause(ctx, s.p.patience(), errNoDiscovery)
	defer cancel()
	m, err := s.answerTo(limit, probe)
	switch refusal, _ := jsonrpc.ParseError(m.Error); {
	case s.era() == EraModern, ctx.Err() != nil:
		return m, err
	case isClosed(s.done):
		return m, err
	case refusal != nil:
		if _, ok := otherVersion(refusal, mcp.LATEST_PROTOCOL_VERSION); ok {
			return s.discover(ctx, params)
		}
	}
	call, err := s.sendInitialize(ctx, params)
	if err != nil {
		return jsonrpc.Message{}, err
	}
	defer call.Forget()
	return s.either(ctx, call, probe)
}

// either waits for the answer to initialize, or for one to server/discover that
// makes a handshake before.
func (s *life) either(ctx context.Context, initialize, discover *Call) (jsonrpc.Message, error) {
	select {
	case <-discover.settled:
		if s.era() == EraModern {
			return s.answerTo(ctx, discover)
		}
		return s.answerTo(ctx, initialize)
	case <-initialize.settled:
	case <-ctx.Done():
		return jsonrpc.Message{}, context.Cause(ctx)
	}
	if s.era() == EraAuto && !isClosed(s.done) { // refused; a server that answers out of turn may still be at the other one
		limit, cancel := context.WithTimeoutCause(ctx, probeFor, errNoDiscovery)
		defer cancel()
		_, _ = discover.Wait(limit) // what became of it is asked below
	}
	if s.era() == EraModern {
		return s.answerTo(ctx, discover)
	}
	return s.answerTo(ctx, initialize)
}

// answerTo waits for the answer to an opening, and returns it as initialize has it.
func (s *life) answerTo(ctx context.Context, call *Call) (jsonrpc.Message, error) {
	m, err := call.Wait(ctx)
	switch {
	case err != nil:
		return m, err
	case !isHandshake(m):
		return m, errNoHandshake
	case call.opens.dialect == nil || m.Result == nil:
		return m, nil
	}
	d, err := discovered(m)
	if err != nil {
		return m, err
	}
	return jsonrpc.Result(m.ID, d.initializeResult(call.opens.params, s.p.cmd.Name)), nil
}

func (s *life) newOpening(o *opening) *Call {
	c := s.newCall([]byte("0"), nil)
	c.opens = o
	return c
}

func (s *life) sendInitialize(ctx context.Context, params []byte) (*Call, error) {
	m := jsonrpc.Request([]byte("0"), methodInitialize, legacyParams(params))
	return s.send(ctx, m, s.newOpening(&opening{params: params}))
}

func (s *life) sendDiscover(ctx context.Context, version string, params []byte) (*Call, error) {
	s.probed.Store(true)
	d := newDialect(version, params)
	m, _ := d.request(jsonrpc.Request([]byte("0"), methodDiscover, nil))
	return s.send(ctx, m, s.newOpening(&opening{params: params, dialect: d}))
}

// fled reports whether the process may have ended because of server/discover: it was
// asked that, and has never answered anything.
func (s *life) fled() bool { return s.probed.Load() && !s.heard.Load() }

// openedBy takes the answer to an opening. The first that makes a handshake counts,
// and after it those of the same era.
func (s *life) openedBy(o *opening, answer jsonrpc.Message) {
	s.heard.Store(true)
	if era := s.era(); (era == EraAuto || era == o.era()) && o.makes(answer) {
		s.opened.Store(o)
		s.p.remember(s, o)
	}
}

// patience is how long server/discover may stay unanswered before initialize is
// tried, too.
func (p *Process) patience() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.era == EraModern {
		return min(probeAgainFor, p.o.StartTimeout/2)
	}
	return min(probeFor, p.o.StartTimeout/2)
}

// shun has initialize tried first from now on where the process may have ended
// because of server/discover, and reports whether that makes a difference.
func (p *Process) shun(s *life) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.o.Era == EraModern || p.era == EraLegacy || !s.fled() {
		return false
	}
	p.era = EraLegacy
	return true
}

// secondChance starts the command again that has ended at the question for its era.
// It returns nil where it has not, or cannot be started.
func (p *Process) secondChance(s *life) *life {
	if !p.shun(s) {
		return nil
	}
	c, err := spawn(p.cmd)
	if err != nil {
		return nil
	}
	next := newSession(p, c)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.session = next
	p.change()
	close(s.replaced)
	return next
}
