package upstreamtest

import (
	"fmt"
	"slices"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// A filter is what the client of a subscriptions/listen wants to be told, as far
// as the server can tell it.
type filter struct {
	tools bool
	uris  []string
}

func parseFilter(params rawjson.Object) (f filter) {
	raw, _ := params.Get("notifications")
	wanted, _ := rawjson.ParseObject(raw)
	tools, _ := wanted.Get("toolsListChanged")
	f.tools = string(tools) == "true"
	list, _ := wanted.Get("resourceSubscriptions")
	uris, _ := rawjson.ParseArray(list)
	for _, raw := range uris {
		uri, _ := rawjson.Unquote(raw)
		f.uris = append(f.uris, uri)
	}
	return f
}

func (f filter) empty() bool { return !f.tools && len(f.uris) == 0 }

// wants reports whether a notification passes the filter.
func (f filter) wants(m jsonrpc.Message) bool {
	params, _ := rawjson.ParseObject(m.Params)
	switch m.Method {
	case "notifications/tools/list_changed":
		return f.tools
	case "notifications/resources/updated":
		uri, _ := params.String("uri")
		return slices.Contains(f.uris, uri)
	}
	return false
}

// raw writes the filter as it is acknowledged.
func (f filter) raw() []byte {
	out := []byte(`{}`)
	if f.tools {
		out = withDefault(out, "toolsListChanged", "true")
	}
	if len(f.uris) > 0 {
		list := []byte(`[`)
		for i, uri := range f.uris {
			if i > 0 {
				list = append(list, ',')
			}
			list = append(list, rawjson.Quote(uri)...)
		}
		out = withDefault(out, "resourceSubscriptions", string(append(list, ']')))
	}
	return out
}

// subscribe makes it possible to end the subscription that a request will open. It
// comes before whatever the client writes after the request.
func (s *server) subscribe(id []byte) *ending {
	over := newEnding()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listening[jsonrpc.IDKey(id)] = over.end
	return over
}

func (s *server) unsubscribe(id []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listening, jsonrpc.IDKey(id))
}

// listen serves a subscription until the client ends it, or forget does.
func (s *server) listen(c call) *jsonrpc.Message {
	defer s.unsubscribe(c.m.ID)
	tag := fmt.Sprintf(`{"%s":%s}`, mcp.MetaKeySubscriptionID, c.m.ID)
	f := parseFilter(c.params)
	if f.empty() {
		c.over.end()
	}
	say := func(m jsonrpc.Message) {
		if f.wants(m) {
			c.line.say(m.With("params", tagged(m.Params, tag)))
		}
	}
	acknowledge := func() {
		c.line.say(jsonrpc.Notification("notifications/subscriptions/acknowledged",
			fmt.Appendf(nil, `{"notifications":%s,"_meta":%s}`, f.raw(), tag)))
		if s.listChanged {
			say(jsonrpc.Notification("notifications/tools/list_changed", nil))
		}
	}
	s.hub.attend(c.line.gone(), c.over, acknowledge, say)
	reply := c.result([]byte(`{"_meta":` + tag + `}`))
	return &reply
}

func tagged(params []byte, tag string) []byte {
	if len(params) == 0 {
		params = []byte(`{}`)
	}
	return withDefault(params, "_meta", tag)
}
