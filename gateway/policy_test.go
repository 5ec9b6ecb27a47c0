package gateway_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/gateway"
	"github.com/mcp-idem/mcp-idem/toolschema"
)

// The schemas ask for the keys that the ledger accepts.
func TestSchemasAndLedgerAgreeOnKeys(t *testing.T) {
	t.Parallel()
	assert.Equal(t, dedup.ExampleKey, toolschema.ExampleKey)
	assert.Equal(t, dedup.MinKeyBytes, toolschema.MinKeyLength)
	assert.Equal(t, dedup.MaxKeyBytes, toolschema.MaxKeyLength)
	for length, lawful := range map[int]bool{
		toolschema.MinKeyLength - 1: false, toolschema.MinKeyLength: true, toolschema.MaxKeyLength: true, toolschema.MaxKeyLength + 1: false,
	} {
		_, err := dedup.ParseKey(strings.Repeat("ab", length)[:length], "refund")
		assert.Equal(t, lawful, err == nil, "%d characters: %v", length, err)
	}
}

// A tool whose members are counted cannot be asked to confirm; it is executed, and
// the caller is told of the call that is like this one.
func TestANearDuplicateIsPointedOut(t *testing.T) {
	t.Parallel()
	const counted = `[{"name":"refund","inputSchema":{"type":"object","maxProperties":3}}]`
	for name, c := range map[string]struct {
		answer  string
		members []string
		line    string
	}{
		"after a result": {`{"content":[{"type":"text","text":"re"}],"structuredContent":{"id":1}}`, []string{"effect", "executed"},
			`^COMPLETED \(near_duplicate\): executed, although an identical call was made under another key at \S+Z \(op_\w+\)\.$`},
		"after an error": {`{"content":[{"type":"text","text":"no such order"}],"isError":true}`, []string{"effect", "answered_error"},
			`^COMPLETED \(error\): the answer above is an error`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, counted, nil)
			r.server.on("refund", func(call *call) { call.answer(c.answer) })
			first := r.call("refund", refundA1).require(gateway.Completed, "duplicate_of", "")
			again := strings.Replace(refundA1, "A1:1", "A1:2", 1)
			second := r.call("refund", again).require(gateway.Completed, append(c.members,
				"was_replay", "false", "reason", "near_duplicate", "duplicate_of", first.says("operation_id"))...)
			assert.Regexp(t, c.line, second.line())
			assert.Equal(t, c.answer, second.upstreams(), "nothing but one block is added")
			assert.Len(t, second.blocks, 2)
			assert.NotContains(t, second.member("structuredContent"), "idempotency", "it is no replay")
			assert.Equal(t, 2, r.server.effects())

			third := r.call("refund", again).require(gateway.Completed, "was_replay", "true")
			assert.Equal(t, second.says("operation_id"), third.says("operation_id"))
			assert.Equal(t, 2, r.server.effects())
		})
	}
}

func TestANearDuplicateNamesWhatTheFirstCallMade(t *testing.T) {
	t.Parallel()
	r := newRig(t, refundTool, nil)
	for i, c := range []struct{ structured, told string }{
		{`{"id":"re_1"}`, `, result id "re_1"`},
		{`{"id":9007199254740993}`, `, result id 9007199254740993`},
		{`{"id":"a\nb"}`, `, result id "a\nb"`},
		{`{"id":null}`, ``},
		{`{"id":{"n":1}}`, ``},
		{`{"id":[1]}`, ``},
		{`{"id":"` + strings.Repeat("x", 100) + `"}`, ``},
		{`{"refund":"re_1"}`, ``},
		{`[1]`, ``},
	} {
		r.server.on("refund", func(call *call) { call.answer(`{"content":[],"structuredContent":` + c.structured + `}`) })
		first := r.call("refund", fmt.Sprintf(`{"order":%d,"idempotency_key":"refund:%d:1"}`, i, i)).require(gateway.Completed)
		second := r.call("refund", fmt.Sprintf(`{"order":%d,"idempotency_key":"refund:%d:2"}`, i, i)).require(gateway.RejectedDuplicate, "reason", "near_duplicate")
		assert.Contains(t, second.line(), "("+first.says("operation_id")+c.told+"). Nothing was executed now.")
	}
}

// Where only the model's keys count, a harness's key beside it changes nothing: the
// model may have lost its context all the same.
func TestAKeyThatDoesNotCountLetsNoNearDuplicateThrough(t *testing.T) {
	t.Parallel()
	r := newRig(t, refundTool, func(o *gateway.Options) { o.Keys = gateway.KeysModel })
	r.start("refund", refundA1, `{"mcp-idem/key":"run:1:step:1"}`).reply().require(gateway.Completed)
	assert.Contains(t, string(r.only().Provenance), `"carrier":"model"`)
	again := strings.Replace(refundA1, "A1:1", "A1:2", 1)
	r.start("refund", again, `{"mcp-idem/key":"run:1:step:2"}`).reply().require(gateway.RejectedDuplicate, "reason", "near_duplicate")
	assert.Equal(t, 1, r.server.effects())
}

// An operation keeps the class of its claim. What the upstream says of its tool
// later makes it no safer; what the operator says does.
func TestOnlyTheOperatorLoosensAnOperationsClass(t *testing.T) {
	t.Parallel()
	const set = `{"name":"note_set","inputSchema":{"type":"object"}`
	const args = `{"note":"n","idempotency_key":"note:n:01"}`
	r := newRig(t, `[`+set+`}]`, func(o *gateway.Options) { o.Policy.TrustAnnotations = true })
	r.server.on("note_set", func(c *call) { c.fail(-32603, "boom") })
	r.call("note_set", args).require(gateway.EffectUnknown, "next.action", "ask_human")

	r.server.offers(`[` + set + `,"annotations":{"idempotentHint":true}}]`)
	r.server.say(listChanged)
	receive(t, r.others, "the change")
	assert.Contains(t, r.list()[0], `"class":"SAFE_RETRY"`)
	r.call("note_set", args).require(gateway.EffectUnknown, "attempt", "1", "next.action", "ask_human")
	status := fmt.Sprintf(`{"operation_id":%q}`, r.only().ID)
	r.call(gateway.StatusTool, status).require(gateway.EffectUnknown, "next.action", "ask_human")
	assert.Equal(t, 1, r.server.effects())

	r.server.on("note_set", nil)
	operated := r.another(func(o *gateway.Options) {
		o.Policy.Overrides = []toolschema.Override{{Pattern: "note_set", Class: toolschema.ClassSafeRetry}}
	})
	operated.call(gateway.StatusTool, status).require(gateway.EffectUnknown, "next.action", "retry_same_key")
	operated.call("note_set", args).require(gateway.Completed, "attempt", "2", "was_replay", "false")
	assert.Equal(t, 2, r.server.effects())
}

// What may be sent again is said to be, and what is then not known stays so.
func TestAToolThatMayRunTwiceIsSentAgainWithItsKey(t *testing.T) {
	t.Parallel()
	const args = `{"note":"n","idempotency_key":"note:n:01"}`
	r := newRig(t, `[{"name":"note_set","inputSchema":{"type":"object"},"annotations":{"idempotentHint":true}}]`, func(o *gateway.Options) { o.Policy.TrustAnnotations = true })
	r.server.on("note_set", func(c *call) { c.fail(-32603, "boom") })
	for attempt := range 3 {
		told := r.call("note_set", args).require(gateway.EffectUnknown, "attempt", fmt.Sprint(attempt+1), "next.action", "retry_same_key")
		assert.Regexp(t, `It MAY have been executed\. Repeat it with the SAME key: that is safe for this tool\.$`, told.line())
		r.call(gateway.StatusTool, fmt.Sprintf(`{"operation_id":%q}`, told.says("operation_id"))).require(gateway.EffectUnknown, "next.action", "retry_same_key")
	}
	r.server.on("note_set", func(c *call) { c.refuse(-32601, "not here") })
	r.call("note_set", args).require(gateway.EffectUnknown, "attempt", "4", "reason", "refused")
	r.server.on("note_set", nil)
	r.call("note_set", args).require(gateway.Completed, "attempt", "5")
	assert.Equal(t, 4, r.server.effects())
}
