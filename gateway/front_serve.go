package gateway

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

// FrontOptions are the settings of a Front that are not those of an upstream.
type FrontOptions struct {
	Version  string        // what clients and upstreams are told of the gateway
	DrainFor time.Duration // how long calls may go on after the client has closed its side; zero: DefaultCallTimeout
	// LateAfter is how long a handshake waits for upstreams that start slowly, once one
	// is there; zero: DefaultLateAfter. What comes later is announced.
	LateAfter time.Duration
	Log       zerolog.Logger
}

// DefaultLateAfter is shorter than any client is known to wait for a handshake.
const DefaultLateAfter = 8 * time.Second

// NewFront returns a front on a ledger, which stays the caller's to close. Its
// upstreams are those of Replace, and are started when a client is served.
func NewFront(ledger *dedup.Ledger, options FrontOptions) *Front {
	f := &Front{
		version: options.Version, log: options.Log, ledger: ledger, tasks: &tasks{},
		drainFor: cmp.Or(options.DrainFor, DefaultCallTimeout), lateAfter: cmp.Or(options.LateAfter, DefaultLateAfter),
		parties: map[*several]bool{}, attendant: map[*attendant]bool{},
	}
	f.life, f.end = context.WithCancel(context.Background())
	f.taking, f.noMore = context.WithCancel(context.Background())
	return f
}

// Offered is the name under which clients know what the upstream calls name.
func (o Options) Offered(name string) string {
	if o.Name == "" {
		return name
	}
	return o.Name + separator + name
}

// checkNames refuses names of upstreams by which what they offer could not be told
// apart.
func checkNames(upstreams []Options) error {
	seen := map[string]bool{}
	for _, o := range upstreams {
		switch {
		case o.Name == "" || strings.Contains(o.Name, separator) || strings.HasSuffix(o.Name, "_") || strings.Contains(o.Name, "/"):
			return fmt.Errorf("%q cannot be the name of one of several servers: it must not be empty, have %q or / in it, or end with _", o.Name, separator)
		case seen[o.Name]:
			return fmt.Errorf("two servers are called %q", o.Name)
		}
		seen[o.Name] = true
	}
	return nil
}

// ServeStdio serves one client on in and out until the client closes its side or ctx
// ends. Calls that run then may end; what does not end in time is unknown. When it
// returns, the upstreams are gone. It is called once.
func (f *Front) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	c := newStdioClient(f.log, out)
	host := newSeveral(f, c.client, nil)
	host.shakes = c.visits.shakes
	c.host, c.visits.face = host, f
	f.begin(func(m *member) {
		m.hub = newOwnHub(m.g, c.visits.introduction)
		own := bilingual{newOwner(c.client, m.g), c.visits, m.hub}
		own.say = func(n jsonrpc.Message) bool { return c.out.put(m.outward(n), nil) }
		m.host = own
		m.dial(own)
	})
	return c.serve(ctx, in, f, f.drainFor)
}

// dial makes the upstream's server, which is not started yet.
func (m *member) dial(a audience) {
	if err := m.g.dial(a); err != nil {
		panic("gateway: the server of a front is dialled when it is needed: " + err.Error())
	}
}

// begin connects the upstreams that there are, and all that come later.
func (f *Front) begin(connect func(*member)) {
	f.replacing.Lock()
	defer f.replacing.Unlock()
	f.connect = connect
	f.replace(f.waiting)
}

// welcome is part of site.
func (f *Front) welcome(c *client, s *session) {
	host := newSeveral(f, c, func(m *member) *guest {
		return newGuest(m.hub, s, func(n jsonrpc.Message) bool { return s.put(m.outward(n), nil) })
	})
	c.host, s.depart = host, host.depart
}

// An HTTPFront is a gateway that serves several upstreams by HTTP.
type HTTPFront struct {
	*HTTP
	shared *Front

	replacing sync.Mutex
	upstreams []Options
	own       map[*Front]bool // of sessions
}

// NewHTTPFront returns a gateway on a ledger, which stays the caller's to close. Its
// upstreams are those of Replace. namespace is that of keys where there are no
// principals. Whoever has a gateway closes it.
func NewHTTPFront(ledger *dedup.Ledger, options FrontOptions, h HTTPOptions, namespace string) *HTTPFront {
	s := &HTTPFront{HTTP: newHTTP(options.Log, h), shared: NewFront(ledger, options), own: map[*Front]bool{}}
	s.look = looksInto(ledger, namespace)
	s.shared.tasks.strangers = len(h.Tokens) > 1
	s.site = s.shared
	s.shared.lazy = s.options.Process == PerSession
	s.shared.begin(func(m *member) {
		m.hub = newHub(m.g, options.Version)
		if !s.shared.lazy {
			m.hub.work.Go(func() { m.meet(m.g.life) }) // whoever comes first would wait for it
		}
	})
	s.settle = func(c *client) (estate, error) {
		own := NewFront(ledger, options)
		own.tasks = s.shared.tasks
		c.host = newSeveral(own, c, nil)
		own.begin(func(m *member) {
			m.hub = newOwnHub(m.g, nil)
			host := newOwner(c, m.g)
			host.say = func(n jsonrpc.Message) bool { return c.out.put(m.outward(n), nil) }
			m.host = host
			m.dial(host)
		})
		return own, s.adopt(own)
	}
	return s
}

// adopt gives the front of a session the upstreams that there are, and all that come
// later.
func (h *HTTPFront) adopt(own *Front) error {
	h.replacing.Lock()
	defer h.replacing.Unlock()
	own.forgotten = func() {
		h.replacing.Lock()
		defer h.replacing.Unlock()
		delete(h.own, own)
	}
	h.own[own] = true
	return own.Replace(h.upstreams)
}

// Replace is Front.Replace for all clients.
func (h *HTTPFront) Replace(upstreams []Options) error {
	h.replacing.Lock()
	defer h.replacing.Unlock()
	if err := h.shared.Replace(upstreams); err != nil {
		return err
	}
	h.upstreams = upstreams
	for own := range h.own {
		_ = own.Replace(upstreams) // they were accepted above
	}
	return nil
}
