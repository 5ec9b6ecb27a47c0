package gateway

import (
	"context"
	"time"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// rereadAfter is how old the lists of resources have to be before they are read again
// for one that is not among them.
const rereadAfter = 2 * time.Second

// owner finds the member that a resource is of, and what that calls it; nil where it
// cannot be known.
func (r *routing) owner(ctx context.Context, uri string) (*member, string) {
	found, own, isSure := r.f.where.find(r.all, uri)
	if isSure {
		return found, own
	}
	var old, having []*member
	for _, m := range r.all {
		if m.declares("resources", "") {
			having = append(having, m)
			if m.isUp() && r.f.where.isOlder(m, rereadAfter) && (found == nil || !r.f.where.isRead(m)) {
				old = append(old, m)
			}
		}
	}
	if len(having) == 1 {
		return having[0], uri
	}
	r.from.turn.leave() // reading the lists takes a while
	again := *r
	again.all = old
	for _, method := range []string{"resources/templates/list", "resources/list"} {
		_, _ = again.lists(ctx, method) // it is in the log
	}
	found, own, _ = r.f.where.find(r.all, uri)
	return found, own
}

// codeNoResource is the error of a resource that is not there (server/resources,
// 2025-11-25). The modern era has invalid params for it.
const codeNoResource = -32002

// resource routes a request by the URI of a resource.
func (r *routing) resource(ctx context.Context) jsonrpc.Message {
	params, err := rawjson.ParseTo(r.request.Params, 1)
	value := params.Get("uri")
	uri, ok := value.Text()
	if err != nil || !ok {
		return r.refuse(jsonrpc.CodeInvalidParams, "%s: the params have no uri; nothing was sent", r.request.Method)
	}
	m, own := r.owner(ctx, uri)
	switch {
	case m == nil && r.from.era == modern:
		return r.refuse(jsonrpc.CodeInvalidParams, "Resource not found: no server lists it; nothing was sent")
	case m == nil:
		return r.refuse(codeNoResource, "Resource not found: no server lists it; nothing was sent")
	case own == uri:
		return r.to(ctx, m, r.request)
	}
	var edits rawjson.Edits
	edits.Replace(value.Start, value.End, rawjson.Quote(own))
	return r.toAs(ctx, m, r.request.With("params", edits.Apply(params)), func(answer jsonrpc.Message) jsonrpc.Message {
		return readdressed(answer, own, uri)
	})
}

// readdressed is an answer in which contents have the URI that was asked for.
func readdressed(answer jsonrpc.Message, own, uri string) jsonrpc.Message {
	result, err := rawjson.ParseTo(answer.Result, 3)
	if err != nil {
		return answer
	}
	var edits rawjson.Edits
	for _, content := range result.Get("contents").Elements() {
		if value := content.Get("uri"); value != nil {
			if text, _ := value.Text(); text == own {
				edits.Replace(value.Start, value.End, rawjson.Quote(uri))
			}
		}
	}
	if edits.Empty() {
		return answer
	}
	return answer.With("result", edits.Apply(result))
}
