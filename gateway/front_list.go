package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
	"github.com/mcp-idem/mcp-idem/toolschema"
	"github.com/mcp-idem/mcp-idem/upstream"
)

// A listing is what a request lists.
type listing struct {
	capability, inner string // that has to be declared for it
	member            string // of the result
}

var listings = map[string]listing{
	"prompts/list":             {"prompts", "", "prompts"},
	"resources/list":           {"resources", "", "resources"},
	"resources/templates/list": {"resources", "", "resourceTemplates"},
	"tasks/list":               {"tasks", "list", "tasks"},
}

// offeredTools are the elements of a member's tools/list as clients see them.
type offeredTools struct {
	of       *tools
	elements [][]byte
}

// whole answers with one list that is put together of all members'. It has one page:
// clients that do not turn pages would see the first member alone.
func (r *routing) whole(member string, lists [][][]byte, last ...[]byte) jsonrpc.Message {
	var all [][]byte
	for _, list := range lists {
		all = append(all, list...)
	}
	all = append(all, last...)
	out := append([]byte{'{'}, rawjson.Quote(member)...)
	out = append(append(out, ':', '['), bytes.Join(all, []byte(","))...)
	return jsonrpc.Result(r.request.ID, append(out, ']', '}'))
}

// knowsNoCursor refuses a cursor: there is none that was ever given out.
func (r *routing) knowsNoCursor() *jsonrpc.Message {
	cursor, err := cursorOf(r.request.Params)
	if err == nil && cursor != "" {
		err = errors.New("unknown cursor")
	}
	if err == nil {
		return nil
	}
	refused := r.refuse(jsonrpc.CodeInvalidParams, "%s: %s", r.request.Method, err)
	return &refused
}

// within bounds how long a member may keep the others waiting.
func (m *member) within(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := m.g.options.Upstream.StartTimeout
	if limit == 0 {
		limit = upstream.DefaultStartTimeout
	}
	return context.WithTimeout(ctx, limit)
}

// tools answers tools/list.
func (r *routing) tools(ctx context.Context) jsonrpc.Message {
	if refused := r.knowsNoCursor(); refused != nil {
		return *refused
	}
	lists := make([][][]byte, len(r.all))
	keyed := false
	var mu sync.Mutex
	each(r.all, func(m *member) {
		read := m.readTools(ctx)
		if read == nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		keyed = keyed || read.isKeyed(m.g.options.Policy.OnProblem)
		lists[m.place(r.all)] = m.offered(read)
	})
	if keyed {
		return r.whole("tools", lists, statusDefinition(StatusTool))
	}
	return r.whole("tools", lists)
}

func (m *member) place(all []*member) int {
	for i, other := range all {
		if other == m {
			return i
		}
	}
	panic("gateway: a front has no such member")
}

// readTools returns a member's tools, or those that it had last; nil where none are
// known. When a member is late, its tools are announced.
func (m *member) readTools(ctx context.Context) *tools {
	last, _ := m.g.tools.current()
	if !m.isUp() || !m.g.hasTools.Load() {
		return last
	}
	limit, cancel := m.within(ctx)
	defer cancel()
	read, err := m.g.tools.get(limit)
	if err == nil {
		m.g.tools.offer(read)
		return read
	}
	m.g.log.Warn().Err(err).Msg("the tools of a server could not be listed")
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		m.hub.work.Go(func() {
			if _, err := m.g.tools.get(m.g.life); err == nil {
				m.front.announceTools()
			}
		})
	}
	return last
}

// offered are the elements of a reading.
func (m *member) offered(read *tools) [][]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tools.of == read {
		return m.tools.elements
	}
	m.tools = offeredTools{of: read}
	for _, p := range read.pages {
		if page, err := rawjson.ParseTo(p.result, 2); err == nil {
			for _, definition := range page.Get("tools").Elements() {
				m.tools.elements = append(m.tools.elements, definition.Raw())
			}
		}
	}
	return m.tools.elements
}

// list answers a request that lists something else.
func (r *routing) list(ctx context.Context) jsonrpc.Message {
	if refused := r.knowsNoCursor(); refused != nil {
		return *refused
	}
	r.from.turn.leave()
	lists, err := r.lists(ctx, r.request.Method)
	var refused *jsonrpc.Error
	switch {
	case errors.As(err, &refused):
		return jsonrpc.ErrorReply(r.request.ID, refused)
	case err != nil:
		return jsonrpc.ErrorReply(r.request.ID, unavailable(err))
	}
	for i, m := range r.all {
		for j, element := range lists[i] {
			lists[i][j] = m.shown(r.all, r.request.Method, element)
		}
	}
	return r.whole(listings[r.request.Method].member, lists)
}

// lists asks all members that have such a list for it. It fails where none of them
// answers, and none has before.
func (r *routing) lists(ctx context.Context, method string) ([][][]byte, error) {
	kind := listings[method]
	lists := make([][][]byte, len(r.all))
	var mu sync.Mutex
	var failure error
	any := false
	each(r.all, func(m *member) {
		if !m.declares(kind.capability, "") || kind.inner != "" && !m.hub.has(kind.capability, kind.inner) {
			return
		}
		list, err := r.pages(ctx, m, method)
		if err != nil {
			m.g.log.Warn().Err(err).Str("method", method).Msg("a list of a server could not be read")
			list = m.lastList(method)
		} else {
			m.keep(method, list)
		}
		mu.Lock()
		defer mu.Unlock()
		lists[m.place(r.all)] = append([][]byte{}, list...)
		if any = any || list != nil; err != nil {
			failure = err
		}
	})
	if any {
		failure = nil
	}
	return lists, failure
}

// pages reads all pages of a member's list.
func (r *routing) pages(ctx context.Context, m *member, method string) ([][]byte, error) {
	if !m.isUp() {
		return nil, fmt.Errorf("the server is down: %w", m.trouble())
	}
	ctx, cancel := m.within(ctx)
	defer cancel()
	list, cursor := [][]byte{}, ""
	for range MaxToolPages {
		request := jsonrpc.Request(r.request.ID, method, nil)
		if cursor != "" {
			request = request.With("params", append(append([]byte(`{"cursor":`), rawjson.Quote(cursor)...), '}'))
		}
		x := r.from.within(unheard)
		x.turn = nil
		answer := r.ask(ctx, m, x, request)
		if refused, ok := jsonrpc.ParseError(answer.Error); ok {
			return nil, refused
		}
		result, err := rawjson.ParseTo(answer.Result, 2)
		if err != nil {
			return nil, err
		}
		for _, element := range result.Get(listings[method].member).Elements() {
			list = append(list, element.Raw())
		}
		if cursor, _ = result.Get("nextCursor").Text(); cursor == "" {
			return list, nil
		}
	}
	return nil, fmt.Errorf("%s has more than %d pages", method, MaxToolPages)
}

// keep keeps a list as the last good one.
func (m *member) keep(method string, list [][]byte) {
	m.mu.Lock()
	m.lists[method] = list
	m.mu.Unlock()
	var uris []string
	for _, element := range list {
		o, err := rawjson.ParseTo(element, 1)
		if err != nil {
			continue
		}
		if uri, ok := o.Get(uriMember[method]).Text(); ok {
			uris = append(uris, uri)
		}
	}
	switch method {
	case "resources/list":
		m.front.where.list(m, uris)
	case "resources/templates/list":
		m.front.where.listTemplates(m, uris)
	}
}

func (m *member) lastList(method string) [][]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lists[method]
}

// uriMember is where an element of a list has its URI.
var uriMember = map[string]string{"resources/list": "uri", "resources/templates/list": "uriTemplate"}

// shown is an element of a member's list as clients see it.
func (m *member) shown(all []*member, method string, element []byte) []byte {
	o, err := rawjson.ParseTo(element, 1)
	if err != nil {
		return element
	}
	if method == "prompts/list" {
		if name, ok := o.Get("name").Text(); ok {
			return toolschema.Rename(element, m.name+separator+name)
		}
		return element
	}
	value := o.Get(uriMember[method])
	uri, ok := value.Text()
	if !ok {
		return element
	}
	shown := m.front.where.shown(all, m, uri)
	if shown == uri {
		return element
	}
	var edits rawjson.Edits
	edits.Replace(value.Start, value.End, rawjson.Quote(shown))
	return edits.Apply(o)
}

// rereadAfter is how old the lists of resources have to be before they are read again
// for one that is not among them.
const rereadAfter = 2 * time.Second

// owner finds the member that a resource is of, and what that calls it; nil where it
// cannot be known.
func (r *routing) owner(ctx context.Context, uri string) (*member, string) {
	if m, own := r.f.where.find(r.all, uri); m != nil {
		return m, own
	}
	var old, having []*member
	for _, m := range r.all {
		if m.declares("resources", "") {
			having = append(having, m)
			if m.isUp() && r.f.where.isOlder(m, rereadAfter) {
				old = append(old, m)
			}
		}
	}
	if len(having) == 1 {
		return having[0], uri
	}
	again := *r
	again.all = old
	for _, method := range []string{"resources/templates/list", "resources/list"} {
		_, _ = again.lists(ctx, method) // it is in the log
	}
	return r.f.where.find(r.all, uri)
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
	answer := r.ask(ctx, m, r.from.within(unheard), r.request.With("params", edits.Apply(params)))
	return readdressed(answer, own, uri)
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
