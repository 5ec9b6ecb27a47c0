package gateway_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/gateway"
	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

func TestACallGoesToTheServerThatItsNameBeginsWith(t *testing.T) {
	t.Parallel()
	p := newTroupe(t, "a", "b").perform(nil)
	p.call("b__refund", keyed("A1")).require(gateway.Completed)
	assert.Equal(t, []string{`refund {"order":"A1"}`}, p.actor("b").received())
	assert.Empty(t, p.actor("a").received())
	p.call("b__refund", keyed("A1")).require(gateway.Completed, "was_replay", "true")
	for _, name := range []string{"refund", "c__refund", "a__nothing", "a_refund", "__refund", ""} {
		e := p.refusal("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, keyed("A2")))
		assert.Contains(t, e.Message, "Unknown tool")
		assert.Contains(t, e.Message, "nothing was sent")
	}
	assert.Equal(t, 1, p.actor("a").effects()+p.actor("b").effects())
}

func TestListsArePutTogetherInTheConfiguredOrder(t *testing.T) {
	t.Parallel()
	c := newTroupe(t, "b", "a")
	c.actor("a").listsBy(func(cursor string) string {
		return map[string]string{
			"":  `{"tools":[{"name":"one", "x":1.10,"annotations":{"readOnlyHint":true},"inputSchema":{}}],"nextCursor":"2"}`,
			"2": `{"tools":[{"annotations":{"readOnlyHint":true},"inputSchema":{"const":9007199254740993},"name":"two"}]}`,
		}[cursor]
	})
	c.actor("a").does("prompts/list", func(call *call) {
		if strings.Contains(string(call.m.Params), "p2") {
			call.answer(`{"prompts":[{"title":"\u00e9","name":"y"}]}`)
			return
		}
		call.answer(`{"prompts":[{"name" : "x" ,"n":1e0}],"nextCursor":"p2"}`)
	})
	c.actor("b").answers("prompts/list", `{"prompts":[{"name":"z"}]}`)
	p := c.perform(func(_ string, o *gateway.Options) { o.Policy.TrustAnnotations = true })
	tools := p.result("tools/list", "")
	assert.Less(t, strings.Index(tools, `"b__refund"`), strings.Index(tools, `"a__one"`))
	assert.Contains(t, tools, `{"name":"a__one", "x":1.10,"annotations":{"readOnlyHint":true},"inputSchema":{}},{"annotations":{"readOnlyHint":true},"inputSchema":{"const":9007199254740993},"name":"a__two"}`)
	assert.Equal(t, 1, strings.Count(tools, `"name":"idempotency_status"`))
	assert.NotContains(t, tools, "nextCursor")
	assert.Equal(t, `{"prompts":[{"name":"b__z"},{"name" : "a__x" ,"n":1e0},{"title":"\u00e9","name":"a__y"}]}`,
		p.result("prompts/list", `{"_meta":{"trace":"t","progressToken":7}}`))
	assert.Equal(t, []string{`prompts/list {"_meta":{"trace":"t"}}`, `prompts/list {"_meta":{"trace":"t"},"cursor":"p2"}`}, p.actor("a").got("prompts/list"))
	p.refusal("prompts/list", `{"cursor":"x"}`)
	p.refusal("tools/list", `{"cursor":"x"}`)
	for _, a := range p.actors {
		assert.Len(t, a.got("initialize"), 1)
	}
}

func TestAServerThatIsDownOrSlowHidesNoOther(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fails func(*actor)
		comes func(*actor)
	}{
		"it cannot be shaken hands with": {
			func(a *actor) { a.greet = func(c *call) { c.fail(-32603, "not today") } },
			func(a *actor) {
				a.server.mu.Lock()
				defer a.server.mu.Unlock()
				a.greet = func(c *call) { c.answer(fullHandshake) }
			},
		},
		"it hangs when it is asked for its tools": {
			func(a *actor) { hangsOnce(a, "tools/list") },
			func(a *actor) { a.held <- nil },
		},
		"it does not start in time": {
			func(a *actor) { hangsOnce(a, "initialize") },
			func(a *actor) { a.held <- nil },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			troupe := newTroupe(t, "down", "up")
			down := troupe.actor("down")
			c.fails(down)
			p := troupe.perform(func(name string, o *gateway.Options) {
				if name == "down" {
					o.Upstream.StartTimeout = 2 * time.Second // enough for one that does not hang
				}
			})
			tools := p.result("tools/list", "")
			assert.Contains(t, tools, "up__refund")
			assert.NotContains(t, tools, "down__refund")
			p.call("up__refund", keyed("A1")).require(gateway.Completed)
			c.comes(down)
			p.awaitTools("down__refund")
			p.call("down__refund", keyed("A2")).require(gateway.Completed)
			assert.Equal(t, 1, troupe.actor("up").effects())
		})
	}
}

func TestAHandshakeDoesNotWaitForAServerThatStartsSlowly(t *testing.T) {
	t.Parallel()
	c := newTroupe(t, "slow", "quick")
	c.lateAfter = time.Millisecond
	slow, quick := c.actor("slow"), c.actor("quick")
	hangsOnce(slow, "initialize")
	quick.greet = func(c *call) {
		c.answer(`{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"quick","version":"1"}}`)
	}
	p := c.begin(nil)
	welcome := p.result("initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`)
	assert.Contains(t, welcome, `"prompts":{"listChanged":true}`, "the other may have some")
	assert.Contains(t, welcome, `"resources":{"listChanged":true}`)
	assert.NotContains(t, welcome, "subscribe")
	p.notify("notifications/initialized", "")
	assert.NotContains(t, p.result("tools/list", ""), "slow__refund")
	p.call("quick__refund", keyed("A1")).require(gateway.Completed)
	slow.held <- nil
	p.awaitTools("slow__refund")
	p.call("slow__refund", keyed("A2")).require(gateway.Completed)
}

// hangsOnce has the server answer a method only when its held calls are let go.
func hangsOnce(a *actor, method string) {
	var once sync.Once
	hang := func() { once.Do(func() { <-a.held }) }
	switch method {
	case "initialize":
		a.greet = func(c *call) { hang(); c.answer(fullHandshake) }
	case "tools/list":
		a.listsBy(func(string) string { hang(); return `{"tools":` + refundTool + `}` })
	default:
		a.on(method, func(c *call) { hang(); c.answer(`{}`) })
	}
}

func TestTheLastGoodListStays(t *testing.T) {
	t.Parallel()
	c := newTroupe(t, "a", "b")
	for _, a := range c.actors {
		a.answers("prompts/list", `{"prompts":[{"name":"p"}]}`)
	}
	p := c.perform(nil)
	first, prompts := p.result("tools/list", ""), p.result("prompts/list", "")
	a := c.actor("a")
	a.listsBy(func(string) string { return "" })
	a.does("prompts/list", func(c *call) { c.fail(-32603, "not today") })
	a.say(listChanged)
	a.say("notifications/prompts/list_changed")
	p.awaits("notifications/prompts/list_changed")
	assert.Equal(t, first, p.result("tools/list", ""))
	assert.Equal(t, prompts, p.result("prompts/list", ""))
	a.stayDown()
	c.log.await(t, "the upstream is gone", 2)
	assert.Equal(t, first, p.result("tools/list", ""))
	assert.Equal(t, prompts, p.result("prompts/list", ""))
	p.call("b__refund", keyed("A1")).require(gateway.Completed)
}

// What one server keeps waiting delays no other, although the client sends it first.
func TestAServerThatIsGoneDelaysNoOther(t *testing.T) {
	t.Parallel()
	c := newTroupe(t, "a", "b")
	p := c.perform(func(_ string, o *gateway.Options) { o.ReachWithin = patience })
	for _, a := range c.actors {
		a.answers("prompts/get", `{"messages":[]}`)
	}
	p.list()
	c.actor("a").stayDown()
	c.log.await(t, "the upstream is gone", 1)
	p.notify("notifications/roots/list_changed", "")
	began := time.Now()
	waiting := p.request("prompts/get", `{"name":"a__p"}`)
	assert.NotNil(t, p.request("prompts/get", `{"name":"b__p"}`).wait().Result)
	p.call("b__refund", keyed("A1")).require(gateway.Completed)
	assert.Less(t, time.Since(began), patience/2)
	waiting.cancel()
}

func TestTheOrderOfWhatOneServerGetsIsThatOfTheClient(t *testing.T) {
	t.Parallel()
	c := newTroupe(t, "a", "b")
	a := c.actor("a")
	a.answers("prompts/get", `{"messages":[]}`)
	p := c.perform(nil)
	var all []*pending
	var want []string
	for i := range 50 {
		all = append(all, p.request("prompts/get", fmt.Sprintf(`{"name":"a__%d"}`, i)), p.request("prompts/get", `{"name":"b__p"}`))
		want = append(want, fmt.Sprintf(`prompts/get {"name":"%d"}`, i))
	}
	for _, one := range all {
		require.NotNil(t, one.wait().Result)
	}
	assert.Equal(t, want, a.got("prompts/get"))
}

func TestWhatConcernsNobodyIsNotSent(t *testing.T) {
	t.Parallel()
	c := newTroupe(t, "a", "b")
	p := c.perform(nil)
	for method, params := range map[string]string{
		"prompts/get":         `{"name":"c__p"}`,
		"resources/read":      `{"uri":"file:///nowhere"}`,
		"completion/complete": `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"x","value":""}}`,
		"tasks/get":           `{"taskId":"t"}`,
		"x/unknown":           `{}`,
	} {
		p.refusal(method, params)
		for _, a := range c.actors {
			assert.Empty(t, a.got(method))
		}
	}
}

// The one server of a front is asked what nobody knows.
func TestAnUnknownRequestGoesToTheOnlyServer(t *testing.T) {
	t.Parallel()
	c := newTroupe(t, "a")
	c.actor("a").answers("x/unknown", `{"n":9007199254740993}`)
	p := c.perform(nil)
	assert.JSONEq(t, `{"n":9007199254740993}`, p.result("x/unknown", `{}`))
}

func TestTheGreetingIsPutTogether(t *testing.T) {
	t.Parallel()
	c := newTroupe(t, "a", "b")
	c.actor("b").greet = func(call *call) {
		call.answer(`{"protocolVersion":"2025-06-18","capabilities":{"experimental":{"x":{}}},"serverInfo":{"name":"b","version":"1"}}`)
	}
	p := c.begin(nil)
	got := p.result("initialize", hello)
	assert.Contains(t, got, `"capabilities":{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"logging":{},"completions":{},"tasks":{"list":{},"cancel":{}},"experimental":{"x":{}}}`)
	assert.Contains(t, got, `# a\nBe full.`)
	assert.Contains(t, got, `"protocolVersion":"2025-06-18"`)
	p.notify("notifications/initialized", "")
	p.result("ping", "")
	assert.Contains(t, p.result("tools/list", ""), "a__refund")
	select {
	case m := <-p.others:
		t.Fatalf("the client is told of nothing that it knows: %s", m.Raw())
	default:
	}
}

func TestTheStatusToolFindsAnOperationOfWhicheverServer(t *testing.T) {
	t.Parallel()
	c := newTroupe(t, "a", "b")
	p := c.perform(nil)
	made := p.call("b__refund", keyed("A1")).require(gateway.Completed)
	id := made.says("operation_id")
	for _, question := range []string{
		`{"operation_id":"` + id + `"}`,
		`{"tool":"b__refund","idempotency_key":"refund:A1:1"}`,
		`{"tool":"refund","idempotency_key":"refund:A1:1"}`,
	} {
		p.call(gateway.StatusTool, question).require(gateway.Completed, "operation_id", id)
	}
	p.call(gateway.StatusTool, `{"tool":"a__refund","idempotency_key":"refund:A2:1"}`).require(gateway.NotFound)

	all := c.upstreams(nil)
	require.NoError(t, p.front.Replace(all[:1]))
	p.call(gateway.StatusTool, `{"operation_id":"`+id+`"}`).require(gateway.Completed)
	gone := p.call(gateway.StatusTool, `{"tool":"b__refund","idempotency_key":"refund:A1:1"}`)
	assert.NotEqual(t, gateway.NotFound, gone.says("outcome"), "the ledger has a record of it")
	assert.Contains(t, string(gone.raw), id)
}

func TestAToolThatIsCalledLikeTheStatusToolIsReached(t *testing.T) {
	t.Parallel()
	c := newTroupe(t, "a")
	c.add("b", toolNamed(gateway.StatusTool))
	p := c.perform(nil)
	assert.Contains(t, p.result("tools/call", `{"name":"b__idempotency_status","arguments":{}}`), "done, call 1")
	assert.Equal(t, 1, c.actor("b").effects())
	assert.Equal(t, 1, strings.Count(p.result("tools/list", ""), `"name":"idempotency_status"`))
}

// The same key for two servers is taken for a mistake, loudly: the model is told what to
// do.
func TestTheSameKeyForTwoServersIsRefused(t *testing.T) {
	t.Parallel()
	c := newTroupe(t, "a", "b")
	p := c.perform(nil)
	p.call("a__refund", keyed("A1")).require(gateway.Completed)
	refused := p.call("b__refund", keyed("A1")).require(gateway.RejectedDuplicate, "reason", "scope_changed")
	assert.Contains(t, string(refused.message.Result), `this key was used for the same tool of the server \"a\"`)
	assert.Contains(t, string(refused.message.Result), "If a separate action is wanted here, use another key.")
	assert.Equal(t, 0, c.actor("b").effects())
	p.call("b__refund", keyed("A1-at-b")).require(gateway.Completed)
}

func TestProgressOfTwoServersUnderOneToken(t *testing.T) {
	t.Parallel()
	c := newTroupe(t, "a", "b")
	p := c.perform(nil)
	for _, a := range c.actors {
		a.on("refund", a.hold)
	}
	first := p.start("a__refund", keyed("A1"), `{"progressToken":9007199254740993}`)
	second := p.start("b__refund", keyed("A2"), `{"progressToken":"x"}`)
	held := []*call{c.actor("a").next(), c.actor("b").next()}
	for i, call := range held {
		o := string(call.m.Params)
		assert.Contains(t, o, `"progressToken":`)
		call.write(jsonrpc.Notification("notifications/progress", fmt.Appendf(nil, `{"progressToken":%s,"progress":%d}`, tokenOf(t, call), 9007199254740993+i)))
	}
	heard := string(p.awaits("notifications/progress").Params) + string(p.awaits("notifications/progress").Params)
	assert.Contains(t, heard, `{"progressToken":9007199254740993,"progress":9007199254740993}`)
	assert.Contains(t, heard, `{"progressToken":"x","progress":9007199254740994}`)
	for _, call := range held {
		call.answer(`{"content":[]}`)
	}
	first.reply().require(gateway.Completed)
	second.reply().require(gateway.Completed)
}

func tokenOf(t *testing.T, c *call) string {
	_, after, ok := strings.Cut(string(c.m.Params), `"progressToken":`)
	require.True(t, ok)
	return after[:strings.IndexAny(after, ",}")]
}
