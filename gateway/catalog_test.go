package gateway_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/gateway"
	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/toolschema"
)

const listChanged = "notifications/tools/list_changed"

// named is a page with one tool. A next that is "-" is no cursor.
func named(tool, next string) string {
	cursor := ""
	if next != "-" {
		cursor = fmt.Sprintf(`,"nextCursor":%q`, next)
	}
	return fmt.Sprintf(`{ "tools":[ {"name":%q,"inputSchema":{"type":"object"}} ],"x_more":1.0%s}`, tool, cursor)
}

// requireRefused makes sure that a request is answered with an error.
func (p *pending) requireRefused(code int, words string) {
	p.client.t.Helper()
	m := p.wait()
	refused, ok := jsonrpc.ParseError(m.Error)
	require.True(p.client.t, ok, "%s", m.Raw())
	assert.Equal(p.client.t, code, refused.Code)
	assert.Regexp(p.client.t, words, refused.Message)
}

func TestToolsComeInTheUpstreamsPages(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]string{"without a cursor": "-", "with an empty cursor": "", "with its own cursor again": "c"} {
		t.Run("the last page is one "+name, func(t *testing.T) {
			t.Parallel()
			r := prepare(t, refundTool, nil)
			r.server.listsBy(func(cursor string) string {
				switch cursor {
				case "":
					return named("get_a", "b\n")
				case "b\n":
					return named("refund", "c")
				}
				return named("get_c", last)
			})
			r.client = r.stranger(nil)
			r.listen()
			r.shake()
			first := r.request("tools/list", "").wait()
			assert.Equal(t, named("get_a", "b\n"), string(first.Result))
			second := string(r.request("tools/list", `{"cursor":"b\u000a"}`).wait().Result)
			assert.True(t, strings.HasPrefix(second, `{ "tools":[ {"name":"refund","inputSchema":{"type":"object","properties":{"idempotency_key":`), second)
			assert.True(t, strings.HasSuffix(second, ` ],"x_more":1.0,"nextCursor":"c"}`), second)
			third := string(r.request("tools/list", `{"cursor":"c"}`).wait().Result)
			assert.Contains(t, third, `"name":"get_c","inputSchema":{"type":"object"}}`)
			assert.Contains(t, third, `"name":"idempotency_status"`)

			r.request("tools/list", `{"cursor":"d"}`).requireRefused(jsonrpc.CodeInvalidParams, "unknown cursor")
			r.request("tools/list", `{"cursor":null}`).requireRefused(jsonrpc.CodeInvalidParams, "the cursor is no string")
			assert.Equal(t, 3, r.server.listed())
			r.call("refund", refundA1).require(gateway.Completed)
		})
	}
}

func TestAListWithoutAnEndIsGivenUp(t *testing.T) {
	t.Parallel()
	r := prepare(t, refundTool, nil)
	r.server.listsBy(func(cursor string) string {
		n, _ := strconv.Atoi(cursor) // the first has none
		return named("get_it", strconv.Itoa(n+1))
	})
	r.client = r.stranger(nil)
	r.listen()
	r.shake()
	r.request("tools/list", "").requireRefused(-32000, "more than 1000 pages")
	assert.Equal(t, gateway.MaxToolPages, r.server.listed())
}

func TestWhatTheUpstreamSaysOfItsListIsHandedOn(t *testing.T) {
	t.Parallel()
	r := prepare(t, refundTool, nil)
	r.server.listsBy(func(string) string { return "" })
	r.client = r.stranger(nil)
	r.listen()
	r.shake()
	assert.Equal(t, `{"code":-32050,"message":"no list today","data":1.0}`, string(r.request("tools/list", "").wait().Error))
	r.start("refund", refundA1, "").requireRefused(-32050, "no list today")
	r.server.listsBy(func(string) string { return `{"tools":7}` })
	r.request("tools/list", "").requireRefused(-32000, "tools/list cannot be read")
	r.call("refund", refundA1).require(gateway.FailedBeforeInput, "reason", "unreachable")
	assert.Zero(t, r.server.effects())
}

// The tools are read once, however many ask and however often the upstream says
// that they have changed.
func TestManyChangesAtOnceAreOne(t *testing.T) {
	t.Parallel()
	r := newRig(t, refundTool, nil)
	read := r.server.listed()
	said := make(chan struct{})
	r.server.listsBy(func(string) string {
		<-said
		return named("send_it", "-")
	})
	for range 50 {
		r.server.say(listChanged)
	}
	r.server.say("notifications/message")
	assert.Equal(t, "notifications/message", receive(t, r.others, "the last word").Method)
	close(said)
	assert.Equal(t, listChanged, receive(t, r.others, "the change").Method)
	assert.Contains(t, r.list()[0], "send_it")
	told := 1
	for _, m := range r.close() {
		if m.Method == listChanged {
			told++
		}
	}
	assert.Equal(t, 1, told)
	assert.LessOrEqual(t, r.server.listed()-read, 3)
}

// A call can find a tool before the upstream's word of it is dealt with. The client
// still hears that what it was offered has changed.
func TestAToolThatACallHasFoundIsAnnouncedAllTheSame(t *testing.T) {
	t.Parallel()
	r := newRig(t, refundTool, nil)
	r.server.offers(`[{"name":"get_more","inputSchema":{"type":"object"}}]`)
	assert.Contains(t, string(r.start("get_more", `{}`, "").wait().Result), "done, call 1")
	r.server.say(listChanged)
	assert.Equal(t, listChanged, receive(t, r.others, "the upstream's word").Method)
	assert.Contains(t, r.list()[0], "get_more")
	r.server.say(listChanged)
	r.server.say("notifications/message")
	assert.Equal(t, "notifications/message", receive(t, r.others, "the upstream's next word").Method)
	assert.Empty(t, r.close(), "it knows that already")
}

func TestAClientThatHasListedTheToolsIsNotToldOfThem(t *testing.T) {
	t.Parallel()
	r := newRig(t, refundTool, nil)
	r.server.offers(`[{"name":"get_more","inputSchema":{"type":"object"}}]`)
	r.start("get_more", `{}`, "").wait()
	assert.Contains(t, r.list()[0], "get_more")
	r.server.say(listChanged)
	r.server.say("notifications/message")
	assert.Equal(t, "notifications/message", receive(t, r.others, "the word behind it").Method)
	assert.Empty(t, r.close())
}

func TestALastGoodListStays(t *testing.T) {
	t.Parallel()
	r := newRig(t, refundTool, func(o *gateway.Options) { o.ReachWithin = 10 * time.Millisecond })
	before := r.list()
	r.server.listsBy(func(string) string { return "" }) // an error
	r.server.say(listChanged)
	r.server.say("notifications/message")
	receive(t, r.others, "the word behind it")
	assert.Equal(t, before, r.list(), "it cannot be read")
	r.server.stayDown()
	r.log.await(t, "the upstream is gone", 1)
	assert.Equal(t, before, r.list(), "nobody is there to be asked")
	r.start("get_more", `{}`, "").reply().require(gateway.FailedBeforeInput, "reason", "unreachable")
}

const oddTools = `[ {"name":"pay_odd","inputSchema":{"type":"object","not":{"required":["idempotency_key"]}}},` +
	`{"name":"pay_closed", "inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"id":{}},"additionalProperties":false}},` +
	`{"name":"pay_plain", "inputSchema":{"type":"object"},"x_more":1.0} ]`

const oddProblem = `inputSchema has a required with idempotency_key, and no such property`

func TestCallsOfAToolThatCannotHaveAKeyAreRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, oddTools, nil)
	assert.Contains(t, r.list()[0], `"name":"pay_odd","inputSchema":{"type":"object","not":{"required":["idempotency_key"]}},"description":"Calls are refused: `)
	for _, keyed := range []string{refundA1, `{"a":1}`} {
		told := r.call("pay_odd", keyed).require(gateway.FailedBeforeInput, "reason", "unkeyable", "effect", "not_executed", "next.action", "ask_human")
		assert.Regexp(t, `^FAILED_BEFORE_INPUT \(unkeyable\): .*`+oddProblem+`.* Nothing was sent`, told.line())
	}
	r.start("pay_odd", `{"a":1}`, `{"mcp-idem/key":"run:1:pay"}`).reply().require(gateway.FailedBeforeInput, "reason", "unkeyable")
	r.start("pay_none", refundA1, "").requireRefused(jsonrpc.CodeInvalidParams, `^Unknown tool: pay_none; nothing was sent$`)
	assert.Zero(t, r.server.effects())
}

// Its schema may have been another when the call was executed.
func TestARecordedAnswerIsReplayedAlthoughTheToolCanHaveNoKeyAnyMore(t *testing.T) {
	t.Parallel()
	r := newRig(t, refundTool, nil)
	r.call("refund", refundA1).require(gateway.Completed, "was_replay", "false")
	r.server.offers(`[{"name":"refund","inputSchema":{"type":"object","not":{"required":["idempotency_key"]}}}]`)
	r.server.say(listChanged)
	receive(t, r.others, "the word of it")
	r.call("refund", refundA1).require(gateway.Completed, "was_replay", "true")
	r.call("refund", strings.ReplaceAll(refundA1, "A1", "B2")).require(gateway.FailedBeforeInput, "reason", "unkeyable")
	assert.Equal(t, 1, r.server.effects())
}

// What became of a call is told although nothing more can be sent to its tool.
func TestWhatIsOnRecordIsToldAlthoughTheToolIsGone(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*gateway.Options){
		"the server has it no more":    nil,
		"keys come from harnesses now": func(o *gateway.Options) { o.Keys = gateway.KeysHarness },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, refundTool, nil)
			r.call("refund", refundA1).require(gateway.Completed, "was_replay", "false")
			r.server.on("refund", func(c *call) { c.fail(-32603, "boom") })
			lost := strings.ReplaceAll(refundA1, "A1", "B2")
			r.call("refund", lost).require(gateway.EffectUnknown)
			if change == nil {
				r.server.offers(`[{"name":"other","inputSchema":{"type":"object"}}]`)
			}
			now := r.another(change)
			now.call("refund", refundA1).require(gateway.Completed, "was_replay", "true")
			now.call("refund", lost).require(gateway.EffectUnknown, "attempt", "1")
			fresh := now.start("refund", strings.ReplaceAll(refundA1, "A1", "C3"), "")
			if change == nil {
				fresh.requireRefused(jsonrpc.CodeInvalidParams, `^Unknown tool: refund; nothing was sent$`)
			} else {
				fresh.reply().require(gateway.FailedBeforeInput, "reason", "key_required")
			}
			assert.Equal(t, 2, r.server.effects())
		})
	}
}

// The server says that its tools have changed: what they were is no reason to let a
// call through that carries a key.
func TestAChangedToolIsReadBeforeItIsCalled(t *testing.T) {
	t.Parallel()
	const reader, keyed = `[{"name":"get_it","inputSchema":{"type":"object"}}]`, `[{"name":"get_it","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":false}}]`
	const key = `{"mcp-idem/key":"run:1:step:1"}`
	r := newRig(t, reader, func(o *gateway.Options) { o.Policy.TrustAnnotations = true; o.ReachWithin = 50 * time.Millisecond })
	r.list()
	r.server.offers(keyed)
	r.server.say(listChanged)
	receive(t, r.others, "the change")
	r.start("get_it", `{}`, key).reply().require(gateway.Completed, "was_replay", "false")
	r.start("get_it", `{}`, key).reply().require(gateway.Completed, "was_replay", "true")
	assert.Equal(t, 1, r.server.effects())

	r.server.listsBy(func(string) string { return "" }) // an error
	r.server.say(listChanged)
	r.server.say("notifications/message")
	receive(t, r.others, "the word behind it")
	r.start("get_it", `{}`, key).reply().require(gateway.Completed, "was_replay", "true")
}

func TestOfTwoToolsOfOneNameTheStricterCounts(t *testing.T) {
	t.Parallel()
	r := newRig(t, `[{"name":"widget","inputSchema":{"type":"object"}},{"name":"widget","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]`,
		func(o *gateway.Options) { o.Policy.TrustAnnotations = true })
	r.call("widget", `{"a":1}`).require(gateway.FailedBeforeInput, "reason", "key_required")
	assert.Zero(t, r.server.effects())
}

func TestAToolThatCannotHaveAKeyIsLeftOutWhereThatIsThePolicy(t *testing.T) {
	t.Parallel()
	r := newRig(t, oddTools, func(o *gateway.Options) { o.Policy.OnProblem = toolschema.OnProblemOmit })
	assert.NotContains(t, r.list()[0], "pay_odd")
	r.start("pay_odd", refundA1, "").requireRefused(jsonrpc.CodeInvalidParams, `^Tool pay_odd is not offered: `+oddProblem+`; nothing was sent$`)
	assert.Zero(t, r.server.effects())
}

func TestAHarnessCallsAToolThatCannotHaveAKeyWhereThatIsThePolicy(t *testing.T) {
	t.Parallel()
	r := newRig(t, oddTools, func(o *gateway.Options) { o.Policy.OnProblem = toolschema.OnProblemHarness })
	assert.Contains(t, r.list()[0], `{"name":"pay_odd","inputSchema":{"type":"object","not":{"required":["idempotency_key"]}}},{`)
	r.call("pay_odd", refundA1).require(gateway.FailedBeforeInput, "reason", "key_required")
	const key = `{"mcp-idem/key":"run:1:pay"}`
	r.start("pay_odd", `{"a":1}`, key).reply().require(gateway.Completed, "was_replay", "false")
	r.start("pay_odd", `{"a":1}`, key).reply().require(gateway.Completed, "was_replay", "true")
	assert.Equal(t, 1, r.server.effects())
}

// A harness carries its keys beside the arguments: no definition needs a change,
// and what cannot be changed can be called too.
func TestForAHarnessTheToolsAreOfferedUnchanged(t *testing.T) {
	t.Parallel()
	r := newRig(t, oddTools, func(o *gateway.Options) { o.Keys = gateway.KeysHarness })
	offered := r.list()[0]
	assert.True(t, strings.HasPrefix(offered, `{"tools":`+strings.TrimSuffix(oddTools, " ]")+" ,{"), offered)
	assert.Contains(t, offered, `"name":"idempotency_status"`)

	for _, tool := range []string{"pay_odd", "pay_closed", "pay_plain"} {
		r.server.on(tool, func(c *call) { c.answer(`{"content":[],"structuredContent":{"id":1}}`) })
		key := fmt.Sprintf(`{"mcp-idem/key":"run:1:%s"}`, tool)
		first := r.start(tool, `{"a":1}`, key).reply().require(gateway.Completed, "was_replay", "false")
		again := r.start(tool, `{"a":1}`, key).reply().require(gateway.Completed, "was_replay", "true")
		assert.Equal(t, first.upstreams(), again.upstreams())
		assert.Equal(t, tool != "pay_closed", strings.Contains(again.member("structuredContent"), "idempotency"), "where the offered schema allows it")
		r.call(tool, `{"a":1,"idempotency_key":"pay:a:01"}`).require(gateway.FailedBeforeInput, "reason", "key_required")
	}
	assert.Equal(t, []string{`pay_odd {"a":1}`, `pay_closed {"a":1}`, `pay_plain {"a":1}`}, r.server.received())
}

func TestTheStatusToolIsThereWhereItIsNeeded(t *testing.T) {
	t.Parallel()
	const reader, own = `{"name":"get_it","inputSchema":{"type":"object"}}`, `{"name":"idempotency_status","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`
	for name, c := range map[string]struct {
		tools   string
		offered int
		theirs  bool
	}{
		"a tool is keyed":              {refundTool, 1, false},
		"none is keyed":                {`[` + reader + `]`, 0, false},
		"none can be keyed":            {`[` + reader + `,{"name":"pay_odd","inputSchema":7}]`, 0, false},
		"the upstream has one":         {`[` + reader + `,{"name":"refund","inputSchema":{"type":"object"}},` + own + `]`, 1, true},
		"the upstream has none at all": {`[]`, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, c.tools, func(o *gateway.Options) { o.Policy.TrustAnnotations = true })
			assert.Equal(t, c.offered, strings.Count(r.list()[0], `"name":"idempotency_status"`))
			if c.offered == 0 {
				return
			}
			answer := r.start("idempotency_status", `{"tool":"refund","idempotency_key":"refund:A1:1"}`, "").wait()
			assert.Equal(t, c.theirs, strings.Contains(string(answer.Result), "done, call 1"))
			assert.Equal(t, !c.theirs, strings.Contains(string(answer.Result), `"outcome":"NOT_FOUND"`))
		})
	}
}
