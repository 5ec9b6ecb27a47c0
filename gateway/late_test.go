package gateway_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/gateway"
)

// After a timeout somebody goes on listening, and what is heard settles the
// operation.
func TestALateAnswerSettlesTheOperation(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer  func(*call)
		state   dedup.State
		then    string
		members []string
		effects int // after a second call
	}{
		"a result": {func(c *call) { c.answer(`{"content":[{"type":"text","text":"re_1"}]}`) }, dedup.Completed,
			gateway.Completed, []string{"was_replay", "true", "effect", "executed", "attempt", "1"}, 1},
		"an error": {func(c *call) { c.answer(`{"content":[{"type":"text","text":"no such order"}],"isError":true}`) }, dedup.Completed,
			gateway.Completed, []string{"was_replay", "true", "effect", "answered_error"}, 1},
		"a refusal": {func(c *call) { c.refuse(-32601, "not here") }, dedup.Released,
			gateway.Completed, []string{"was_replay", "false", "attempt", "2"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, refundTool, func(o *gateway.Options) { o.CallTimeout = 500 * time.Millisecond })
			r.server.on("refund", r.server.hold)
			told := r.call("refund", refundA1).require(gateway.EffectUnknown, "reason", "timeout", "recorded", "true", "next.action", "check_status", "next.after_ms", "20000")
			require.True(t, r.only().Open())
			c.answer(r.server.next())
			r.becomes(c.state)
			r.log.await(t, "late call settled", 1)

			patient := r.another(func(o *gateway.Options) { o.CallTimeout = patience })
			r.server.on("refund", nil)
			patient.call("refund", refundA1).require(c.then, append(c.members, "operation_id", told.says("operation_id"))...)
			assert.Equal(t, c.effects, r.server.effects())
		})
	}
}

// What is heard and proves nothing, and silence, leave the operation unknown; and
// nobody listens any more.
func TestALateCallThatTellsNothingStaysUnknown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		window time.Duration
		hear   func(*rig, *call)
	}{
		"an ambiguous error":   {patience, func(_ *rig, c *call) { c.fail(-32603, "boom") }},
		"the server dies":      {patience, func(r *rig, _ *call) { r.server.die() }},
		"the window is over":   {10 * time.Millisecond, func(*rig, *call) {}},
		"the gateway is ended": {patience, func(r *rig, _ *call) { r.close() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, refundTool, func(o *gateway.Options) { o.CallTimeout, o.LateWindow = 500*time.Millisecond, c.window })
			r.server.on("refund", r.server.hold)
			r.call("refund", refundA1).require(gateway.EffectUnknown, "reason", "timeout")
			c.hear(r, r.server.next())
			r.log.await(t, "late call settled", 1)
			assert.Equal(t, dedup.Unknown, r.only().State)
			assert.False(t, r.only().Open())
			r.another(nil).call("refund", refundA1).require(gateway.EffectUnknown, "reason", "timeout", "attempt", "1", "next.action", "ask_human")
			assert.Equal(t, 1, r.server.effects())
		})
	}
}

func TestWithoutALateWindowNobodyListens(t *testing.T) {
	t.Parallel()
	r := newRig(t, refundTool, func(o *gateway.Options) { o.CallTimeout, o.LateWindow = 500*time.Millisecond, -1 })
	r.server.on("refund", r.server.hold)
	r.call("refund", refundA1).require(gateway.EffectUnknown, "reason", "timeout", "next.action", "ask_human")
	r.server.next().answer(`{"content":[]}`)
	r.log.await(t, "answer to no open request", 1)
	r.call("refund", refundA1).require(gateway.EffectUnknown, "reason", "timeout", "next.action", "ask_human")
	assert.Equal(t, 1, r.server.effects())
}
