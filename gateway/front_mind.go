package gateway

import (
	"sync"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

// mindful keeps in mind what a client has asked members to keep in mind: one that comes
// later, or in the place of another, is told too. What the same member is to be told
// after a restart knows its Gateway. The zero value is ready to use.
type mindful struct {
	mu    sync.Mutex
	wants map[string]*wish
}

// A wish is a request that a member which comes is to get.
type wish struct {
	of      string // the name of the member; empty: all that log
	request jsonrpc.Message
	told    map[*member]bool
}

// granted notes that a member has granted a request.
func (k *mindful) granted(m *member, request jsonrpc.Message) {
	what := m.name + " " + uriOf(request)
	k.mu.Lock()
	defer k.mu.Unlock()
	switch request.Method {
	case "logging/setLevel":
		if w := k.wants[request.Method]; w != nil {
			w.told[m] = true
		}
	case "resources/subscribe":
		k.keep(what, &wish{m.name, request, map[*member]bool{m: true}})
	case "resources/unsubscribe":
		delete(k.wants, what)
	}
}

// asks notes from which level on the client wants log messages, before it is told to
// anybody.
func (k *mindful) asks(request jsonrpc.Message) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keep(request.Method, &wish{request: request, told: map[*member]bool{}})
}

// keep is called with the lock held.
func (k *mindful) keep(what string, w *wish) {
	if k.wants == nil {
		k.wants = map[string]*wish{}
	}
	if k.wants[what] != nil || len(k.wants) < MaxRequestsInFlight {
		k.wants[what] = w
	}
}

// untold are the requests that a member has to be told of. They are taken to be told.
func (k *mindful) untold(m *member) (requests []jsonrpc.Message) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, w := range k.wants {
		isFor := w.of == "" && m.declares("logging", "") || w.of == m.name && m.declares("resources", "subscribe")
		if isFor && !w.told[m] {
			w.told[m] = true
			requests = append(requests, w.request)
		}
	}
	return requests
}

// lose forgets a member that was taken away.
func (k *mindful) lose(m *member) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, w := range k.wants {
		delete(w.told, m)
	}
}
