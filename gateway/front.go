package gateway

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
	"github.com/mcp-idem/mcp-idem/upstream"
)

// A Front shows several upstreams to clients as one server. Each has a Gateway of its
// own, by which its calls are guarded; the front finds out which of them a request
// concerns, and puts together what concerns all. Tools and prompts are offered as
// NAME__tool. An upstream that is down or slow delays the others only while it is
// tried for the first time; its tools appear when it comes. It is safe for concurrent
// use.
type Front struct {
	version  string
	log      zerolog.Logger
	ledger   *dedup.Ledger
	tasks    *tasks // that the gateways share
	drainFor time.Duration

	life    context.Context // ends with the last call
	end     context.CancelFunc
	taking  context.Context // ends when late answers are listened for no more
	noMore  context.CancelFunc
	where   directory
	handles handles
	parting sync.WaitGroup // upstreams that were taken away

	replacing sync.Mutex
	connect   func(*member) // makes the way to a new upstream; nil before there is a client
	waiting   []Options     // of Replace before that

	mu        sync.Mutex
	members   []*member // in their order; never changed in place
	parties   map[*several]bool
	attendant map[*attendant]bool
}

// A member is one of the upstreams of a front.
type member struct {
	front *Front
	name  string // stands before what it offers
	g     *Gateway
	hub   *hub
	// host is what the one client meets that has the upstream for itself; nil where
	// clients share it.
	host host
	ours atomic.Bool // the handshake is the gateway's own

	first sync.Once     // of trying
	tried chan struct{} // closed when the first handshake has ended, well or not

	calls sync.WaitGroup // requests on their way; begun with the front's lock held

	mu    sync.Mutex
	lists map[string][][]byte // the last good ones, by method
	tools offeredTools
}

func newFront(ledger *dedup.Ledger, log zerolog.Logger, version string) *Front {
	f := &Front{
		version: version, log: log, ledger: ledger, tasks: &tasks{},
		parties: map[*several]bool{}, attendant: map[*attendant]bool{},
	}
	f.life, f.end = context.WithCancel(context.Background())
	f.taking, f.noMore = context.WithCancel(context.Background())
	return f
}

// newMember makes a member that is not connected yet.
func (f *Front) newMember(o Options) *member {
	m := &member{front: f, name: o.Name, tried: make(chan struct{}), lists: map[string][][]byte{}}
	dial := o.Dial
	o.Dial = func(u upstream.Options) (upstream.Server, error) {
		return upstream.Persist(o.Scope.Upstream, upstream.Dialer(dial), u, m.introduced), nil
	}
	m.g = New(f.ledger, o)
	m.g.tasks = f.tasks
	return m
}

// introduced takes the answer to a handshake that nobody has waited for.
func (m *member) introduced(result []byte) {
	if read, err := rawjson.ParseObject(result); err == nil {
		m.g.learn(read)
	}
	m.hub.adopt(result)
	if m.ours.Load() {
		_ = m.g.server.Initialized(jsonrpc.Notification("notifications/initialized", nil)) // one that is gone again is dialled again
	}
}

// isUp reports whether the member can be asked something, as far as one knows.
func (m *member) isUp() bool {
	select {
	case <-m.tried:
		return m.hub.welcomed() != nil && m.trouble() == nil
	default:
		return false
	}
}

// trouble says why a member is down, as far as one knows.
func (m *member) trouble() error {
	server := m.g.server
	if shared, ok := server.(common); ok {
		server = shared.current()
	}
	if p, ok := server.(*upstream.Persistent); ok {
		return p.Trouble()
	}
	return nil
}

// meet has the member tried, if it was not yet, and waits for the end of that.
func (m *member) meet(ctx context.Context) {
	m.try(func() {
		m.ours.Store(true)
		_, _ = m.hub.greeting(m.g.life) // it is in the log, and dialled again
	})
	select {
	case <-m.tried:
	case <-ctx.Done():
	}
}

// try makes the first handshake, once.
func (m *member) try(greet func()) {
	m.first.Do(func() {
		m.hub.work.Go(func() {
			defer close(m.tried)
			greet()
		})
	})
}

// declares is hub.declares.
func (m *member) declares(capability, inner string) bool { return m.hub.declares(capability, inner) }

// all are the members, in their order.
func (f *Front) all() []*member {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.members
}

// hold keeps members from being taken away until release is called.
func (f *Front) hold() (all []*member, release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	held := f.members
	for _, m := range held {
		m.calls.Add(1)
	}
	return held, func() {
		for _, m := range held {
			m.calls.Done()
		}
	}
}

// each does something for all members at once, and waits for it.
func each(all []*member, do func(*member)) {
	var work sync.WaitGroup
	for _, m := range all {
		work.Go(func() { do(m) })
	}
	work.Wait()
}

// Replace takes over another set of upstreams, each with a Name. Those that were there
// before, by Name and Digest, stay as they are. The calls of others run on; their
// processes end when the last has. Clients are told that the lists have changed. It
// fails, and nothing changes, where the names do not tell the upstreams apart.
func (f *Front) Replace(upstreams []Options) error {
	if err := checkNames(upstreams); err != nil {
		return err
	}
	f.replacing.Lock()
	waits := f.connect == nil
	if waits {
		f.waiting = upstreams
	}
	f.replacing.Unlock()
	if !waits {
		f.replace(upstreams)
	}
	return nil
}

func (f *Front) replace(upstreams []Options) {
	f.replacing.Lock()
	defer f.replacing.Unlock()
	before := f.all()
	var after, come []*member
	for _, o := range upstreams {
		i := slices.IndexFunc(before, func(m *member) bool {
			return m.name == o.Name && m.g.options.Digest == o.Digest && o.Digest != ""
		})
		if i >= 0 {
			after = append(after, before[i])
			continue
		}
		m := f.newMember(o)
		f.connect(m)
		after, come = append(after, m), append(come, m)
	}
	f.mu.Lock()
	f.members = after
	parties, attendants := slices.Collect(maps.Keys(f.parties)), slices.Collect(maps.Keys(f.attendant))
	f.mu.Unlock()
	for _, m := range come {
		for _, p := range parties {
			p.takeIn(m)
		}
		for _, a := range attendants {
			a.takeIn(m)
		}
	}
	gone := slices.DeleteFunc(slices.Clone(before), func(m *member) bool { return slices.Contains(after, m) })
	for _, m := range gone {
		f.where.forget(m)
		f.parting.Go(func() { m.part() })
	}
	if len(before) > 0 && (len(come) > 0 || len(gone) > 0 || !slices.Equal(before, after)) {
		for _, p := range parties {
			p.announce()
		}
		for _, a := range attendants {
			a.announce()
		}
	}
}

// part ends a member that was taken away, when its calls have ended and no late answer
// is listened for any more; at a shutdown sooner.
func (m *member) part() {
	m.calls.Wait()
	m.g.linger(m.front.life, m.front.taking)
	m.g.drain(m.front.life)
	m.end(context.Background())
}

func (m *member) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, closeWithin)
	defer cancel()
	m.g.close(ctx)
	m.hub.work.Wait()
}

// drain is part of estate.
func (f *Front) drain(ctx context.Context, clients ...*exchanges) {
	f.noMore()
	stop := context.AfterFunc(ctx, f.end)
	defer stop()
	for _, c := range clients {
		c.close()
	}
	each(f.all(), func(m *member) { m.g.drain(ctx, clients...) })
	for _, c := range clients { // there may be no members
		c.end(errShutdown)
		c.handlers.Wait()
	}
	f.parting.Wait()
}

// linger is part of estate.
func (f *Front) linger(contexts ...context.Context) {
	each(f.all(), func(m *member) { m.g.linger(contexts...) })
}

// close is part of estate.
func (f *Front) close(ctx context.Context) {
	f.noMore()
	f.end()
	each(f.all(), func(m *member) { m.end(ctx) })
	f.parting.Wait()
}

// failed is never closed: what is down is dialled again.
func (f *Front) failed() <-chan struct{} { return nil }
func (f *Front) err() error              { return nil }

// ready is part of site: one upstream that is down does not make the others so.
func (f *Front) ready(context.Context) error {
	all := f.all()
	if len(all) > 0 && !slices.ContainsFunc(all, (*member).isUp) {
		return errors.New("none of the servers is ready")
	}
	return nil
}
