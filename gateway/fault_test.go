package gateway_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/gateway"
)

const refundA1 = `{"order":"A1","idempotency_key":"refund:A1:1"}`

func TestWithoutTheLedgerNothingIsSent(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]struct {
		operation string
		does      cue
	}{
		"it cannot be read":                     {find, fails(errDisk)},
		"the claim cannot be written":           {claim, fails(errDisk)},
		"the claim is in doubt":                 {claim, fails(errAmbiguous)},
		"the claim is in doubt, but is written": {claim, obscures},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, refundTool, nil)
			r.store.cue(fault.operation, fault.does)
			r.call("refund", refundA1).require(gateway.FailedBeforeInput,
				"reason", "ledger_unavailable", "effect", "not_executed", "operation_id", "null", "recorded", "false", "next.action", "retry_same_key")
			assert.Zero(t, r.server.effects())
			errors, _ := r.log.with(`"level":"error"`)
			assert.Len(t, errors, 1)

			r.store.cue(fault.operation, nil)
			r.call("refund", refundA1).require(gateway.Completed, "was_replay", "false", "recorded", "true")
			r.call("refund", refundA1).require(gateway.Completed, "was_replay", "true")
			assert.Equal(t, 1, r.server.effects())
		})
	}
}

func TestReplaysAreServedWhileNothingCanBeWritten(t *testing.T) {
	t.Parallel()
	r := newRig(t, refundTool, nil)
	r.call("refund", refundA1).require(gateway.Completed)
	r.store.cue(claim, fails(errDisk))
	r.call("refund", refundA1).require(gateway.Completed, "was_replay", "true")
	r.call("refund", `{"order":"B2","idempotency_key":"refund:B2:1"}`).require(gateway.FailedBeforeInput, "reason", "ledger_unavailable")
	assert.Equal(t, 1, r.server.effects())
}

func TestStatusSaysSoWhenTheLedgerCannotBeRead(t *testing.T) {
	t.Parallel()
	r := newRig(t, refundTool, nil)
	r.store.cue(find, fails(errDisk))
	r.call(gateway.StatusTool, `{"tool":"refund","idempotency_key":"refund:A1:1"}`).require(gateway.FailedBeforeInput, "reason", "ledger_unavailable")
}

// What cannot be written is told as it is, with recorded false; the ledger writes
// it when it can, and then it is found.
func TestWhatCannotBeWrittenIsTold(t *testing.T) {
	t.Parallel()
	const answer = `{"content":[{"type":"text","text":"re_1"}]}`
	for name, c := range map[string]struct {
		server  func(*call)
		first   string
		members []string
		line    string
		state   dedup.State
		then    string
		effects int // after a second call
	}{
		"a result": {server: func(c *call) { c.answer(answer) },
			first: gateway.Completed, members: []string{"effect", "executed", "result_available", "false"}, line: `^$`,
			state: dedup.Completed, then: gateway.Completed, effects: 1},
		"an error": {server: func(c *call) { c.answer(`{"content":[{"type":"image"}],"isError":true}`) },
			first: gateway.Completed, members: []string{"effect", "answered_error", "result_available", "false"},
			line:  `^COMPLETED \(error\): the answer above is an error, and it could not be recorded yet \(op_\w+\)`,
			state: dedup.Completed, then: gateway.Completed, effects: 1},
		"a refusal": {server: func(c *call) { c.refuse(-32601, "not here") },
			first: gateway.FailedBeforeInput, members: []string{"effect", "not_executed", "reason", "refused"}, line: `Nothing was executed\.`,
			state: dedup.Released, then: gateway.Completed, effects: 1},
		"an ambiguous error": {server: func(c *call) { c.fail(-32603, "boom") },
			first: gateway.EffectUnknown, members: []string{"effect", "unknown", "next.action", "ask_human"}, line: `MAY have been executed`,
			state: dedup.Unknown, then: gateway.EffectUnknown, effects: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, refundTool, nil)
			r.server.on("refund", c.server)
			r.store.cue(move, fails(errDisk))
			told := r.call("refund", refundA1).require(c.first, append(c.members, "recorded", "false", "was_replay", "false")...)
			assert.Regexp(t, c.line, told.line())
			assert.Equal(t, dedup.Running, r.only().State)

			r.server.on("refund", nil)
			r.store.cue(move, nil)
			assert.Equal(t, c.state, r.becomes(c.state).State)
			then := r.call("refund", refundA1).require(c.then, "recorded", "true", "operation_id", told.says("operation_id"))
			if c.state == dedup.Completed {
				then.require(c.then, "was_replay", "true")
				assert.Equal(t, told.upstreams(), then.upstreams())
			}
			assert.Equal(t, c.effects, r.server.effects())
		})
	}
}

// Nobody listens for the answer of a call of which not even the ledger knows that
// it is awaited: so the caller is not told to ask for it.
func TestATimeoutThatCannotBeWrittenIsNotAwaited(t *testing.T) {
	t.Parallel()
	r := newRig(t, refundTool, func(o *gateway.Options) { o.CallTimeout = 500 * time.Millisecond })
	r.server.on("refund", r.server.hold)
	r.store.cue(move, fails(errDisk))
	r.call("refund", refundA1).require(gateway.EffectUnknown, "reason", "timeout", "recorded", "false", "next.action", "ask_human")
	r.server.next().answer(`{"content":[]}`)
	r.log.await(t, "answer to no open request", 1)
	r.store.cue(move, nil)
	assert.False(t, r.becomes(dedup.Unknown).Open())
	r.call("refund", refundA1).require(gateway.EffectUnknown, "reason", "timeout", "recorded", "true")
	assert.Equal(t, 1, r.server.effects())
}

// The server dies between the claim and the sending: not a byte has left, and the
// key is free again.
func TestACallThatNeverLeftFreesItsKey(t *testing.T) {
	t.Parallel()
	r := newRig(t, refundTool, nil)
	r.store.cue(claim, func(ctx context.Context, do func(context.Context) error) error {
		r.store.cue(claim, nil)
		r.server.die()
		r.log.await(t, "the upstream is gone", 1)
		return do(ctx)
	})
	first := r.call("refund", refundA1).require(gateway.FailedBeforeInput, "reason", "unreachable", "effect", "not_executed", "attempt", "1", "next.action", "retry_same_key")
	assert.Regexp(t, `^FAILED_BEFORE_INPUT \(unreachable\): nothing was sent to the tool \(.*\)\. Safe to retry with the same key\.$`, first.line())
	assert.Equal(t, dedup.Released, r.only().State)
	r.call("refund", refundA1).require(gateway.Completed, "attempt", "2", "operation_id", first.says("operation_id"))
	assert.Equal(t, 1, r.server.effects())
}

func TestAnUpstreamThatIsDownClaimsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, refundTool, func(o *gateway.Options) { o.ReachWithin = 500 * time.Millisecond })
	r.call("refund", refundA1).require(gateway.Completed)
	r.server.stayDown()
	r.log.await(t, "the upstream is gone", 1)
	b2 := r.call("refund", `{"order":"B2","idempotency_key":"refund:B2:1"}`).require(gateway.FailedBeforeInput, "reason", "unreachable", "operation_id", "null")
	assert.Regexp(t, `^FAILED_BEFORE_INPUT \(unreachable\): nothing was sent to the tool \(.*\)\. Safe to retry with the same key\.$`, b2.line())
	r.call("refund", refundA1).require(gateway.Completed, "was_replay", "true")
	require.Len(t, r.entries(), 1)
	assert.Equal(t, 1, r.server.effects())
}
