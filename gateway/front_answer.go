package gateway

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
	"github.com/mcp-idem/mcp-idem/toolschema"
)

// An asker has a member answer a request in the name of a client.
type asker func(ctx context.Context, m *member, x *Exchange, request jsonrpc.Message) jsonrpc.Message

// answer finds out which members a request concerns, and has them answer it. Nobody
// else gets to see it.
func (f *Front) answer(ctx context.Context, x *Exchange, request jsonrpc.Message, ask asker) jsonrpc.Message {
	all, release := f.hold()
	defer release()
	r := &routing{f, all, x, request, ask}
	switch {
	case request.Method == "tools/call":
		return r.call(ctx)
	case request.Method == "tools/list":
		return r.tools(ctx)
	case request.Method == "prompts/get":
		return r.named(ctx, "prompt")
	case listings[request.Method].member != "":
		return r.list(ctx)
	case request.Method == "resources/read", request.Method == "resources/subscribe", request.Method == "resources/unsubscribe":
		return r.resource(ctx)
	case request.Method == "completion/complete":
		return r.complete(ctx)
	case request.Method == "logging/setLevel":
		return r.setLevel(ctx)
	case isAboutTask(request):
		return r.task(ctx)
	}
	return r.refuse(jsonrpc.CodeMethodNotFound, "Method not found: %s (several servers stand behind this one, and it is not known whom it concerns)", request.Method)
}

// A routing is one request on its way to the members that it concerns.
type routing struct {
	f       *Front
	all     []*member
	from    *Exchange
	request jsonrpc.Message
	ask     asker
}

func (r *routing) refuse(code int, format string, args ...any) jsonrpc.Message {
	return jsonrpc.ErrorReply(r.request.ID, &jsonrpc.Error{Code: code, Message: fmt.Sprintf(format, args...)})
}

// within returns an exchange for a part of what the client has asked: the response to
// it goes to respond.
func (x *Exchange) within(respond func(jsonrpc.Message)) *Exchange {
	return &Exchange{
		Caller: x.Caller, era: x.era, server: x.server, level: x.level, keys: x.keys, stream: x.stream, turn: x.turn,
		respond: respond, notify: x.tell,
	}
}

func unheard(jsonrpc.Message) {}

// to hands the request, as the member is to get it, to the one member that it
// concerns. What the answer names belongs to that member from then on.
func (r *routing) to(ctx context.Context, m *member, request jsonrpc.Message) jsonrpc.Message {
	x := r.from.within(func(answer jsonrpc.Message) {
		r.f.learn(m, answer)
		r.from.respond(answer)
	})
	answer := r.ask(ctx, m, x, request)
	r.f.learn(m, answer)
	return answer
}

// byName finds the member that a name of the front's begins with, and the rest.
func (r *routing) byName(name string) (*member, string) {
	server, own, ok := strings.Cut(name, separator)
	i := slices.IndexFunc(r.all, func(m *member) bool { return m.name == server })
	if !ok || i < 0 {
		return nil, name
	}
	return r.all[i], own
}

// call routes a call of a tool.
func (r *routing) call(ctx context.Context) jsonrpc.Message {
	params, err := rawjson.ParseTo(r.request.Params, 1)
	if name, _ := params.Get("name").Text(); err == nil && name == StatusTool {
		r.from.turn.leave()
		return r.status(ctx)
	}
	return r.named(ctx, "tool")
}

// named routes a request by the name of a tool or prompt.
func (r *routing) named(ctx context.Context, what string) jsonrpc.Message {
	params, err := rawjson.ParseTo(r.request.Params, 1)
	name, isText := params.Get("name").Text()
	if err != nil || !isText {
		return r.refuse(jsonrpc.CodeInvalidParams, "%s: the params have no name; nothing was sent", r.request.Method)
	}
	m, own := r.byName(name)
	if m == nil {
		return r.refuse(jsonrpc.CodeInvalidParams, "Unknown %s: %s; nothing was sent", what, name)
	}
	return r.to(ctx, m, r.request.With("params", toolschema.Rename(r.request.Params, own)))
}

// status answers a call of the gateway's own tool: by the member whose tool the
// question names, or whose operation.
func (r *routing) status(ctx context.Context) jsonrpc.Message {
	if len(r.all) == 0 {
		return r.refuse(jsonrpc.CodeInvalidParams, "Unknown tool: %s; no server is configured", StatusTool)
	}
	m := r.all[0]
	if question, err := readStatusQuestion(r.request.Params); err == nil {
		if named, _ := r.byName(question.Tool); named != nil {
			m = named
		}
		for _, other := range r.all {
			if e, _, err := other.g.statusEntry(ctx, r.from, question); question.OperationID != "" && err == nil && other.g.isOf(e.Scope) {
				m = other
			}
		}
	}
	return m.g.Status(ctx, r.from, r.request)
}

// complete routes a request for completions by what they are for.
func (r *routing) complete(ctx context.Context) jsonrpc.Message {
	params, err := rawjson.ParseTo(r.request.Params, 2)
	ref := params.Get("ref")
	var m *member
	var edits rawjson.Edits
	if name := ref.Get("name"); name != nil {
		text, _ := name.Text()
		var own string
		m, own = r.byName(text)
		edits.Replace(name.Start, name.End, rawjson.Quote(own))
	} else if uri := ref.Get("uri"); uri != nil {
		text, _ := uri.Text()
		var own string
		m, own = r.owner(ctx, text)
		edits.Replace(uri.Start, uri.End, rawjson.Quote(own))
	}
	if err != nil || m == nil {
		return r.refuse(jsonrpc.CodeInvalidParams, "completion/complete: the params name nothing that any server has; nothing was sent")
	}
	return r.to(ctx, m, r.request.With("params", edits.Apply(params)))
}

// setLevel tells all members that log from which level on.
func (r *routing) setLevel(ctx context.Context) jsonrpc.Message {
	r.from.turn.leave()
	var mu sync.Mutex
	var refusal *jsonrpc.Message
	granted := false
	each(r.all, func(m *member) {
		if !m.isUp() || !m.declares("logging", "") {
			return
		}
		answer := r.ask(ctx, m, r.from.within(unheard), r.request)
		mu.Lock()
		defer mu.Unlock()
		if granted = granted || answer.Result != nil; answer.Result == nil {
			refusal = &answer
		}
	})
	if !granted && refusal != nil {
		return *refusal
	}
	return jsonrpc.Result(r.request.ID, []byte(`{}`))
}

// task routes a request about a task.
func (r *routing) task(ctx context.Context) jsonrpc.Message {
	params, _ := rawjson.ParseObject(r.request.Params) // what is none names no task
	id, _ := params.String("taskId")
	if m := r.f.handles.owner(r.all, id); m != nil {
		return r.to(ctx, m, r.request)
	}
	for _, m := range r.all {
		scope := m.g.options.Scope
		scope.Namespace = m.g.namespace(r.from)
		if _, err := r.f.ledger.Task(ctx, scope, id); err == nil {
			return r.to(ctx, m, r.request)
		}
	}
	return jsonrpc.ErrorReply(r.request.ID, errNoTask)
}

// learn notes what a member's answer names: resources, and the handle of a task.
func (f *Front) learn(m *member, answer jsonrpc.Message) {
	if bytes.Contains(answer.Result, []byte(`taskId`)) {
		f.handles.remember(taskOf(answer.Result).id, m)
	}
	if !bytes.Contains(answer.Result, []byte(`"uri"`)) {
		return
	}
	result, err := rawjson.ParseTo(answer.Result, 5)
	if err != nil {
		return
	}
	hear := func(block *rawjson.Value) {
		for _, holder := range []*rawjson.Value{block, block.Get("resource")} {
			if uri, ok := holder.Get("uri").Text(); ok {
				f.where.hear(m, uri)
			}
		}
	}
	for _, block := range result.Get("content").Elements() { // of a tool
		hear(block)
	}
	for _, message := range result.Get("messages").Elements() { // of a prompt
		hear(message.Get("content"))
	}
}

// handles knows whose the tasks are. The zero value knows none.
type handles struct {
	mu    sync.Mutex
	of    map[string]*member
	order []string
}

func (h *handles) remember(id string, m *member) {
	if id == "" {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.of == nil {
		h.of = map[string]*member{}
	}
	if other, known := h.of[id]; known {
		if other != m {
			h.of[id] = nil // two have chosen the same: whom is meant, nobody knows
		}
		return
	}
	h.of[id] = m
	if h.order = append(h.order, id); len(h.order) > maxTasks {
		delete(h.of, h.order[0])
		h.order = h.order[1:]
	}
}

func (h *handles) owner(all []*member, id string) *member {
	h.mu.Lock()
	defer h.mu.Unlock()
	if m := h.of[id]; slices.Contains(all, m) {
		return m
	}
	return nil
}
