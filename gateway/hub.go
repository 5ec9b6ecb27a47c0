package gateway

import (
	"context"
	"sync"

	"golang.org/x/sync/singleflight"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
	"github.com/mcp-idem/mcp-idem/upstream"
)

// A hub stands between one upstream and many clients. To the upstream it is the
// client: it makes the handshake itself, once, and can do nothing, since what the
// upstream asks could not be told whom it concerns. What the upstream says is told
// only to those whom it provably concerns. It is safe for concurrent use.
type hub struct {
	g *Gateway
	// introduce makes the handshake, and returns the upstream's answer.
	introduce func(context.Context) ([]byte, error)
	// renews says that an upstream whose first handshake has failed is given up, and
	// dialled anew when it is needed again. Else its failure ends the gateway.
	renews bool

	shaking singleflight.Group
	work    sync.WaitGroup
	telling chan struct{} // holds one who tells the upstream what clients want

	mu          sync.Mutex
	server      upstream.Server // nil until it is needed
	greeted     []byte          // the upstream's answer to initialize, with our instructions; nil until it came
	serverInfo  []byte          // of it, raw
	subscribers map[*subscriber]bool
	heeded      severity // what the upstream was told to log; zero: it was told nothing
	floor       severity // the least that requests of the modern era have asked for
}

// newOwnHub returns the hub of an upstream that one client has for itself, which
// introduces itself to it.
func newOwnHub(g *Gateway, introduction func() []byte) *hub {
	h := &hub{g: g, telling: make(chan struct{}, 1), subscribers: map[*subscriber]bool{}}
	h.introduce = func(ctx context.Context) ([]byte, error) { return g.introduce(ctx, introduction()) }
	return h
}

func newHub(g *Gateway, version string) *hub {
	h := newOwnHub(g, nil)
	h.introduce = func(ctx context.Context) ([]byte, error) {
		if _, err := h.dialled(); err != nil {
			return nil, err
		}
		return g.introduceItself(ctx, version)
	}
	g.server = common{h}
	return h
}

// dialled returns the upstream's server, and makes it where there is none yet.
func (h *hub) dialled() (upstream.Server, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.server != nil {
		return h.server, nil
	}
	options := h.g.options.Upstream
	options.Handler, options.Observer = h, h.g.observer(h)
	server, err := h.g.options.Dial(options)
	if err == nil {
		h.server = server
	}
	return server, err
}

// greeting returns what the upstream has answered to initialize, as an object with
// our instructions in it. It is asked once for all who want to know, and again by
// the next where it did not answer.
func (h *hub) greeting(ctx context.Context) ([]byte, error) {
	if welcome := h.welcomed(); welcome != nil {
		return welcome, nil
	}
	answer := h.shaking.DoChan("initialize", func() (any, error) { return h.shake() })
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case got := <-answer:
		if got.Err != nil {
			return nil, got.Err
		}
		return got.Val.([]byte), nil
	}
}

// welcomed is what greeting returns, nil before the upstream has answered.
func (h *hub) welcomed() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.greeted
}

func (h *hub) shake() ([]byte, error) {
	result, err := h.introduce(h.g.life)
	if err != nil {
		h.giveUp()
		return nil, err
	}
	read, err := rawjson.ParseObject(result)
	if err != nil {
		return nil, err
	}
	welcome := h.g.instruct(read)
	h.adopt(welcome)
	if h.g.hasTools.Load() { // whoever needs the list first would wait for it
		h.work.Go(func() { _, _ = h.g.tools.get(h.g.life) })
	}
	return welcome, nil
}

// giveUp lets go of a server that has failed for good: it would never answer again,
// although what is behind it may.
func (h *hub) giveUp() {
	h.mu.Lock()
	server := h.server
	failed := h.renews && server != nil && server.Err() != nil
	if failed {
		h.server = nil
	}
	h.mu.Unlock()
	if failed {
		_ = server.Close(h.g.life) // its error is that of the context, and nothing is left in any case
	}
}

// adopt keeps a welcome for all who want to know.
func (h *hub) adopt(welcome []byte) {
	read, _ := rawjson.ParseObject(welcome) // what is none names no server
	info, _ := read.Get("serverInfo")
	h.mu.Lock()
	defer h.mu.Unlock()
	h.greeted, h.serverInfo = welcome, info
}

// identity is the upstream's serverInfo, raw; nil where it is not known.
func (h *hub) identity() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.serverInfo
}

// declares reports whether the upstream has declared a capability, and that one of
// it, if it is not empty.
func (h *hub) declares(capability, inner string) bool {
	h.mu.Lock()
	welcome := h.greeted
	h.mu.Unlock()
	read, err := rawjson.ParseTo(welcome, 3)
	if err != nil {
		return false
	}
	value := read.Get("capabilities").Get(capability)
	if inner == "" {
		return value != nil
	}
	return value.Get(inner).Is("true")
}

// has reports whether the upstream has declared an inner capability of one, whatever
// its value.
func (h *hub) has(capability, inner string) bool {
	read, err := rawjson.ParseTo(h.welcomed(), 3)
	return err == nil && read.Get("capabilities").Get(capability).Get(inner) != nil
}

// Request refuses what the upstream asks: which client should answer, nobody knows.
func (h *hub) Request(s upstream.Session, m jsonrpc.Message) {
	_ = s.Reply(jsonrpc.ErrorReply(m.ID, &jsonrpc.Error{ // the session that asked may be over
		Code: jsonrpc.CodeMethodNotFound, Message: "Method not found: " + m.Method + " (several clients share this server, and none of them can be asked)",
	}))
}

// Notification tells those whom it concerns.
func (h *hub) Notification(m jsonrpc.Message) {
	switch m.Method {
	case "notifications/progress":
		h.g.progress.heard(m)
	case methodMessage:
		h.logged(m)
	case "notifications/resources/updated":
		uri := uriOf(m)
		h.tell(m, func(s *subscriber) bool { return s.hasSubscribed(uri) })
	case toolsChanged.Method:
		h.g.tools.invalidate()
		h.tell(m, func(s *subscriber) bool { return s.wants(m.Method) })
	case "notifications/prompts/list_changed", "notifications/resources/list_changed":
		h.tell(m, func(s *subscriber) bool { return s.wants(m.Method) })
	}
}

// logged passes a log message on where it can be about one request alone: then it is
// known whose it is. Where the clients are strangers to one another that is not
// enough: a server may log about what it has answered.
func (h *hub) logged(m jsonrpc.Message) {
	if h.g.tasks.strangers {
		return
	}
	if hear := h.g.progress.alone(); hear != nil {
		hear(m)
	}
}

func (h *hub) tell(m jsonrpc.Message, whom func(*subscriber) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subscribers {
		if whom(s) && !s.hear(m) {
			h.g.log.Debug().Str("method", m.Method).Msg("a notification was dropped: the client does not listen")
		}
	}
}

func (h *hub) upstreamGone() {}

// upstreamBack tells the upstream what the clients had told it. Its tools may be
// others, and are read when a client asks.
func (h *hub) upstreamBack(s upstream.Session) {
	h.work.Go(func() { h.g.state.restore(h.g.life, s) })
	if h.g.announces.Load() {
		h.Notification(toolsChanged)
	}
}
