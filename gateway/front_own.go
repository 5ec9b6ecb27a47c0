package gateway

import (
	"context"
	"strings"
	"sync"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// status answers a call of the gateway's own tool: by the member whose tool the
// question names, or whose operation.
func (r *routing) status(ctx context.Context) jsonrpc.Message {
	if len(r.all) == 0 {
		return r.refuse(jsonrpc.CodeInvalidParams, "Unknown tool: %s; no server is configured", StatusTool)
	}
	m, request := r.all[0], r.request
	if question, err := readStatusQuestion(r.request.Params); err == nil {
		m, request = r.statusOf(ctx, question)
	}
	return m.g.Status(ctx, r.from, request)
}

// statusOf finds the member that knows best of an operation, and the question as that
// is asked it.
func (r *routing) statusOf(ctx context.Context, q statusQuestion) (*member, jsonrpc.Message) {
	if q.OperationID != "" {
		for _, m := range r.all {
			if e, _, err := m.g.statusEntry(ctx, r.from, q); err == nil && m.g.isOf(e.Scope) {
				return m, r.request
			}
		}
		return r.all[0], r.request
	}
	if m, _ := r.byName(q.Tool); m != nil {
		return m, r.request
	}
	// It names a tool without its server, or of a server that is there no more.
	best, tool := r.all[0], q.Tool
	names := []string{q.Tool}
	if _, own, ok := strings.Cut(q.Tool, separator); ok {
		names = append(names, own)
	}
	for _, name := range names {
		for _, m := range r.all {
			about := q
			about.Tool = name
			_, isHere, err := m.g.statusEntry(ctx, r.from, about)
			if err == nil && isHere {
				return m, asksOf(r.request, name)
			}
			if err == nil {
				best, tool = m, name
			}
		}
	}
	return best, asksOf(r.request, tool)
}

// asksOf is a question for the status of a call of another tool.
func asksOf(request jsonrpc.Message, tool string) jsonrpc.Message {
	params, err := rawjson.ParseTo(request.Params, 2)
	if err != nil {
		return request
	}
	named := params.Get("arguments").Get("tool")
	if named == nil {
		return request
	}
	var edits rawjson.Edits
	edits.Replace(named.Start, named.End, rawjson.Quote(tool))
	return request.With("params", edits.Apply(params))
}

// task routes a request about a task. Where two have a task of its id, nobody is asked:
// a cancellation could end the wrong one.
func (r *routing) task(ctx context.Context) jsonrpc.Message {
	params, _ := rawjson.ParseObject(r.request.Params) // what is none names no task
	id, _ := params.String("taskId")
	name, isKnown := r.f.handles.owner(id)
	var m *member
	switch {
	case !isKnown:
		m = r.recordedTask(ctx, id)
	case name == "":
		return r.refuse(jsonrpc.CodeInvalidParams, "Task not found: more than one server has a task of this id, and it is not known whose is meant; nothing was sent")
	default:
		m = r.memberOf(name)
	}
	if m == nil {
		return jsonrpc.ErrorReply(r.request.ID, errNoTask)
	}
	return r.to(ctx, m, r.request)
}

// recordedTask finds the member whose task it is by the ledger, or because no other has
// tasks.
func (r *routing) recordedTask(ctx context.Context, id string) (found *member) {
	var having []*member
	for _, m := range r.all {
		scope := m.g.options.Scope
		scope.Namespace = m.g.namespace(r.from)
		_, err := r.f.ledger.Task(ctx, scope, id)
		switch {
		case err == nil && found != nil:
			return nil
		case err == nil:
			found = m
		}
		if m.declares("tasks", "") {
			having = append(having, m)
		}
	}
	if found == nil && len(having) == 1 {
		return having[0]
	}
	return found
}

// handles knows by name whose the tasks are: one that comes in the place of another may
// be the same server. The zero value knows none.
type handles struct {
	mu    sync.Mutex
	of    map[string]string // empty where two have chosen the same id
	order []string
}

func (h *handles) remember(id string, m *member) {
	if id == "" {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.of == nil {
		h.of = map[string]string{}
	}
	if other, known := h.of[id]; known {
		if other != m.name {
			h.of[id] = "" // whom is meant, nobody knows
		}
		return
	}
	h.of[id] = m.name
	if h.order = append(h.order, id); len(h.order) > maxTasks {
		delete(h.of, h.order[0])
		h.order = h.order[1:]
	}
}

// owner returns whose a task is, empty where two have chosen its id.
func (h *handles) owner(id string) (name string, isKnown bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	name, isKnown = h.of[id]
	return name, isKnown
}
