package upstreamtest

import (
	"fmt"
	"sync"
	"time"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// codeTaskCancelled is the error of a task that was cancelled.
const codeTaskCancelled = -32000

// A task is a call that goes on behind a handle. It is the line on which the call
// is answered then.
type task struct {
	id      string
	created time.Time
	over    chan struct{} // closed when the status is the last

	mu      sync.Mutex
	status  string
	begun   bool            // too late to cancel it
	outcome jsonrpc.Message // what the call would have been answered
}

// isTask reports whether a fault makes the call a task.
func (s *server) isTask(c call) bool {
	for _, f := range s.faults {
		if actions[f.action].kind == tasks && f.isFor(c) {
			return true
		}
	}
	return false
}

// hand answers the call with a handle and lets it go on behind it.
func (s *server) hand(c call) {
	s.mu.Lock()
	t := &task{id: fmt.Sprintf("task-%d", len(s.tasks)+1), created: time.Now(), status: "working", over: make(chan struct{})}
	s.tasks[t.id] = t
	s.mu.Unlock()
	handle := fmt.Appendf(nil, `{"task":%s}`, t.describe(false, ""))
	if c.modern {
		handle = t.describe(true, `,"resultType":"task"`)
	}
	inTask := c
	inTask.line = t
	s.behind.Go(func() { s.work(inTask) })
	c.line.answer(c.result(handle))
}

// describe writes the task as its era has it, with more members at its end.
func (t *task) describe(modern bool, more string) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	ttl, interval := "ttl", "pollInterval"
	if modern {
		ttl, interval = "ttlMs", "pollIntervalMs"
	}
	created := t.created.UTC().Format(time.RFC3339Nano)
	return fmt.Appendf(nil, `{"taskId":"%s","status":"%s","createdAt":"%s","lastUpdatedAt":"%s","%s":60000,"%s":50%s}`,
		t.id, t.status, created, created, ttl, interval, more)
}

// begin reports whether the task goes on: it was not cancelled, and it cannot be
// from now on.
func (t *task) begin() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begun = t.status == "working"
	return t.begun
}

func (t *task) cancel() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.status == "working" && !t.begun {
		t.status = "cancelled"
		close(t.over)
	}
}

// answer is the end of the task.
func (t *task) answer(m jsonrpc.Message) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.status != "working" {
		return
	}
	t.status, t.outcome = "completed", m
	if m.Error != nil {
		t.status = "failed"
	}
	close(t.over)
}

func (t *task) say(jsonrpc.Message)   {} // nobody listens
func (t *task) reply([]byte)          {} // so it works for ever
func (t *task) shape(fault)           {}
func (t *task) fail(fault)            {}
func (t *task) gone() <-chan struct{} { return t.over }

// onTask answers the requests about tasks.
func (s *server) onTask(c call) *jsonrpc.Message {
	id, _ := c.params.String("taskId")
	s.mu.Lock()
	t := s.tasks[id]
	s.mu.Unlock()
	reply := c.result([]byte(`{}`))
	switch {
	case c.modern && c.m.Method == "tasks/update":
	case c.modern && c.m.Method == "tasks/cancel":
		if t != nil {
			t.cancel()
		}
	case t == nil || c.m.Method == "tasks/update":
		return c.refused(jsonrpc.CodeInvalidParams, "Unknown task: %s", id)
	case c.m.Method == "tasks/result":
		return t.result(c)
	case c.m.Method == "tasks/cancel":
		t.cancel()
		fallthrough
	default:
		reply = c.result(t.describe(c.modern, t.inlined(c.modern)))
	}
	return &reply
}

// inlined are the members with which a modern task tells its end.
func (t *task) inlined(modern bool) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case modern && t.status == "completed":
		return `,"result":` + string(t.outcome.Result)
	case modern && t.status == "failed":
		return `,"error":` + string(t.outcome.Error)
	}
	return ""
}

// result waits for the end of the task and returns what came out.
func (t *task) result(c call) *jsonrpc.Message {
	select {
	case <-t.over:
	case <-c.line.gone():
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	reply := t.outcome.With("id", c.m.ID)
	switch t.status {
	case "cancelled":
		return c.refused(codeTaskCancelled, "Task cancelled")
	case "completed":
		raw := withDefault(t.outcome.Result, "_meta", "{}")
		object, err := rawjson.ParseObject(raw)
		must(err)
		meta, _ := object.Get("_meta")
		related := fmt.Sprintf(`{"taskId":"%s"}`, t.id)
		reply = jsonrpc.Result(c.m.ID, object.Set("_meta", withDefault(meta, "io.modelcontextprotocol/related-task", related)))
	}
	return &reply
}
