package gateway_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcp-idem/mcp-idem/gateway"
)

const taskQuestion = `{"taskId":"marker-result"}`

func TestTheEndOfATaskIsToldOnceItHasPassed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handle, method, answer string
		outcome, effect, line  string
	}{
		"working":                 {method: "tasks/get", answer: `{"taskId":"marker-result","status":"working"}`, outcome: gateway.Accepted, effect: "unknown", line: "^ACCEPTED: the call was accepted as a task on"},
		"completed":               {method: "tasks/get", answer: `{"taskId":"marker-result","status":"completed"}`, outcome: gateway.Completed, effect: "executed", line: `^COMPLETED: the call was accepted as a task on .*, which has been completed since\.$`},
		"failed":                  {method: "tasks/get", answer: `{"taskId":"marker-result","status":"failed"}`, outcome: gateway.Completed, effect: "unknown", line: `which has ended uncompleted since\.$`},
		"cancelled":               {method: "tasks/cancel", answer: `{"task":{"taskId":"marker-result","status":"cancelled"}}`, outcome: gateway.Completed, effect: "unknown", line: `which has been cancelled since\.$`},
		"completed with an error": {method: "tasks/get", answer: `{"taskId":"marker-result","status":"completed","result":{"isError":true}}`, outcome: gateway.Completed, effect: "unknown", line: `which has ended uncompleted since\.$`},
		"its result":              {method: "tasks/result", answer: `{"content":[]}`, outcome: gateway.Completed, effect: "executed", line: `which has been completed since\.$`},
		"its result, an error":    {method: "tasks/result", answer: `{"content":[],"isError":true}`, outcome: gateway.Completed, effect: "unknown", line: `which has ended uncompleted since\.$`},
		"its result, a question":  {method: "tasks/result", answer: `{"resultType":"input_required"}`, outcome: gateway.Accepted, effect: "unknown", line: "^ACCEPTED: "},
		"a handle of the modern":  {handle: `{"resultType":"task","taskId":"marker-result","status":"working","content":[]}`, method: "tasks/get", answer: `{"status":"completed"}`, outcome: gateway.Completed, effect: "executed", line: "^COMPLETED: "},
		"of another task":         {handle: `{"task":{"taskId":"another","status":"working"},"content":[]}`, method: "tasks/get", answer: `{"status":"completed"}`, outcome: gateway.Accepted, effect: "unknown", line: "^ACCEPTED: "},
		"another method":          {method: "tasks/list", answer: `{"taskId":"marker-result","status":"completed"}`, outcome: gateway.Accepted, effect: "unknown", line: "^ACCEPTED: "},
		"a handle that has ended": {handle: `{"task":{"taskId":"marker-result","status":"failed"},"content":[]}`, outcome: gateway.Completed, effect: "unknown", line: "which has ended uncompleted since"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			handle := c.handle
			if handle == "" {
				handle = taskResult
			}
			r := newRig(t, refundTool, nil)
			r.server.on("refund", func(call *call) { call.answer(handle) })
			r.server.on(c.method, func(call *call) { call.answer(c.answer) })
			first := r.call("refund", refundA1)
			assert.Equal(t, handle, string(first.result.Without("_meta")))
			later := r.another(nil) // on another gateway, as after a restart
			if c.method != "" {
				first.require(gateway.Accepted, "reason", "task", "effect", "unknown")
				assert.JSONEq(t, c.answer, string(later.request(c.method, taskQuestion).wait().Result), "it passes as it is")
			}
			replay := later.call("refund", refundA1).require(c.outcome, "was_replay", "true", "reason", "task", "effect", c.effect)
			assert.Equal(t, handle, string(replay.result.Without("_meta")), "the handle stays as it is")
			if strings.Contains(c.line, "uncompleted") || strings.Contains(c.line, "cancelled") {
				assert.Contains(t, replay.says("next"), `"ask_human"`)
			}
			status := later.call(gateway.StatusTool, `{"tool":"refund","idempotency_key":"refund:A1:1"}`).require(c.outcome, "reason", "task", "effect", c.effect)
			assert.Regexp(t, c.line, status.line())
			assert.Equal(t, 1, r.server.effects())
		})
	}
}
