package upstreamtest

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
)

func (r *rig) task(method, id string) string {
	return r.modern(9, method, id, `"taskId":"`+id+`"`).body
}

func TestAModernTask(t *testing.T) {
	t.Parallel()
	r := serveModern(t, "--fault", "refund:do=task", "--fault", "refund:when=before_effect,do=gate:go")
	assert.Contains(t, r.modern(1, "server/discover", "", "").body, `"extensions":{"io.modelcontextprotocol/tasks":{}}`)
	got := r.modern(1, "tools/call", "refund", `"name":"refund"`)
	assert.Contains(t, got.body, `"result":{"taskId":"task-1","status":"working","createdAt":"`)
	assert.Contains(t, got.body, `"ttlMs":60000,"pollIntervalMs":50,"resultType":"task"`)
	assert.Contains(t, r.task("tasks/get", "task-1"), `"status":"working"`)
	assert.Contains(t, r.task("tasks/update", "task-1"), `"resultType":"complete"`)
	r.count(1, 0)

	Open(t, r.dir, "go")
	assert.Contains(t, r.task("tasks/result", "task-1"), `"id":9,"result":{"content":[{"type":"text","text":"refunded re_1"}]`)
	last := r.task("tasks/get", "task-1")
	assert.Contains(t, last, `"status":"completed"`)
	assert.Contains(t, last, `"result":{"content":[{"type":"text","text":"refunded re_1"}]`)
	assert.Contains(t, last, `"resultType":"complete"`)
	assert.NotContains(t, r.task("tasks/cancel", "task-1"), "error")
	assert.Contains(t, r.task("tasks/get", "task-1"), `"status":"completed"`)
	assert.Contains(t, r.task("tasks/get", "task-7"), "Unknown task")
	assert.NotContains(t, r.task("tasks/cancel", "task-7"), "error")
	r.count(1, 1)
}

func TestATaskThatIsCancelledHasNoEffect(t *testing.T) {
	t.Parallel()
	r := serveModern(t, "--fault", "refund:do=task", "--fault", "refund:when=before_effect,do=gate:go")
	r.modern(1, "tools/call", "refund", `"name":"refund"`)
	WaitForFile(t, r.dir, "go.waiting")
	assert.NotContains(t, r.task("tasks/cancel", "task-1"), "error")
	assert.Contains(t, r.task("tasks/get", "task-1"), `"status":"cancelled"`)
	assert.Contains(t, r.task("tasks/result", "task-1"), "Task cancelled")
	Open(t, r.dir, "go")
	r.server.behind.Wait()
	r.count(1, 0)
}

func TestATaskThatFails(t *testing.T) {
	t.Parallel()
	r := serveModern(t, "--fault", "refund:do=task", "--fault", "refund:do=error:-32603:broke")
	r.modern(1, "tools/call", "refund", `"name":"refund"`)
	assert.Contains(t, r.task("tasks/result", "task-1"), `"id":9,"error":{"code":-32603,"message":"broke"}`)
	assert.Contains(t, r.task("tasks/get", "task-1"), `"error":{"code":-32603,"message":"broke"}`)
}

func TestATaskThatNeverEnds(t *testing.T) {
	t.Parallel()
	r := serveModern(t, "--fault", "refund:do=task", "--fault", "refund:do=drop")
	r.modern(1, "tools/call", "refund", `"name":"refund"`)
	WaitForEffects(t, r.effects, 1)
	assert.NotContains(t, r.task("tasks/cancel", "task-1"), "error")
	assert.Contains(t, r.task("tasks/get", "task-1"), `"status":"working"`, "it has had its effect")
}

func TestALegacyTask(t *testing.T) {
	t.Parallel()
	r := serve(t, "--fault", "refund:do=task")
	got := r.post(request(0, "initialize", `{"protocolVersion":"2025-11-25"}`))
	assert.Contains(t, got.body, `"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}`)
	r.header.Set("Mcp-Session-Id", got.header.Get("Mcp-Session-Id"))
	got = r.call("refund")
	assert.Contains(t, got.body, `"result":{"task":{"taskId":"task-1","status":"working"`)
	assert.Contains(t, got.body, `"ttl":60000,"pollInterval":50`)
	ask := func(method string) string {
		return r.post(request(2, method, `{"taskId":"task-1"}`)).body
	}
	assert.Contains(t, ask("tasks/result"), `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"task-1"}}`)
	assert.Contains(t, ask("tasks/get"), `"result":{"taskId":"task-1","status":"completed"`)
	assert.NotContains(t, ask("tasks/get"), "re_1", "it is fetched by tasks/result")
	assert.Contains(t, ask("tasks/cancel"), `"status":"completed"`)
	assert.Contains(t, ask("tasks/update"), "-32602")
	assert.Equal(t, http.StatusOK, r.call("get_balance").status)
	r.count(2, 1)
}
