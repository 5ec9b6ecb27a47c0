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
	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

func changed(names ...string) func(string, *gateway.Options) {
	return func(name string, o *gateway.Options) {
		for _, n := range names {
			if n == name {
				o.Digest = "2"
			}
		}
	}
}

func TestTwoServersAskTheClientAtOnce(t *testing.T) {
	t.Parallel()
	c := newTroupe(t, "a", "b")
	p := c.perform(nil)
	p.result("ping", "")
	replies := map[string]chan jsonrpc.Message{}
	for _, a := range c.actors {
		replies[a.name] = make(chan jsonrpc.Message, 10)
		a.server.replies(replies[a.name])
		a.tell(jsonrpc.Request([]byte(`7`), "sampling/createMessage", []byte(`{"of":"`+a.name+`","_meta":{"progressToken":7}}`)))
	}
	asked := map[string]jsonrpc.Message{}
	for range c.actors {
		m := p.awaits("sampling/createMessage")
		asked[string(m.Params[7])] = m
	}
	require.Len(t, asked, 2)
	assert.NotEqual(t, string(asked["a"].ID), string(asked["b"].ID))

	p.notify("notifications/progress", fmt.Sprintf(`{"progressToken":%s,"progress":1.0}`, tokenOf(t, &call{m: asked["b"]})))
	p.result("prompts/get", `{"name":"b__p"}`) // behind it
	require.NoError(t, p.in.Write(jsonrpc.Result(asked["b"].ID, []byte(`{"n":9007199254740993}`))))
	assert.Equal(t, `{"jsonrpc":"2.0","id":7,"result":{"n":9007199254740993}}`, string(receive(t, replies["b"], "the reply").Raw()))
	assert.Empty(t, replies["a"])
	assert.Contains(t, strings.Join(c.actor("b").notified(), ""), `"method":"notifications/progress","params":{"progressToken":7,"progress":1.0}`)
	assert.NotContains(t, strings.Join(c.actor("a").notified(), ""), "notifications/progress")

	// Each can take back its own alone.
	c.actor("b").tell(jsonrpc.Notification("notifications/cancelled", []byte(`{"requestId":7}`)))
	c.actor("b").say("notifications/prompts/list_changed")
	assert.Equal(t, "notifications/prompts/list_changed", receive(t, p.others, "what comes behind it").Method, "the question is answered, and a's is none of b's")
	c.actor("a").tell(jsonrpc.Notification("notifications/cancelled", []byte(`{"requestId":7,"reason":"r"}`)))
	assert.Contains(t, string(p.awaits("notifications/cancelled").Params), `"requestId":`+string(asked["a"].ID))
}

func TestAllServersHearThatTheRootsHaveChanged(t *testing.T) {
	t.Parallel()
	c := newTroupe(t, "a", "b")
	p := c.perform(nil)
	p.notify("notifications/roots/list_changed", `{"x":1.0}`)
	for _, a := range c.actors {
		a.answers("prompts/get", `{"messages":[]}`)
		p.result("prompts/get", `{"name":"`+a.name+`__p"}`) // behind it
		got := a.notified()
		require.Len(t, got, 2, "the handshake, and that")
		assert.Equal(t, `{"jsonrpc":"2.0","method":"notifications/roots/list_changed","params":{"x":1.0}}`, got[1])
	}
}

func TestACancelledListIsCancelledEverywhere(t *testing.T) {
	t.Parallel()
	c := newTroupe(t, "a", "b")
	for _, a := range c.actors {
		a.does("prompts/list", a.hold)
	}
	p := c.perform(nil)
	list := p.request("prompts/list", "")
	held := []*call{c.actor("a").next(), c.actor("b").next()}
	list.cancel()
	for i, a := range c.actors {
		a.answers("prompts/get", `{"messages":[]}`)
		p.awaitCancelled(a, string(held[i].m.ID))
	}
	list.requireUnanswered()
}

// awaitCancelled waits until a server has heard that one of its requests is.
func (p *play) awaitCancelled(a *actor, id string) {
	p.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		p.result("prompts/get", `{"name":"`+a.name+`__p"}`)
		if strings.Contains(strings.Join(a.notified(), ""), `"requestId":`+id) {
			return
		}
	}
	p.t.Fatalf("%s never hears of it", a.name)
}

func TestTasksAreTheirServers(t *testing.T) {
	t.Parallel()
	c := newTroupe(t, "a", "b")
	task := func(id string) func(*call) {
		return func(c *call) { c.answer(`{"task":{"taskId":"` + id + `","status":"working"}}`) }
	}
	for _, a := range c.actors {
		a.on("refund", task("of-"+a.name))
		a.answers("tasks/list", `{"tasks":[{"taskId":"of-`+a.name+`"},{"taskId":"old-`+a.name+`","n":1.0}]}`)
		a.answers("tasks/get", `{"taskId":"x","status":"working"}`)
		a.answers("tasks/cancel", `{"taskId":"x","status":"cancelled"}`)
	}
	p := c.perform(nil)
	p.list()
	p.call("b__refund", keyed("A1"))
	p.result("tasks/get", `{"taskId":"of-b"}`)
	assert.Empty(t, c.actor("a").got("tasks/get"))

	again := newPlay(c) // which has seen none of it
	again.result("tasks/get", `{"taskId":"of-b"}`)
	assert.Len(t, c.actor("b").got("tasks/get"), 2)
	again.refusal("tasks/get", `{"taskId":"old-b"}`)
	assert.Equal(t, `{"tasks":[{"taskId":"of-a"},{"taskId":"old-a","n":1.0},{"taskId":"of-b"},{"taskId":"old-b","n":1.0}]}`, again.result("tasks/list", ""))
	again.result("tasks/get", `{"taskId":"old-b"}`)
	assert.Len(t, c.actor("b").got("tasks/get"), 3)

	for i, a := range c.actors {
		a.on("refund", task("same"))
		p.call(a.name+"__refund", keyed(fmt.Sprint("B", i)))
	}
	for _, who := range []*play{p, newPlay(c)} { // by what was heard, and by the ledger
		who.refusal("tasks/cancel", `{"taskId":"same"}`)
	}
	for _, a := range c.actors {
		assert.Empty(t, a.got("tasks/cancel"), "it could be the other's")
	}
}

// newPlay is a further client of a further front.
func newPlay(c *troupe) *play { return c.perform(nil) }

func TestReplaceLeavesAloneWhatIsTheSame(t *testing.T) {
	t.Parallel()
	c := newTroupe(t, "a", "b")
	p := c.perform(nil)
	p.list()
	c.add("c", refundTool)
	require.NoError(t, p.front.Replace(c.upstreams(changed("b"))))
	p.awaitTools("c__refund")
	for i, name := range []string{"a", "b", "c"} {
		p.call(name+"__refund", keyed(fmt.Sprint("A", i))).require(gateway.Completed)
	}
	assert.Len(t, c.actor("a").got("initialize"), 1)
	assert.Len(t, c.actor("b").got("initialize"), 2)
	assert.Len(t, c.actor("c").got("initialize"), 1)
	require.NoError(t, p.front.Replace(c.upstreams(nil)[:1]))
	assert.NotContains(t, p.result("tools/list", ""), "b__refund")
	p.refusal("tools/call", `{"name":"b__refund"}`)
}

func TestCallsOfAServerThatIsTakenAwayRunOn(t *testing.T) {
	t.Parallel()
	c := newTroupe(t, "a", "b")
	c.actor("b").offers(shopTools)
	p := c.perform(func(_ string, o *gateway.Options) { o.Policy.TrustAnnotations = true })
	p.list()
	b, other := c.actor("b"), c.actor("a")
	b.on("refund", b.hold)
	b.on("look", b.hold)
	other.on("refund", other.hold)
	elsewhere := p.start("a__refund", keyed("A0"), "") // which keeps nobody but a
	call0 := other.next()
	calls := []*pending{p.start("b__refund", keyed("A1"), ""), p.start("b__look", `{}`, "")}
	held := []*call{b.next(), b.next()}
	require.NoError(t, p.front.Replace(c.upstreams(nil)[:1]))
	for _, one := range held {
		one.answer(`{"content":[{"type":"text","text":"late"}]}`)
	}
	for _, one := range calls {
		assert.Contains(t, string(one.wait().Result), "late")
	}
	b.awaitEnd(t)
	call0.answer(`{"content":[]}`)
	elsewhere.reply().require(gateway.Completed)
}

// awaitEnd waits until no process of the server is left.
func (a *actor) awaitEnd(t *testing.T) {
	t.Helper()
	_ = a.listener.Close()
	over := make(chan struct{})
	go func() { a.lives.Wait(); close(over) }()
	receive(t, closing(over), "the end of "+a.name)
}

func TestALateAnswerOfAServerThatIsTakenAwayIsRecorded(t *testing.T) {
	t.Parallel()
	c := newTroupe(t, "a", "b")
	p := c.perform(func(_ string, o *gateway.Options) { o.CallTimeout = 100 * time.Millisecond })
	b := c.actor("b")
	b.on("refund", b.hold)
	p.call("b__refund", keyed("A1")).require(gateway.EffectUnknown)
	require.NoError(t, p.front.Replace(c.upstreams(nil)[:1]))
	b.next().answer(`{"content":[]}`)
	c.becomes(dedup.Completed)
	b.awaitEnd(t)
}

func TestAShutdownTellsTheCallersOfServersThatWereTakenAway(t *testing.T) {
	t.Parallel()
	for name, left := range map[string]int{"one is left": 1, "none is left": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTroupe(t, "a", "b")
			p := c.perform(nil)
			b := c.actor("b")
			b.on("refund", b.hold)
			running := p.start("b__refund", keyed("A1"), "")
			b.next()
			require.NoError(t, p.front.Replace(c.upstreams(nil)[:left]))
			began := time.Now()
			p.shut()
			running.reply().require(gateway.EffectUnknown, "reason", "shutdown")
			p.close()
			assert.Less(t, time.Since(began), patience/2)
			assert.Equal(t, dedup.Unknown, c.only().State)
		})
	}
}

func TestAtTheEndOfInputCallsOfAllServersMayEnd(t *testing.T) {
	t.Parallel()
	c := newTroupe(t, "a", "b", "c")
	p := c.perform(nil)
	var all []*pending
	var held []*call
	for i, a := range c.actors {
		a.on("refund", a.hold)
		all = append(all, p.start(a.name+"__refund", keyed(fmt.Sprint("A", i)), ""))
		held = append(held, a.next())
	}
	require.NoError(t, p.front.Replace(c.upstreams(nil)[:2]))
	require.NoError(t, p.stdin.Close())
	require.NoError(t, p.front.Replace(c.upstreams(nil)), "it may come at any time")
	for i, one := range held {
		one.answer(`{"content":[]}`)
		all[i].reply().require(gateway.Completed)
	}
	p.close()
	require.NoError(t, p.front.Replace(nil))
}

func TestBadNamesChangeNothing(t *testing.T) {
	t.Parallel()
	c := newTroupe(t, "a")
	p := c.perform(nil)
	for _, names := range [][]string{{""}, {"a__b"}, {"a_"}, {"a/b"}, {"a", "a"}} {
		var all []gateway.Options
		for _, name := range names {
			o := c.upstreams(nil)[0]
			o.Name = name
			all = append(all, o)
		}
		require.Error(t, p.front.Replace(all), "%q", names)
	}
	p.call("a__refund", keyed("A1")).require(gateway.Completed)
	assert.Len(t, c.actor("a").got("initialize"), 1)
}

func TestAFrontWithoutServersIsOne(t *testing.T) {
	t.Parallel()
	c := newTroupe(t)
	p := c.perform(nil)
	assert.Equal(t, `{"tools":[]}`, p.result("tools/list", ""))
	p.refusal("tools/call", `{"name":"idempotency_status","arguments":{}}`)
	c.add("a", refundTool)
	require.NoError(t, p.front.Replace(c.upstreams(nil)))
	p.awaitTools("a__refund")
	p.call("a__refund", keyed("A1")).require(gateway.Completed)
}

func TestTheQuestionOfAServerThatIsTakenAwayIsOver(t *testing.T) {
	t.Parallel()
	c := newTroupe(t, "a", "b")
	p := c.perform(nil)
	p.result("prompts/get", `{"name":"b__p"}`) // there is somebody to be asked
	c.actor("b").tell(jsonrpc.Request([]byte(`7`), "roots/list", nil))
	asked := p.awaits("roots/list")
	require.NoError(t, p.front.Replace(c.upstreams(nil)[:1]))
	assert.Contains(t, string(p.awaits("notifications/cancelled").Params), `"requestId":`+string(asked.ID))
	require.NoError(t, p.in.Write(jsonrpc.Result(asked.ID, []byte(`{}`)))) // it concerns nobody any more
	p.call("a__refund", keyed("A1")).require(gateway.Completed)
}
