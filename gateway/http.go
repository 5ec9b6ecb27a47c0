package gateway

import (
	"context"
	"errors"
	"fmt"
	"log"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// Defaults of HTTPOptions.
const (
	DefaultMaxBody     = 4 << 20
	DefaultReadTimeout = 30 * time.Second
	DefaultSessionIdle = 30 * time.Minute
	DefaultMaxSessions = 1000
	DefaultHTTPDrain   = 20 * time.Second
)

// What clients can be answered with.
const (
	mediaJSON   = "application/json"
	mediaEvents = "text/event-stream"
)

// MaxHeaderBytes is the size of the header of an HTTP request.
const MaxHeaderBytes = 64 << 10

// MaxVisits is how many requests of the modern era, with those that listen, are
// served at a time. Over it, a request is refused and nothing is sent.
const MaxVisits = 4096

// readLastWithin is how long clients may take, after the last call has ended, to read
// what is left.
const readLastWithin = 2 * time.Second

// HTTPOptions are the settings of a gateway that serves HTTP. Zero values are the
// defaults.
type HTTPOptions struct {
	// Tokens are the bearer tokens, by whose they are; the principal is the namespace
	// of its keys. Without any there is no authentication, and only clients on this
	// machine are served.
	Tokens map[string]string
	// Process says who shares an upstream; empty: Shared.
	Process Process
	// AllowedOrigins are web origins, as browsers send them (https://host:port), that
	// are admitted beside those of this machine, and whose pages may read the answers.
	AllowedOrigins []string
	MaxBody        int64         // of a request, in bytes
	ReadTimeout    time.Duration // for the header of a request, and again for its body
	SessionIdle    time.Duration // how long a session lives that nobody uses
	MaxSessions    int           // shared out evenly to the principals; over it, one that has ended or is idle makes room; if none is, a new one is refused
	DrainFor       time.Duration // how long calls may go on at a shutdown
	Version        string        // what the upstream is told of the gateway
}

// A Process says who shares an upstream.
type Process string

// The words for it. Requests of the modern era, which knows no sessions, always share
// one.
const (
	Shared     Process = "shared"      // all clients; the upstream cannot ask them anything
	PerSession Process = "per_session" // each session has one of its own
)

// ParseProcess reads the word.
func ParseProcess(word string) (Process, error) {
	switch p := Process(word); p {
	case Shared, PerSession:
		return p, nil
	}
	return "", fmt.Errorf("%q says not who shares the server: use shared or per_session", word)
}

func (o *HTTPOptions) fill() {
	for _, d := range []struct {
		value    *time.Duration
		standard time.Duration
	}{{&o.ReadTimeout, DefaultReadTimeout}, {&o.SessionIdle, DefaultSessionIdle}, {&o.DrainFor, DefaultHTTPDrain}} {
		if *d.value == 0 {
			*d.value = d.standard
		}
	}
	if o.MaxBody == 0 {
		o.MaxBody = DefaultMaxBody
	}
	if o.MaxSessions == 0 {
		o.MaxSessions = DefaultMaxSessions
	}
	if o.Process == "" {
		o.Process = Shared
	}
}

// An HTTP is a gateway that serves clients of both eras by streamable HTTP. It is
// safe for concurrent use.
type HTTP struct {
	options HTTPOptions
	log     zerolog.Logger
	site    site
	// settle gives a client a host with upstreams of its own, where each session has
	// such, and returns what stands behind it.
	settle func(*client) (estate, error)
	// look fails where the ledger cannot be read.
	look func(context.Context) error
	keys keyring
	mux  *http.ServeMux

	taking  context.Context // ends when nothing new is taken any more
	noMore  context.CancelFunc
	life    context.Context // of requests
	end     context.CancelCauseFunc
	closing sync.Once

	serving  sync.WaitGroup // HTTP requests
	retiring sync.WaitGroup // sessions that have ended
	mu       sync.Mutex
	sessions map[string]*session
	parting  map[*session]parting
	opening  map[string]int      // sessions for which room is reserved, by principal
	visits   map[*exchanges]bool // requests of the modern era
	visitors int                 // with those that listen
}

// NewHTTP returns a gateway on a ledger, which stays the caller's to close. An
// upstream that is shared is started; one that cannot be is an *upstream.StartError.
// Whoever has a gateway closes it.
func NewHTTP(ledger *dedup.Ledger, options Options, h HTTPOptions) (*HTTP, error) {
	s := newHTTP(options.Log, h)
	s.look = looksInto(ledger, options.Scope.Namespace)
	tasks := &tasks{strangers: len(h.Tokens) > 1}
	g := New(ledger, options)
	g.tasks = tasks
	hub := newHub(g, h.Version)
	hub.renews = s.options.Process == PerSession
	s.site = hub
	s.settle = func(c *client) (estate, error) {
		own := New(ledger, options)
		own.tasks = tasks // what is behind a URL may know the tasks of all
		host := newOwner(c, own)
		c.host = host
		return own, own.dial(host)
	}
	if s.options.Process == Shared {
		if _, err := hub.dialled(); err != nil {
			return nil, err
		}
		hub.work.Go(func() { _, _ = hub.greeting(g.life) }) // whoever comes first would wait for it
	}
	return s, nil
}

// looksInto returns what fails where the ledger cannot be read.
func looksInto(ledger *dedup.Ledger, namespace string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := ledger.Operation(ctx, namespace, dedup.OperationID{})
		if errors.Is(err, dedup.ErrNotFound) {
			return nil
		}
		return err
	}
}

// newHTTP returns a gateway behind which there is nothing yet.
func newHTTP(log zerolog.Logger, h HTTPOptions) *HTTP {
	h.fill()
	s := &HTTP{
		options: h, log: log, keys: newKeyring(h.Tokens),
		sessions: map[string]*session{}, parting: map[*session]parting{}, opening: map[string]int{}, visits: map[*exchanges]bool{},
	}
	s.taking, s.noMore = context.WithCancel(context.Background())
	s.life, s.end = context.WithCancelCause(context.Background())
	s.mux = http.NewServeMux()
	s.mux.Handle("/mcp", s.forPages(http.HandlerFunc(s.serveMCP)))
	s.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	s.mux.HandleFunc("GET /readyz", s.serveReady)
	s.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		// Clients that were answered 401 come here for OAuth, and show their user this.
		http.Error(w, "mcp-idem is at /mcp. It has no OAuth: clients send Authorization: Bearer TOKEN, with a token of its --token-file.", http.StatusNotFound)
	})
	return s
}

// ServeHTTP implements http.Handler. What it serves is /mcp, /healthz and /readyz.
func (h *HTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	over := h.taking.Err() != nil
	if !over {
		h.serving.Add(1)
	}
	h.mu.Unlock()
	if over {
		refuse(http.StatusServiceUnavailable, codeUnavailable, "the gateway is being shut down; nothing was sent").write(w)
		return
	}
	defer h.serving.Done()
	h.mux.ServeHTTP(w, r)
}

// readyWithin is how long upstream and ledger may take to be found ready.
const readyWithin = 2 * time.Second

// serveReady says whether a call would be sent now.
func (h *HTTP) serveReady(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyWithin)
	defer cancel()
	if err := h.ready(ctx); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte("ok\n"))
}

func (h *HTTP) ready(ctx context.Context) error {
	if err := h.site.ready(ctx); err != nil {
		return err
	}
	if h.look(ctx) != nil {
		return errors.New("the ledger does not answer")
	}
	return nil
}

// Serve serves clients on a listener until ctx ends (nil), the shared upstream cannot
// be started (*upstream.StartError), or the listener fails; then it closes the
// gateway. A listener beyond this machine is refused where there are no tokens. It is
// called once.
func (h *HTTP) Serve(ctx context.Context, l net.Listener) error {
	if len(h.keys) == 0 && !isLoopback(l.Addr().String()) {
		_ = l.Close()
		h.Close(ctx)
		return fmt.Errorf("%s can be reached from other machines, and there are no tokens to know the clients by", l.Addr())
	}
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: h.options.ReadTimeout, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: MaxHeaderBytes,
		ErrorLog: log.New(h.log, "", 0),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	h.log.Info().Str("address", "http://"+l.Addr().String()+"/mcp").Msg("listening")
	var err error
	select {
	case err = <-ended:
		ended <- nil
	case <-ctx.Done():
	case <-h.site.failed():
		err = h.site.err()
	}
	_ = l.Close()
	h.close(context.Background(), func() {
		last, cancel := context.WithTimeout(context.Background(), readLastWithin)
		defer cancel()
		_ = server.Shutdown(last) // its error is that of the context,
		_ = server.Close()        // and then what is left is cut
	})
	<-ended
	return err
}

// Close ends the gateway as a shutdown does: it takes nothing new, lets calls end for
// HTTPOptions.DrainFor or until ctx ends, and tells those who still wait how their
// operations stand. It returns when nothing is left of it, and waits for HTTP clients
// that do not read, but not for ever. It may be called again.
func (h *HTTP) Close(ctx context.Context) { h.close(ctx, func() {}) }

// close is Close. When all has been said, cut ends the connections.
func (h *HTTP) close(ctx context.Context, cut func()) {
	h.closing.Do(func() {
		h.mu.Lock()
		h.noMore()
		h.mu.Unlock()
		ctx, cancel := context.WithTimeout(ctx, h.options.DrainFor)
		defer cancel()
		h.drain(ctx)
		for _, s := range h.all() {
			h.endSession(s, errShutdown)
		}
		h.retiring.Wait()
		cut()
		h.serving.Wait()
		hangUp(h.site)
	})
}

// drain lets calls end, those of sessions that are over included. When ctx ends, it
// ends them.
func (h *HTTP) drain(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { h.end(errShutdown) })
	defer stop()
	var draining sync.WaitGroup
	draining.Go(h.retiring.Wait)
	var shared []*exchanges
	for _, s := range h.all() {
		if s.own != nil {
			draining.Go(func() { s.own.drain(ctx, s.client.requests) })
		} else {
			shared = append(shared, s.client.requests)
		}
	}
	h.mu.Lock()
	for visit := range h.visits {
		shared = append(shared, visit)
	}
	h.mu.Unlock()
	h.site.drain(ctx, shared...)
	draining.Wait()
	h.end(errShutdown)
}

// all are the sessions that live.
func (h *HTTP) all() []*session {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Values(h.sessions))
}
