package gateway

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
	"github.com/mcp-idem/mcp-idem/toolschema"
)

// namesText tells a model how tools are called.
const namesText = "Several servers stand behind this one. The name of a tool or prompt begins with that of its server: SERVER" + separator + "NAME. "

// greeting is part of face. Members that cannot be reached are left out.
func (f *Front) greeting(ctx context.Context) ([]byte, error) {
	all, release := f.hold()
	defer release()
	each(all, func(m *member) { m.meet(ctx) })
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return f.hello(all), nil
}

// hello is the result of a handshake, put together of those of the members.
func (f *Front) hello(all []*member) []byte {
	capabilities := []byte(`{}`)
	var texts []byte
	guarded := false
	for _, m := range all {
		read, err := rawjson.ParseObject(m.hub.welcomed())
		if err != nil {
			continue
		}
		if declared, ok := read.Get("capabilities"); ok {
			capabilities = merged(capabilities, declared)
		}
		if own, ok := read.String("instructions"); ok && own != "" {
			texts = append(texts, "# "+m.name+"\n"+own+"\n\n"...)
		}
		guarded = guarded || m.g.options.Keys != KeysHarness
	}
	capabilities = merged(capabilities, []byte(`{"tools":{"listChanged":true}}`)) // of one that comes later, too
	text := namesText
	if guarded {
		text += instructions
	}
	return slices.Concat([]byte(`{"protocolVersion":"`+inspectProtocol+`","capabilities":`), capabilities, []byte(`,"serverInfo":`), f.identity(),
		[]byte(`,"instructions":`), rawjson.Quote(string(texts)+text), []byte("}"))
}

// merged puts the capabilities of two together: what one of them has, both have.
func merged(a, b []byte) []byte {
	one, err := rawjson.ParseObject(a)
	if err != nil {
		if bytes.Equal(b, []byte("true")) {
			return b
		}
		return a
	}
	other, err := rawjson.ParseObject(b)
	if err != nil {
		return a
	}
	out := one.Without()
	for _, added := range other.Members() {
		value := added.Value
		if had, ok := one.Get(added.Name); ok {
			value = merged(had, value)
		}
		so, err := rawjson.ParseObject(out)
		if err != nil {
			return a
		}
		out = so.Set(added.Name, value)
	}
	return out
}

// identity is part of face.
func (f *Front) identity() []byte {
	return slices.Concat([]byte(`{"name":"mcp-idem","version":`), rawjson.Quote(f.version), []byte("}"))
}

// serve is part of face.
func (f *Front) serve(ctx context.Context, x *Exchange, request jsonrpc.Message, level severity) jsonrpc.Message {
	welcome, err := f.greeting(ctx)
	x.server = f.identity()
	switch {
	case err != nil:
		return jsonrpc.ErrorReply(request.ID, unavailable(err))
	case request.Method == "server/discover":
		return jsonrpc.Result(request.ID, discovery(welcome))
	case level != 0:
		each(f.all(), func(m *member) {
			if m.isUp() {
				m.hub.heed(ctx, level)
			}
		})
	}
	return f.answer(ctx, x, request, func(ctx context.Context, m *member, x *Exchange, request jsonrpc.Message) jsonrpc.Message {
		return m.g.answer(ctx, x, request)
	})
}

// find is part of face.
func (f *Front) find(ctx context.Context, name string) (toolschema.Tool, error) {
	all, release := f.hold()
	defer release()
	r := routing{f: f, all: all}
	m, own := r.byName(name)
	if m == nil {
		return toolschema.Tool{}, errNoSuchTool
	}
	return m.hub.find(ctx, own)
}

// outward is a notification of the member as clients see it.
func (m *member) outward(n jsonrpc.Message) jsonrpc.Message {
	switch n.Method {
	case "notifications/resources/list_changed":
		m.front.where.invalidate(m)
	case "notifications/resources/updated":
		params, err := rawjson.ParseTo(n.Params, 1)
		if err != nil {
			return n
		}
		value := params.Get("uri")
		uri, _ := value.Text()
		if shown := m.front.where.shown(m.front.all(), m, uri); shown != uri {
			var edits rawjson.Edits
			edits.Replace(value.Start, value.End, rawjson.Quote(shown))
			return n.With("params", edits.Apply(params))
		}
	}
	return n
}

// An attendant is somebody who hears of what is granted of a filter.
type attendant struct {
	hear    func(jsonrpc.Message) bool
	granted mcp.SubscriptionFilter

	mu   sync.Mutex
	over bool
	subs map[*member]*subscriber
}

// takeIn lets the attendant hear of a member that has come anew.
func (a *attendant) takeIn(m *member) *subscriber {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over || a.subs[m] != nil {
		return a.subs[m]
	}
	s := &subscriber{
		uris: map[string]bool{}, hear: func(n jsonrpc.Message) bool { return a.hear(m.outward(n)) },
		wants: func(method string) bool { return admitsChange(a.granted, method) },
	}
	a.subs[m] = s
	m.hub.join(s)
	return s
}

// announce tells of what a change of the members changes.
func (a *attendant) announce() {
	for _, method := range []string{toolsChanged.Method, "notifications/prompts/list_changed", "notifications/resources/list_changed"} {
		if admitsChange(a.granted, method) {
			a.hear(jsonrpc.Notification(method, nil))
		}
	}
}

// attend is part of face.
func (f *Front) attend(ctx context.Context, asked mcp.SubscriptionFilter, hear func(jsonrpc.Message) bool) (mcp.SubscriptionFilter, func()) {
	all, release := f.hold()
	defer release()
	has := func(capability string) bool {
		return slices.ContainsFunc(all, func(m *member) bool { return m.declares(capability, "listChanged") })
	}
	a := &attendant{hear: hear, subs: map[*member]*subscriber{}, granted: mcp.SubscriptionFilter{
		ToolsListChanged:     asked.ToolsListChanged,
		PromptsListChanged:   asked.PromptsListChanged && has("prompts"),
		ResourcesListChanged: asked.ResourcesListChanged && has("resources"),
	}}
	f.mu.Lock()
	f.attendant[a] = true
	now := f.members
	f.mu.Unlock()
	for _, m := range now {
		a.takeIn(m)
	}
	granted := a.granted
	r := routing{f: f, all: all, from: &Exchange{Caller: newCaller(func(jsonrpc.Message) {})}, ask: func(ctx context.Context, m *member, x *Exchange, request jsonrpc.Message) jsonrpc.Message {
		return m.g.answer(ctx, x, request)
	}}
	for _, uri := range asked.ResourceSubscriptions {
		m, own := r.owner(ctx, uri)
		if m == nil || !m.declares("resources", "subscribe") {
			continue
		}
		granted.ResourceSubscriptions = append(granted.ResourceSubscriptions, m.hub.subscribeAll(ctx, a.takeIn(m), []string{own})...)
	}
	return granted, func() { f.dismiss(a) }
}

func (f *Front) dismiss(a *attendant) {
	f.mu.Lock()
	delete(f.attendant, a)
	f.mu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	for m, s := range a.subs {
		m.hub.leave(s)
	}
}

// announceTools tells all clients that the tools are others.
func (f *Front) announceTools() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for p := range f.parties {
		p.tell(toolsChanged)
	}
	for a := range f.attendant {
		if a.granted.ToolsListChanged {
			a.hear(toolsChanged)
		}
	}
}
