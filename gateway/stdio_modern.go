package gateway

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
	"github.com/mcp-idem/mcp-idem/upstream"
)

// visits are the requests of the modern era on stdio. A client of that era makes no
// handshake; with the first request the gateway makes the upstream's in its place.
// Nothing keeps a client from making requests of both eras on one connection: each
// is answered in its own.
type visits struct {
	c    *client
	face face // that the requests meet

	mu     sync.Mutex
	came   bool                   // there was one
	shook  bool                   // the client has made a handshake of its own
	levels map[*Exchange]severity // of the log messages that open ones want, at least
	intro  []byte                 // params of the handshake
}

func newVisits(c *client) *visits {
	return &visits{c: c, levels: map[*Exchange]severity{}}
}

// take has a request of the modern era answered.
func (v *visits) take(m jsonrpc.Message, p preamble) {
	x := &Exchange{Caller: v.c.caller, era: modern}
	problem := p.fault()
	if problem == nil && isRemoved(m.Method) {
		problem = &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "Method not found: " + m.Method}
	}
	if problem != nil {
		v.c.out.put(jsonrpc.ErrorReply(m.ID, problem), x)
		return
	}
	v.meet(p)
	x.level, _ = parseSeverity(p.logLevel)
	shaken, answer := v.c.proceed(), v.answer
	switch m.Method {
	case "subscriptions/listen":
		x.lasting, answer = true, v.subscribe
	case "server/discover", "tools/list": // they are answered from here
	default:
		x.turn = v.c.order.join()
	}
	v.c.requests.begin(m, x, func(ctx context.Context, x *Exchange) jsonrpc.Message {
		shaken(ctx)
		return answer(ctx, x, m)
	})
}

// meet notes what the client says of itself.
func (v *visits) meet(p preamble) {
	v.c.caller.introduceAs(p.client)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.came = true
	v.intro = introductionOf(p)
}

func (v *visits) introduction() []byte {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.intro
}

// introductionOf returns the params of a handshake in a client's name. A legacy
// upstream is not told of what it could ask of the client: there are no requests of
// servers in the client's era. A modern one asks by its answers.
func introductionOf(p preamble) []byte {
	info := p.client
	if info == nil {
		info = []byte(`{"name":"unknown","version":""}`)
	}
	declared, err := rawjson.ParseObject(p.capabilities)
	if err != nil {
		declared, _ = rawjson.ParseObject([]byte(`{}`))
	}
	return slices.Concat([]byte(`{"protocolVersion":"`+inspectProtocol+`","capabilities":`), declared.Without("elicitation", "sampling", "roots", "tasks"),
		[]byte(`,"clientInfo":`), info, []byte(`,"_meta":{"`+mcp.MetaKeyClientCapabilities+`":`), declared.Without(), []byte(`}}`))
}

func (v *visits) answer(ctx context.Context, x *Exchange, m jsonrpc.Message) jsonrpc.Message {
	defer v.heed(x)()
	return v.face.serve(ctx, x, neutral(m), x.level)
}

// heed lets the client hear what the upstream logs, until done is called. Whatever
// the upstream logs is about a request of the one client.
func (v *visits) heed(x *Exchange) (done func()) {
	if x.level == 0 {
		return func() {}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.levels[x] = x.level
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		delete(v.levels, x)
	}
}

func (v *visits) heeds(m jsonrpc.Message) bool {
	severity := severityOf(m)
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, least := range v.levels {
		if severity >= least {
			return true
		}
	}
	return false
}

// eras reports in which eras the client has spoken.
func (v *visits) eras() (isLegacy, isModern bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.shook || !v.came, v.came
}

// subscribe serves a subscriptions/listen until the client cancels it or closes its
// side (basic/patterns/subscriptions, 2026-07-28). Its response is the end of it.
func (v *visits) subscribe(ctx context.Context, x *Exchange, m jsonrpc.Message) jsonrpc.Message {
	asked, err := readFilter(m.Params)
	if err != nil || len(asked.ResourceSubscriptions) > MaxResourceSubscriptions {
		return jsonrpc.ErrorReply(m.ID, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "subscriptions/listen: the filter cannot be read, or names too much"})
	}
	if _, err := v.face.greeting(ctx); err != nil {
		return jsonrpc.ErrorReply(m.ID, unavailable(err))
	}
	x.server = v.face.identity()
	var acknowledged atomic.Bool
	granted, leave := v.face.attend(ctx, asked, func(n jsonrpc.Message) bool { return !acknowledged.Load() || v.c.out.put(tagged(n, m.ID), nil) })
	defer leave()
	v.c.out.put(acknowledgement(granted, m.ID), nil)
	acknowledged.Store(true)
	if !granted.IsEmpty() {
		select {
		case <-ctx.Done():
		case <-v.c.requests.closed:
		}
	}
	return jsonrpc.Result(m.ID, slices.Concat([]byte(`{"_meta":{"`+mcp.MetaKeySubscriptionID+`":`), m.ID, []byte(`}}`)))
}

// shakes notes that the client has made a handshake of its own.
func (v *visits) shakes() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.shook = true
}

// A bilingual is a client on stdio and its upstream, as the two see each other in both
// eras.
type bilingual struct {
	owner
	visits *visits
	hub    *hub // with which the client subscribes, as the only one
}

// greet hands a handshake on. Where one was made already for requests of the modern
// era, and the upstream refuses another, that one serves.
func (b bilingual) greet(ctx context.Context, x *Exchange, m jsonrpc.Message) jsonrpc.Message {
	b.visits.shakes()
	answer := b.owner.greet(ctx, x, m)
	if answer.Result != nil {
		b.hub.adopt(answer.Result)
		return answer
	}
	if welcome := b.hub.welcomed(); welcome != nil {
		return jsonrpc.Result(m.ID, negotiated(welcome, m.Params))
	}
	return answer
}

// Notification hands the upstream's notification to the client, in the manner of the
// eras that it has spoken in. It is part of upstream.Handler.
func (b bilingual) Notification(m jsonrpc.Message) {
	isLegacy, isModern := b.visits.eras()
	switch {
	case isLegacy:
		b.owner.Notification(m)
		if isModern && isAnnouncement(m.Method) {
			b.hub.Notification(m)
		}
	case m.Method != methodMessage:
		b.hub.Notification(m)
	case b.visits.heeds(m):
		b.say(m)
	}
}

func isAnnouncement(method string) bool {
	switch method {
	case toolsChanged.Method, "notifications/prompts/list_changed", "notifications/resources/list_changed", "notifications/resources/updated":
		return true
	}
	return false
}

// Request hands the upstream's request to the client, where its era has such
// requests.
func (b bilingual) Request(s upstream.Session, m jsonrpc.Message) {
	if isLegacy, _ := b.visits.eras(); isLegacy {
		b.owner.Request(s, m)
		return
	}
	_ = s.Reply(jsonrpc.ErrorReply(m.ID, &jsonrpc.Error{ // the session that asked may be over
		Code: jsonrpc.CodeMethodNotFound, Message: "Method not found: " + m.Method + " (the client is of an era that has no requests of servers)",
	}))
}

// upstreamBack tells the upstream what the client had told it, and the client what
// has become of the tools.
func (b bilingual) upstreamBack(s upstream.Session) {
	isLegacy, isModern := b.visits.eras()
	if isLegacy {
		b.owner.upstreamBack(s)
	} else {
		b.restore(s)
	}
	if isModern && b.g.announces.Load() {
		b.hub.Notification(toolsChanged)
	}
}
