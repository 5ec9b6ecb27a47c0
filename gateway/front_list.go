package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
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
		lists[slices.Index(r.all, m)] = m.offered(read)
	})
	if keyed {
		return r.whole("tools", lists, statusDefinition(StatusTool))
	}
	return r.whole("tools", lists)
}

// readTools returns a member's tools, or those that it had last; nil where none are
// known. One that was late keeps nobody waiting again: its tools are announced when
// they come.
func (m *member) readTools(ctx context.Context) *tools {
	last, _ := m.g.tools.current()
	if !m.isUp() || !m.g.hasTools.Load() {
		return last
	}
	if m.late.Load() {
		m.awaitTools()
		return last
	}
	limit, cancel := m.within(ctx)
	defer cancel()
	read, err := m.g.tools.get(limit)
	if limit.Err() != nil && ctx.Err() == nil {
		m.late.Store(true)
		m.awaitTools()
	}
	if err != nil {
		m.g.log.Warn().Err(err).Msg("the tools of a server could not be listed")
		return last
	}
	m.g.tools.offer(read)
	return read
}

// awaitTools has the tools of a member that is late announced when they come.
func (m *member) awaitTools() {
	if !m.awaited.CompareAndSwap(false, true) {
		return
	}
	m.hub.work.Go(func() {
		defer m.awaited.Store(false)
		if _, err := m.g.tools.reread(m.g.life); err == nil {
			m.late.Store(false)
			m.front.announceTools()
		}
	})
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
		lists[slices.Index(r.all, m)] = append([][]byte{}, list...)
		if any = any || list != nil; err != nil {
			failure = err
		}
	})
	if any {
		failure = nil
	}
	return lists, failure
}

// lateWithin is how long a list is waited for that did not come in time before.
const lateWithin = time.Second

// patience bounds how long a list of the member is waited for.
func (m *member) patience(ctx context.Context, method string) (context.Context, context.CancelFunc) {
	m.mu.Lock()
	isSlow := m.slow[method]
	m.mu.Unlock()
	if isSlow {
		return context.WithTimeout(ctx, lateWithin)
	}
	return m.within(ctx)
}

// pages reads all pages of a member's list.
func (r *routing) pages(ctx context.Context, m *member, method string) ([][]byte, error) {
	if !m.isUp() {
		return nil, fmt.Errorf("the server is down: %w", m.trouble())
	}
	limit, cancel := m.patience(ctx, method)
	defer cancel()
	list, cursor := [][]byte{}, ""
	for range MaxToolPages {
		answer := r.party.ask(limit, m, r.from.within(unheard), r.pageOf(method, cursor))
		m.mu.Lock()
		m.slow[method] = limit.Err() != nil && (ctx.Err() == nil || m.slow[method])
		m.mu.Unlock()
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
		next, _ := result.Get("nextCursor").Text()
		if next == "" || next == cursor { // one that leads back leads nowhere
			return list, nil
		}
		cursor = next
	}
	return nil, fmt.Errorf("%s has more than %d pages", method, MaxToolPages)
}

// pageOf asks for one page in the client's words, but for a token of progress, which
// would come from several.
func (r *routing) pageOf(method, cursor string) jsonrpc.Message {
	request := jsonrpc.Request(r.request.ID, method, nil)
	given, _ := rawjson.ParseObject(r.request.Params) // what is none says nothing
	said, _ := given.Get("_meta")
	meta, err := rawjson.ParseObject(said)
	if r.request.Method != method || err != nil {
		meta, _ = rawjson.ParseObject([]byte(`{}`))
	}
	params, _ := rawjson.ParseObject([]byte(`{}`))
	if rest := meta.Without("progressToken"); !bytes.Equal(bytes.ReplaceAll(rest, []byte(" "), nil), []byte(`{}`)) {
		params, _ = rawjson.ParseObject(params.Set("_meta", rest))
	}
	if cursor != "" {
		params, _ = rawjson.ParseObject(params.Set("cursor", rawjson.Quote(cursor)))
	}
	if len(params.Members()) == 0 {
		return request
	}
	return request.With("params", params.Without())
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
		if uri, ok := o.Get(idMember[method]).Text(); ok {
			uris = append(uris, uri)
		}
	}
	switch method {
	case "resources/list":
		m.front.where.list(m, uris)
	case "resources/templates/list":
		m.front.where.listTemplates(m, uris)
	case "tasks/list":
		for _, id := range uris {
			m.front.handles.remember(id, m)
		}
	}
}

func (m *member) lastList(method string) [][]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lists[method]
}

// idMember is where an element of a list says what it is called, in the whole front.
var idMember = map[string]string{"resources/list": "uri", "resources/templates/list": "uriTemplate", "tasks/list": "taskId"}

// shown is an element of a member's list as clients see it.
func (m *member) shown(all []*member, method string, element []byte) []byte {
	o, err := rawjson.ParseTo(element, 1)
	if err != nil {
		return element
	}
	switch method {
	case "tasks/list":
		return element
	case "prompts/list":
		if name, ok := o.Get("name").Text(); ok {
			return toolschema.Rename(element, m.name+separator+name)
		}
		return element
	}
	value := o.Get(idMember[method])
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
