package gateway_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/gateway"
	"github.com/mcp-idem/mcp-idem/toolschema"
	"github.com/mcp-idem/mcp-idem/upstream"
)

// deskTools are two tools that create something. The tests say something of one of
// them, by its name, and behind it the contrary of a glob: the name has to win, and the
// other tool to be what it was.
const deskTools = `[{"name":"refund","inputSchema":{"type":"object"}},{"name":"transfer","inputSchema":{"type":"object"}}]`

const transferA1 = `{"order":"A1","idempotency_key":"transfer:A1:1"}`

func ruled(rules ...gateway.ToolRule) func(*gateway.Options) {
	return func(o *gateway.Options) { o.Tools = rules }
}

func overridden(overrides ...toolschema.Override) func(*gateway.Options) {
	return func(o *gateway.Options) { o.Policy.Overrides = overrides }
}

func texts(patterns ...string) (compiled []*regexp.Regexp) {
	for _, pattern := range patterns {
		compiled = append(compiled, regexp.MustCompile(pattern))
	}
	return compiled
}

func TestAnAnswerIsReplayedForItsToolsWindow(t *testing.T) {
	t.Parallel()
	r := newRig(t, deskTools, overridden(toolschema.Override{Pattern: "refund", Window: time.Hour}, toolschema.Override{Pattern: "re*", Window: 1000 * time.Hour}))
	r.call("refund", refundA1).require(gateway.Completed, "was_replay", "false")
	r.call("transfer", transferA1).require(gateway.Completed, "was_replay", "false")
	r.clock.Advance(time.Hour - time.Minute)
	r.call("refund", refundA1).require(gateway.Completed, "was_replay", "true")
	r.clock.Advance(time.Minute)
	expired := r.call("refund", refundA1).require(gateway.RejectedDuplicate, "reason", "key_expired")
	assert.Contains(t, expired.line(), "answers are kept for 1 hours")
	r.call("transfer", transferA1).require(gateway.Completed, "was_replay", "true")
	assert.Equal(t, 2, r.server.effects())
}

func TestNearDuplicatesOfAToolAreTreatedAsItIsSaidOfIt(t *testing.T) {
	t.Parallel()
	again := strings.Replace(refundA1, "A1:1", "A1:2", 1)
	for near, contrary := range map[toolschema.NearDuplicate]toolschema.NearDuplicate{
		toolschema.NearDuplicateOff: toolschema.NearDuplicateConfirm, toolschema.NearDuplicateWarn: toolschema.NearDuplicateOff,
		toolschema.NearDuplicateConfirm: toolschema.NearDuplicateOff, toolschema.NearDuplicateAsk: toolschema.NearDuplicateWarn,
	} {
		t.Run(string(near), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, deskTools, overridden(toolschema.Override{Pattern: "refund", NearDuplicate: near}, toolschema.Override{Pattern: "re*", NearDuplicate: contrary}))
			first := r.call("refund", refundA1).require(gateway.Completed)
			second := r.call("refund", again)
			switch near {
			case toolschema.NearDuplicateOff:
				second.require(gateway.Completed, "reason", "null", "duplicate_of", "")
			case toolschema.NearDuplicateWarn:
				second.require(gateway.Completed, "reason", "near_duplicate", "duplicate_of", first.says("operation_id"))
			default:
				second.require(gateway.RejectedDuplicate, "reason", "near_duplicate", "next.action", "repeat_of")
				wanted := fmt.Sprintf(`{"idempotency_repeat_of":%q,`, first.says("operation_id"))
				r.call("refund", strings.Replace(again, "{", wanted, 1)).require(gateway.Completed, "was_replay", "false")
			}
			assert.Equal(t, 2, r.server.effects())

			r.call("transfer", transferA1).require(gateway.Completed)
			r.call("transfer", strings.Replace(transferA1, "A1:1", "A1:2", 1)).require(gateway.RejectedDuplicate, "reason", "near_duplicate")
			assert.Equal(t, 3, r.server.effects())
		})
	}
}

func TestACallIsWaitedForAsLongAsItsToolMayTake(t *testing.T) {
	t.Parallel()
	r := newRig(t, deskTools, ruled(gateway.ToolRule{Pattern: "refund", CallTimeout: 300 * time.Millisecond}, gateway.ToolRule{Pattern: "re*", CallTimeout: patience}))
	r.server.on("refund", r.server.hold)
	r.server.on("transfer", r.server.hold)
	slow := r.start("transfer", transferA1, "")
	sent := r.server.next()
	r.call("refund", refundA1).require(gateway.EffectUnknown, "reason", "timeout")
	sent.answer(`{"content":[]}`)
	slow.reply().require(gateway.Completed)
	assert.Equal(t, 2, r.server.effects())
}

func TestWhoAsksForProgressWaitsAsLongAsTheToolMayTake(t *testing.T) {
	t.Parallel()
	inStillness(t, func(t *testing.T, s *still) {
		s.gateway = gateway.New(s.ledger, gateway.Options{
			Scope: dedup.Scope{Namespace: "tester", Upstream: "shop"},
			Tools: []gateway.ToolRule{{Pattern: "refund", CallTimeout: time.Hour}, {Pattern: "*", CallTimeout: time.Minute}},
		})
		require.NoError(t, s.gateway.Offer(`{"tools":`+refundTool+`}`))
		defer s.lease().Close()
		got := <-s.call(t.Context(), "1")
		assert.Contains(t, got.result, isRunning)
		assert.Equal(t, time.Hour, got.took)
		got = <-s.call(t.Context(), "")
		assert.Equal(t, gateway.DefaultWait, got.took)
	})
}

func TestTheUpstreamsWindowIsItsTools(t *testing.T) {
	t.Parallel()
	note := strings.NewReplacer("task_set", "note_set", "[", "", "]", "").Replace(nativeTool)
	r := newRig(t, strings.Replace(nativeTool, "]", ","+note+"]", 1), func(o *gateway.Options) {
		deduplicate("")(o)
		o.Tools = []gateway.ToolRule{{Pattern: "task_set", UpstreamWindow: time.Hour}, {Pattern: "task*", UpstreamWindow: 1000 * time.Hour}}
	})
	for _, tool := range []string{"task_set", "note_set"} {
		r.server.on(tool, func(c *call) { c.fail(-32603, "boom") })
		r.call(tool, taskA1).require(gateway.EffectUnknown, "next.action", "retry_same_key")
		r.server.on(tool, nil)
	}
	r.clock.Advance(time.Hour)
	r.call("task_set", taskA1).require(gateway.EffectUnknown, "attempt", "1")
	r.call("note_set", taskA1).require(gateway.Completed, "attempt", "2")
	assert.Equal(t, 3, r.server.effects())
}

func TestCodesProveOfAToolWhatIsSaidOfIt(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	for name, c := range map[string]struct {
		all              bool
		rules            []gateway.ToolRule
		refund, transfer string
	}{
		"strict": {false, []gateway.ToolRule{{Pattern: "refund", StrictCodes: &yes}, {Pattern: "re*", StrictCodes: &no}}, gateway.EffectUnknown, gateway.FailedBeforeInput},
		"not":    {true, []gateway.ToolRule{{Pattern: "refund", StrictCodes: &no}, {Pattern: "re*", StrictCodes: &yes}}, gateway.FailedBeforeInput, gateway.EffectUnknown},
		"as all": {true, []gateway.ToolRule{{Pattern: "*"}}, gateway.EffectUnknown, gateway.EffectUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, deskTools, func(o *gateway.Options) {
				o.Judgement = upstream.DefaultJudgement()
				o.Judgement.StrictCodes, o.Tools = c.all, c.rules
			})
			r.server.on("refund", func(c *call) { c.refuse(-32601, "not here") })
			r.server.on("transfer", func(c *call) { c.refuse(-32601, "not here") })
			r.call("refund", refundA1).require(c.refund)
			r.call("transfer", transferA1).require(c.transfer)
			assert.Zero(t, r.server.effects())
		})
	}
}

// A list of a tool's stands beside that of all tools, and in place of one that counts
// less.
func TestTextsMeanOfAToolWhatIsSaidOfIt(t *testing.T) {
	t.Parallel()
	fails := func(text string) func(*call) { return func(c *call) { c.fail(-32050, text) } }
	answers := func(c *call) { c.answer(`{"content":[{"type":"text","text":"dry run"}],"isError":true}`) }
	for name, c := range map[string]struct {
		name, glob       gateway.ToolRule
		does             func(*call)
		refund, transfer string
	}{
		"ambiguous": {gateway.ToolRule{AmbiguousTexts: texts("order 7")}, gateway.ToolRule{AmbiguousTexts: texts("order 8")},
			fails("order 7 not found"), gateway.EffectUnknown, gateway.Completed},
		"ambiguous, by the glob alone": {gateway.ToolRule{AmbiguousTexts: texts("order 7")}, gateway.ToolRule{AmbiguousTexts: texts("order 8")},
			fails("order 8 not found"), gateway.Completed, gateway.Completed},
		"ambiguous, as all tools have it": {gateway.ToolRule{AmbiguousTexts: texts("order 7")}, gateway.ToolRule{},
			fails("order 9 not found: timed out"), gateway.EffectUnknown, gateway.EffectUnknown},
		"a refusal": {gateway.ToolRule{RefusalTexts: texts("sold out")}, gateway.ToolRule{RefusalTexts: texts("gone")},
			fails("sold out"), gateway.Completed, gateway.EffectUnknown},
		"a refusal, by the glob alone": {gateway.ToolRule{RefusalTexts: texts("sold out")}, gateway.ToolRule{RefusalTexts: texts("gone")},
			fails("gone"), gateway.EffectUnknown, gateway.EffectUnknown},
		"a refusal, as all tools have it": {gateway.ToolRule{RefusalTexts: texts("sold out")}, gateway.ToolRule{},
			fails("no such order"), gateway.Completed, gateway.Completed},
		"nothing happened": {gateway.ToolRule{NothingHappened: texts("dry run")}, gateway.ToolRule{NothingHappened: texts("wet")},
			answers, gateway.FailedBeforeInput, gateway.Completed},
		"nothing happened, by the glob alone": {gateway.ToolRule{NothingHappened: texts("wet")}, gateway.ToolRule{NothingHappened: texts("dry run")},
			answers, gateway.Completed, gateway.Completed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.name.Pattern, c.glob.Pattern = "refund", "re*"
			r := newRig(t, deskTools, ruled(c.name, c.glob))
			r.server.on("refund", c.does)
			r.server.on("transfer", c.does)
			r.call("refund", refundA1).require(c.refund)
			r.call("transfer", transferA1).require(c.transfer)
			assert.Equal(t, 2, r.server.effects())
		})
	}
}

// What comes late is judged by the same rules.
func TestALateAnswerProvesOfAToolWhatIsSaidOfIt(t *testing.T) {
	t.Parallel()
	yes := true
	r := newRig(t, deskTools, func(o *gateway.Options) {
		o.CallTimeout = 500 * time.Millisecond
		o.Tools = []gateway.ToolRule{{Pattern: "refund", StrictCodes: &yes}}
	})
	r.server.on("refund", r.server.hold)
	r.call("refund", refundA1).require(gateway.EffectUnknown, "reason", "timeout")
	r.server.next().refuse(-32601, "not here")
	r.log.await(t, "late call settled", 1)
	assert.Equal(t, dedup.Unknown, r.only().State)
}

func TestPatternsOfRulesThatNameNoToolAreTold(t *testing.T) {
	t.Parallel()
	r := newRig(t, deskTools, func(o *gateway.Options) {
		overridden(toolschema.Override{Pattern: "pay", Window: time.Hour})(o)
		ruled(gateway.ToolRule{Pattern: "pay"}, gateway.ToolRule{Pattern: "re*"}, gateway.ToolRule{Pattern: "re_*"}, gateway.ToolRule{Pattern: "transfer"})(o)
	})
	assert.Contains(t, r.log.await(t, "the server has no tool that these patterns name", 1)[0], `"patterns":["pay","re_*"]`)
}
