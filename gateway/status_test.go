package gateway_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/gateway"
)

// The status tool is no error where it can answer, and tells of an operation what
// a repeated call would be told, without executing anything.
func TestTheStatusOfAnOperation(t *testing.T) {
	t.Parallel()
	r := newRig(t, refundTool, nil)
	for i, c := range []struct {
		name    string
		settle  func(*scene)
		outcome string
		members string // reason effect next.action
		line    string
	}{
		{"completed", func(s *scene) { s.succeeded() }, gateway.Completed, "null executed none", `^COMPLETED: the call was executed on \S+Z \(op_\w+\)\.$`},
		{"completed with an error", func(s *scene) { s.failed() }, gateway.Completed, "upstream_error answered_error new_key", `^COMPLETED \(error\): the call was answered with an error on`},
		{"accepted", func(s *scene) { s.completed(dedup.AnsweredResult, taskResult, "task") }, gateway.Accepted, "task unknown none", `^ACCEPTED: the call was accepted as a task on`},
		{"running", func(s *scene) { s.leased() }, gateway.Running, "null unknown retry_same_key", `^RUNNING: `},
		{"open", func(s *scene) { s.stranded(dedup.ReasonTimeout, time.Hour) }, gateway.EffectUnknown, "timeout unknown check_status", `^EFFECT_UNKNOWN: .* Call idempotency_status`},
		{"unknown", func(s *scene) { s.stranded(dedup.ReasonOwnerDied, 0) }, gateway.EffectUnknown, "owner_died unknown ask_human", `^EFFECT_UNKNOWN: `},
		{"released", func(s *scene) {
			_, err := s.leased().Release(refusal{})
			require.NoError(t, err)
		}, gateway.FailedBeforeInput, "refused not_executed retry_same_key", `^FAILED_BEFORE_INPUT: the call of \S+Z \(op_\w+\) was not executed\. The key is free`},
	} {
		s := &scene{r, kinds["without outputSchema"], i + 1}
		c.settle(s)
		members := strings.Fields(c.members)
		key := fmt.Sprintf(`{"tool":"refund","idempotency_key":"marker-key:%d:1"}`, s.number)
		byKey := r.call(gateway.StatusTool, key).require(c.outcome, "reason", members[0], "effect", members[1], "next.action", members[2])
		byID := r.call(gateway.StatusTool, fmt.Sprintf(`{"operation_id":%q}`, byKey.says("operation_id"))).require(c.outcome)
		assert.Equal(t, string(byKey.raw), string(byID.raw), c.name)
		assert.Regexp(t, c.line, byKey.line(), c.name)
		assert.Empty(t, byKey.member("isError"), c.name)
		assert.Equal(t, `{"idempotency":`+string(byKey.raw)+`}`, byKey.member("structuredContent"), c.name)
		assert.Len(t, byKey.blocks, 1, "nobody else's result")
	}
	assert.Zero(t, r.server.effects())
	requireDiscreet(t, r)
}

// refusal proves that nothing was executed.
type refusal struct{}

func (refusal) Error() string                          { return "refused" }
func (refusal) ProvesNotExecuted() (row int, _ string) { return 3, "refused" }

// A key can be guessed: the result is shown to the session that made the call, and
// to who knows what was called.
func TestTheStatusShowsAResultOnlyToItsOwner(t *testing.T) {
	t.Parallel()
	const answer = `{"content":[{"type":"text","text":"re_1"}],"n":9007199254740993}`
	r := newRig(t, refundTool, nil)
	r.server.on("refund", func(c *call) { c.answer(answer) })
	r.call("refund", refundA1).require(gateway.Completed)
	stranger := r.another(nil)
	question := func(arguments string) string {
		return `{"tool":"refund","idempotency_key":"refund:A1:1"` + arguments + `}`
	}
	for name, c := range map[string]struct {
		who       *client
		arguments string
		shown     bool
	}{
		"who made the call":               {r.client, ``, true},
		"a stranger":                      {stranger, ``, false},
		"a stranger who guesses":          {stranger, `,"arguments":{"order":"A2"}`, false},
		"a stranger who guesses nonsense": {stranger, `,"arguments":[1]`, false},
		"a stranger who knows":            {stranger, `,"arguments":{ "order" : "\u00411" }`, true},
	} {
		told := c.who.call(gateway.StatusTool, question(c.arguments)).require(gateway.Completed, "was_replay", "false")
		assert.Equal(t, c.shown, strings.HasSuffix(told.member("structuredContent"), `,"result":`+answer+`}`), name)
		assert.Equal(t, c.shown, strings.Contains(string(told.message.Result), "9007199254740993"), name)
	}
	assert.Equal(t, 1, r.server.effects())
}

func TestTheStatusOfNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, refundTool, nil)
	for _, question := range []string{
		`{"operation_id":"op_none"}`, fmt.Sprintf(`{"operation_id":%q}`, dedup.NewOperationID()),
		`{"tool":"refund","idempotency_key":"refund:A1:1"}`, `{"tool":"refund","idempotency_key":"no"}`,
	} {
		told := r.call(gateway.StatusTool, question).require(gateway.NotFound, "effect", "unknown", "reason", "null", "ledger_since", "2026-08-01T23:59:58.123Z", "next.action", "none")
		assert.Regexp(t, `^NOT_FOUND: the ledger has no record of such a call since 2026-08-01T23:59:58Z\. .* of others it knows nothing\.$`, told.line())
		assert.Empty(t, told.member("isError"))
	}
	for _, question := range []string{`{}`, `[]`, `{"operation_id":7}`, `{"tool":"refund"}`, `{"idempotency_key":"refund:A1:1"}`} {
		r.call(gateway.StatusTool, question).require(gateway.FailedBeforeInput, "reason", "invalid_arguments", "next.action", "fix_arguments")
	}
}
