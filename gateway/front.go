package gateway

import (
	"context"
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
	version   string
	log       zerolog.Logger
	ledger    *dedup.Ledger
	tasks     *tasks // that the gateways share
	lateAfter time.Duration
	drainFor  time.Duration

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
	over      bool          // nothing is replaced any more
	lazy      bool          // its upstreams are started when they are needed
	forgotten func()        // called when it is closed; may be nil

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
	ours atomic.Bool // the handshake is the gateway's own, and not complete

	first sync.Once     // of trying
	tried chan struct{} // closed when the first handshake has ended, well or not

	calls sync.WaitGroup // requests on their way; begun with the front's lock held
	order line           // of what the one client sends that has it for itself
	late  atomic.Bool    // its tools could not be read in time, and have not come since
	// awaited: somebody reads them all the same.
	awaited atomic.Bool

	mu    sync.Mutex
	lists map[string][][]byte // the last good ones, by method
	slow  map[string]bool     // methods of lists that did not come in time
	tools offeredTools
}

// newMember makes a member that is not connected yet.
func (f *Front) newMember(o Options) *member {
	m := &member{front: f, name: o.Name, tried: make(chan struct{}), lists: map[string][][]byte{}, slow: map[string]bool{}}
	dial := o.Dial
	o.Dial = func(u upstream.Options) (upstream.Server, error) {
		back := u.Observer.Restarted
		u.Observer.Restarted = func(s upstream.Session) {
			back(s) // which tells of its tools
			m.willArrive()
			m.arrived(func(method string) bool { return method != toolsChanged.Method })
		}
		return upstream.Persist(o.Scope.Upstream, dial, u, m.introduced), nil
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
	if m.ours.CompareAndSwap(true, false) { // from now on it is told with each start
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
		if _, err := m.hub.greeting(m.g.life); err == nil { // else it is in the log, and dialled again
			m.ours.Store(false) // it was told that it is initialized
		}
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
			defer m.arrive()
			greet()
		})
	})
}

// arrive notes that the first handshake was tried.
func (m *member) arrive() {
	isUp := m.hub.welcomed() != nil && m.trouble() == nil
	if isUp {
		m.willArrive()
	}
	close(m.tried)
	if isUp {
		m.arrived(anyMethod)
	}
}

// declares is hub.declares.
func (m *member) declares(capability, inner string) bool { return m.hub.declares(capability, inner) }

// all are the members, in their order.
func (f *Front) all() []*member {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.members
}

// A hold keeps members from being taken away. It is for one goroutine.
type hold struct {
	all []*member // in their order
	of  []*member // those that are kept still
}

// hold keeps all members until they are released.
func (f *Front) hold() *hold {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.members {
		m.calls.Add(1)
	}
	return &hold{f.members, slices.Clone(f.members)}
}

// holdOne keeps a member until it is released, if it was not taken away yet.
func (f *Front) holdOne(m *member) (*hold, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Contains(f.members, m) {
		return nil, false
	}
	m.calls.Add(1)
	return &hold{f.members, []*member{m}}, true
}

// only releases all but one.
func (h *hold) only(one *member) {
	h.of = slices.DeleteFunc(h.of, func(m *member) bool {
		if m != one {
			m.calls.Done()
		}
		return m != one
	})
}

func (h *hold) release() { h.only(nil) }

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
// fails, and nothing changes, where the names do not tell the upstreams apart. Once the
// front is coming to its end, nothing changes either.
func (f *Front) Replace(upstreams []Options) error {
	if err := checkNames(upstreams); err != nil {
		return err
	}
	f.replacing.Lock()
	defer f.replacing.Unlock()
	switch {
	case f.over:
	case f.connect == nil:
		f.waiting = upstreams
	default:
		f.replace(upstreams)
	}
	return nil
}

// replace is called with the lock for it held.
func (f *Front) replace(upstreams []Options) {
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
		f.where.invalidate(m)
		f.connect(m)
		after, come = append(after, m), append(come, m)
	}
	f.mu.Lock()
	f.members = after
	f.mu.Unlock()
	parties, attendants := f.listeners()
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
		f.parting.Go(m.part)
	}
	if len(before) > 0 && (len(come) > 0 || len(gone) > 0 || !slices.Equal(before, after)) {
		for _, p := range parties {
			p.announce(anyMethod)
		}
		for _, a := range attendants {
			a.announce(anyMethod)
		}
	}
}

// listeners are all who hear of changes.
func (f *Front) listeners() ([]*several, []*attendant) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Keys(f.parties)), slices.Collect(maps.Keys(f.attendant))
}
