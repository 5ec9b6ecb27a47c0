package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// boundSchema is the inputSchema of a tool's definition where it binds arguments to
// headers, else nil.
func boundSchema(definition []byte) []byte {
	if !bytes.Contains(definition, []byte(`x-mcp-header`)) {
		return nil
	}
	o, err := rawjson.ParseObject(definition)
	if err != nil {
		return nil
	}
	schema, _ := o.Get("inputSchema")
	return schema
}

// MaxResourceSubscriptions is how many resources one subscriptions/listen may name.
const MaxResourceSubscriptions = 1000

// subscribe serves a subscriptions/listen until the client closes it or the gateway
// is shut down (basic/patterns/subscriptions, 2026-07-28).
func (h *HTTP) subscribe(a *arrival, m jsonrpc.Message) *refusal {
	asked, err := readFilter(m.Params)
	if err != nil || len(asked.ResourceSubscriptions) > MaxResourceSubscriptions {
		return refuse(http.StatusBadRequest, jsonrpc.CodeInvalidParams, "subscriptions/listen: the filter cannot be read, or names too much").forMessage(m)
	}
	ctx := a.r.Context()
	if _, err := h.site.greeting(ctx); err != nil {
		return (&refusal{status: http.StatusServiceUnavailable, problem: unavailable(err)}).forMessage(m)
	}
	answer := newStream()
	var acknowledged atomic.Bool
	granted, leave := h.site.attend(ctx, asked, func(n jsonrpc.Message) bool { return !acknowledged.Load() || answer.put(tagged(n, m.ID)) })
	defer leave()
	answer.put(acknowledgement(granted, m.ID))
	acknowledged.Store(true)

	last := modern.answer(m.Method, jsonrpc.Result(m.ID, slices.Concat([]byte(`{"_meta":{"`+mcp.MetaKeySubscriptionID+`":`), m.ID, []byte(`}}`))), h.site.identity())
	if granted.IsEmpty() { // nothing will come
		answer.end(last)
	}
	stop := context.AfterFunc(h.taking, func() { answer.end(last) })
	defer stop()
	answer.serve(ctx, a.w, true)
	return nil
}

func readFilter(params []byte) (f mcp.SubscriptionFilter, err error) {
	o, err := rawjson.ParseObject(params)
	if err != nil {
		return f, err
	}
	filter, ok := o.Get("notifications")
	if !ok {
		return f, nil
	}
	return f, json.Unmarshal(filter, &f)
}

// grant leaves of a filter what the upstream has declared that it tells of.
func (h *hub) grant(asked mcp.SubscriptionFilter) (granted mcp.SubscriptionFilter) {
	granted.ToolsListChanged = asked.ToolsListChanged && h.declares("tools", "listChanged")
	granted.PromptsListChanged = asked.PromptsListChanged && h.declares("prompts", "listChanged")
	granted.ResourcesListChanged = asked.ResourcesListChanged && h.declares("resources", "listChanged")
	if h.declares("resources", "subscribe") {
		granted.ResourceSubscriptions = asked.ResourceSubscriptions
	}
	return granted
}

func admitsChange(f mcp.SubscriptionFilter, method string) bool {
	switch method {
	case toolsChanged.Method:
		return f.ToolsListChanged
	case "notifications/prompts/list_changed":
		return f.PromptsListChanged
	case "notifications/resources/list_changed":
		return f.ResourcesListChanged
	}
	return false
}

// subscribeAll tells the upstream of resources, and returns those that it has
// granted.
func (h *hub) subscribeAll(ctx context.Context, s *subscriber, uris []string) (granted []string) {
	for _, uri := range uris {
		answer, err := h.subscribe(ctx, s, resourceRequest("resources/subscribe", uri))
		if err == nil && answer.Result != nil {
			granted = append(granted, uri)
		}
	}
	return granted
}

func acknowledgement(granted mcp.SubscriptionFilter, id []byte) jsonrpc.Message {
	filter, err := json.Marshal(granted)
	if err != nil {
		panic("gateway: a filter is made of plain values: " + err.Error())
	}
	return tagged(jsonrpc.Notification("notifications/subscriptions/acknowledged", slices.Concat([]byte(`{"notifications":`), filter, []byte("}"))), id)
}

// tagged returns a notification with the id of the subscription that it belongs to.
func tagged(m jsonrpc.Message, id []byte) jsonrpc.Message {
	params, err := rawjson.ParseObject(m.Params)
	if err != nil {
		params, _ = rawjson.ParseObject([]byte(`{}`))
	}
	meta, _ := params.Get("_meta")
	inner, err := rawjson.ParseObject(meta)
	if err != nil {
		inner, _ = rawjson.ParseObject([]byte(`{}`))
	}
	return m.With("params", params.Set("_meta", inner.Set(mcp.MetaKeySubscriptionID, id)))
}
