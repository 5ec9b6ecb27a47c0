package gateway

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// noteWithin bounds the writing of what was heard of a task.
const noteWithin = 30 * time.Second

// A task is what an upstream's result says of one.
type task struct {
	id     string
	status dedup.TaskStatus
}

// taskOf reads a handle or a status of a task: the result itself, or its member task
// (2025-11-25, basic/utilities/tasks).
func taskOf(result []byte) (t task) {
	o, err := rawjson.ParseObject(result)
	if err != nil {
		return t
	}
	if inner, ok := o.Get("task"); ok {
		if o, err = rawjson.ParseObject(inner); err != nil {
			return t
		}
	}
	t.id, _ = o.String("taskId")
	status, _ := o.String("status")
	t.status = dedup.TaskStatus(status)
	inline, _ := o.Get("result")
	if t.status == dedup.TaskCompleted && isErrorResult(inline) {
		t.status = dedup.TaskFailed
	}
	return t
}

// endOf reads what an answer to a request about a task says of its end. The answer to
// tasks/result is the task's own, and comes when that has ended.
func endOf(request, answer jsonrpc.Message) (t task) {
	switch request.Method {
	case "tasks/get", "tasks/cancel":
		t = taskOf(answer.Result)
	case "tasks/result":
		t.status = resultStatus(answer.Result)
	default:
		return task{}
	}
	params, err := rawjson.ParseObject(request.Params)
	if err != nil {
		return task{}
	}
	t.id, _ = params.String("taskId")
	return t
}

func resultStatus(result []byte) dedup.TaskStatus {
	o, err := rawjson.ParseObject(result)
	if err != nil {
		return ""
	}
	switch kind, ok := o.String("resultType"); {
	case ok && kind != "complete":
		return "" // it has not ended
	case isErrorResult(result):
		return dedup.TaskFailed
	}
	return dedup.TaskCompleted
}

func isErrorResult(result []byte) bool {
	o, err := rawjson.ParseObject(result)
	if err != nil {
		return false
	}
	flag, _ := o.Get("isError")
	return string(flag) == "true"
}

// maxTasks is how many tasks of calls that nobody records are known.
const maxTasks = 4096

var errNoTask = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Task not found"}

// tasks knows whose the tasks are of calls that nobody records, where several
// principals share an upstream.
type tasks struct {
	strangers bool // they do

	mu         sync.Mutex
	namespaces map[string]string // by task id
	order      []string
}

func (t *tasks) remember(id, namespace string) {
	if !t.strangers || id == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.namespaces[id]; known {
		return // it stays whose it was
	}
	if t.namespaces == nil {
		t.namespaces = map[string]string{}
	}
	t.namespaces[id] = namespace
	if t.order = append(t.order, id); len(t.order) > maxTasks {
		delete(t.namespaces, t.order[0])
		t.order = t.order[1:]
	}
}

func (t *tasks) isOf(id, namespace string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	owner, known := t.namespaces[id]
	return known && owner == namespace
}

func isAboutTask(request jsonrpc.Message) bool { return strings.HasPrefix(request.Method, "tasks/") }

// admitsToTask reports whether a caller may ask about a task, or for all of them: of
// several principals that share an upstream each gets at its own alone.
func (g *Gateway) admitsToTask(ctx context.Context, from *Exchange, request jsonrpc.Message) bool {
	if !g.tasks.strangers {
		return true
	}
	params, err := rawjson.ParseObject(request.Params)
	if err != nil {
		return false
	}
	id, named := params.String("taskId")
	if !named {
		return false
	}
	scope := g.options.Scope
	scope.Namespace = g.namespace(from)
	if g.tasks.isOf(id, scope.Namespace) {
		return true
	}
	_, err = g.ledger.Task(ctx, scope, id)
	return err == nil
}

// hearOfTask notes the end of a task that passes through with the answer to a request.
func (g *Gateway) hearOfTask(request, answer jsonrpc.Message) {
	if t := endOf(request, answer); t.id != "" && t.status.Terminal() {
		_, _ = g.noteEnd(t) // it is in the log
	}
}

// noteEnd notes the end of a task, and returns the operation as it stands then. Tasks
// of calls that nobody records are nobody's.
func (g *Gateway) noteEnd(t task) (dedup.Entry, error) {
	ctx, cancel := context.WithTimeout(context.Background(), noteWithin)
	defer cancel()
	e, err := g.ledger.TaskEnded(ctx, g.options.Scope, t.id, t.status)
	switch {
	case errors.Is(err, dedup.ErrNotFound):
	case err != nil:
		g.log.Error().Err(err).Msg("the end of a task could not be written to the ledger")
	default:
		g.log.Info().Str("operation_id", e.ID.String()).Str("status", string(e.TaskStatus)).Msg("task ended")
	}
	return e, err
}
