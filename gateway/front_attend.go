package gateway

import (
	"context"
	"slices"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

// listsChanged are the methods that announce changes of lists.
var listsChanged = []string{toolsChanged.Method, "notifications/prompts/list_changed", "notifications/resources/list_changed"}

func anyMethod(string) bool { return true }

// offers reports whether a member has a list whose changes a method announces.
func (m *member) offers(method string) bool {
	switch method {
	case toolsChanged.Method:
		return m.declares("tools", "")
	case "notifications/prompts/list_changed":
		return m.declares("prompts", "")
	}
	return m.declares("resources", "")
}

// willArrive prepares those who hear of changes for a member that is about to be there.
func (m *member) willArrive() {
	parties, _ := m.front.listeners()
	for _, p := range parties {
		p.willArrive()
	}
}

// arrived tells them that it is, and which of its lists have changed. It does not
// block.
func (m *member) arrived(which func(method string) bool) {
	parties, attendants := m.front.listeners()
	for _, p := range parties {
		p.arrived(m, which)
	}
	for _, a := range attendants {
		a.arrived(m, which)
	}
}

// An attendant is somebody who hears of what is granted of a filter.
type attendant struct {
	hear    func(jsonrpc.Message) bool
	granted mcp.SubscriptionFilter

	mu   sync.Mutex
	over bool
	subs map[*member]*subscriber
	uris map[string][]string // that were granted, as the member calls them, by its name
}

// takeIn lets the attendant hear of a member; nil where it hears of nothing any more.
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

// arrived tells of a member that is there. One that comes in the place of another is
// told what is wanted of it.
func (a *attendant) arrived(m *member, which func(method string) bool) {
	a.announce(func(method string) bool { return which(method) && m.offers(method) })
	held, ok := m.front.holdOne(m)
	if !ok {
		return
	}
	m.hub.work.Go(func() {
		defer held.release()
		s := a.takeIn(m)
		if s == nil || !m.declares("resources", "subscribe") {
			return
		}
		a.mu.Lock()
		uris := slices.Clone(a.uris[m.name])
		a.mu.Unlock()
		m.hub.mu.Lock()
		uris = slices.DeleteFunc(uris, func(uri string) bool { return s.uris[uri] })
		m.hub.mu.Unlock()
		m.hub.subscribeAll(m.g.life, s, uris)
	})
}

// lose forgets a member that was taken away.
func (a *attendant) lose(m *member) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.subs, m)
}

// announce tells of changes of the lists.
func (a *attendant) announce(which func(method string) bool) {
	for _, method := range listsChanged {
		if which(method) && admitsChange(a.granted, method) {
			a.hear(jsonrpc.Notification(method, nil))
		}
	}
}

// attend is part of face.
func (f *Front) attend(ctx context.Context, asked mcp.SubscriptionFilter, hear func(jsonrpc.Message) bool) (mcp.SubscriptionFilter, func()) {
	held := f.hold()
	defer held.release()
	has := func(capability string) bool {
		return slices.ContainsFunc(held.all, func(m *member) bool { return m.declares(capability, "") })
	}
	a := &attendant{hear: hear, subs: map[*member]*subscriber{}, uris: map[string][]string{}, granted: mcp.SubscriptionFilter{
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
	granted.ResourceSubscriptions = f.subscribe(ctx, a, held.all, asked.ResourceSubscriptions)
	return granted, func() { f.dismiss(a) }
}

// subscribe subscribes for an attendant to resources, and returns those of them that
// were granted.
func (f *Front) subscribe(ctx context.Context, a *attendant, all []*member, uris []string) (granted []string) {
	nobody := &Exchange{Caller: newCaller(unheard), respond: unheard}
	r := routing{f: f, all: all, from: nobody, request: jsonrpc.Request([]byte("0"), "resources/subscribe", nil), party: passers{}}
	for _, uri := range uris {
		m, own := r.owner(ctx, uri)
		if m == nil || !m.declares("resources", "subscribe") {
			continue
		}
		s := a.takeIn(m)
		if s == nil || len(m.hub.subscribeAll(ctx, s, []string{own})) == 0 {
			continue
		}
		granted = append(granted, uri)
		a.mu.Lock()
		a.uris[m.name] = append(a.uris[m.name], own)
		a.mu.Unlock()
	}
	return granted
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
	areTools := func(method string) bool { return method == toolsChanged.Method }
	parties, attendants := f.listeners()
	for _, p := range parties {
		p.announce(areTools)
	}
	for _, a := range attendants {
		a.announce(areTools)
	}
}
