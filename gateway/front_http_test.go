package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/gateway"
	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

// The ways in which clients come by HTTP.
var ways = map[string]gateway.Process{"shared": gateway.Shared, "one for each session": gateway.PerSession}

func by(process gateway.Process) func(*gateway.HTTPOptions) {
	return func(o *gateway.HTTPOptions) { o.Process = process }
}

func listing(session []string) ask { return post(asking("tools/list", `{}`), session...) }

func TestSeveralServersByHTTP(t *testing.T) {
	t.Parallel()
	for name, process := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTroupe(t, "a", "b")
			w, gate := c.web(by(process), nil)
			first, second := w.enter(), w.enter()
			for _, session := range [][]string{first, second} {
				got := w.send(listing(session)).body
				assert.Contains(t, got, "a__refund")
				assert.Contains(t, got, "b__refund")
			}
			assert.Contains(t, w.send(post(calling("1", "b__refund", keyed("A1")), first...)).body, "done, call 1")
			assert.Contains(t, w.send(visitingTool("b__refund", keyed("A1"))).body, `"was_replay":true`)
			assert.Contains(t, w.send(visiting("tools/list", "", "")).body, `"resultType":"complete"`)
			assert.Equal(t, 0, c.actor("a").effects())
			assert.Equal(t, http.StatusOK, w.send(ask{method: "GET", path: "/readyz"}).status)

			hears := w.open(ask{method: "GET", path: "/mcp"}.with(first...))
			c.add("c", refundTool)
			require.NoError(t, gate.Replace(c.upstreams(nil)))
			for !strings.Contains(w.send(listing(first)).body, "c__refund") {
				for hears.next().Method != listChanged {
				}
			}
			assert.Contains(t, w.send(post(calling("2", "c__refund", keyed("A2")), second...)).body, "done, call 1")
			require.NoError(t, gate.Replace(c.upstreams(nil)[:1]))
			assert.NotContains(t, w.send(listing(second)).body, "b__refund")
			assert.NotContains(t, w.send(listing(w.enter())).body, "b__refund")
			c.actor("b").awaitEnd(t)
			require.Error(t, gate.Replace(append(c.upstreams(nil), c.upstreams(nil)...)))
			assert.Contains(t, w.send(listing(first)).body, "a__refund")
			hears.hangUp()
		})
	}
}

func TestAServerThatComesLateIsHeardOfByHTTP(t *testing.T) {
	t.Parallel()
	for name, process := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTroupe(t, "late", "b")
			late := c.actor("late")
			late.greet = func(call *call) { call.fail(-32603, "not today") }
			w, _ := c.web(by(process), nil)
			session := w.enter()
			hears := w.open(ask{method: "GET", path: "/mcp"}.with(session...))
			assert.NotContains(t, w.send(listing(session)).body, "late__refund")
			assert.Contains(t, w.send(post(calling("1", "b__refund", keyed("A1")), session...)).body, "done, call 1")
			late.server.mu.Lock()
			late.server.greet = func(c *call) { c.answer(fullHandshake) }
			late.server.mu.Unlock()
			for !strings.Contains(w.send(listing(session)).body, "late__refund") {
				for hears.next().Method != listChanged {
				}
			}
			assert.Contains(t, w.send(post(calling("2", "late__refund", keyed("A2")), session...)).body, "done, call 1")
			for _, a := range c.actors {
				assert.LessOrEqual(t, strings.Count(strings.Join(a.notified(), ""), "notifications/initialized"), 1, "no process is told twice")
			}
			hears.hangUp()
		})
	}
}

// By the modern era a call waits for its own server alone.
func TestACallOfTheModernEraWaitsForNoOtherServer(t *testing.T) {
	t.Parallel()
	c := newTroupe(t, "slow", "b")
	slow := c.actor("slow")
	hangsOnce(slow, "initialize")
	w, _ := c.web(by(gateway.PerSession), nil)
	assert.Contains(t, w.send(visitingTool("b__refund", keyed("A1"))).body, "done, call 1")
	assert.Equal(t, 0, len(slow.got("initialize")), "it is not needed")
	slow.held <- nil
	assert.Contains(t, w.send(visiting("tools/list", "", "")).body, "slow__refund")
}

func TestAVisitorHearsOfResourcesUnderTheirNamesForIt(t *testing.T) {
	t.Parallel()
	c := newLibrary(t)
	for _, a := range c.actors {
		a.answers("resources/subscribe", `{}`)
	}
	left := make(chan struct{})
	b := c.actor("b")
	b.on("resources/unsubscribe", func(call *call) { call.answer(`{}`); close(left) })
	w, gate := c.web(nil, nil)
	w.send(visiting("resources/list", "", ""))
	heard := w.open(visiting("subscriptions/listen",
		`"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["mcp-idem://b/file:///both","file:///only-a","file:///nowhere"]}`, ""))
	granted := heard.next()
	assert.Equal(t, "notifications/subscriptions/acknowledged", granted.Method)
	assert.Contains(t, string(granted.Params), `"resourceSubscriptions":["mcp-idem://b/file:///both","file:///only-a"]`)
	b.tell(jsonrpc.Notification("notifications/resources/updated", []byte(`{"uri":"file:///both"}`)))
	assert.Contains(t, string(heard.next().Params), `"uri":"mcp-idem://b/file:///both"`)

	again := make(chan bool, 10)
	b.does("resources/subscribe", func(call *call) { call.answer(`{}`); again <- true })
	c.add("c", refundTool)
	require.NoError(t, gate.Replace(c.upstreams(changed("b"))))
	receive(t, again, "the subscription for the one in its place")
	for heard.next().Method != listChanged {
	}
	c.actor("c").offers(toolNamed("other"))
	w.send(visiting("tools/list", "", ""))
	c.actor("c").say(listChanged)
	for heard.next().Method != listChanged {
	}
	heard.hangUp()
	receive(t, closing(left), "the end of the subscription")
}

func TestVisitorsAndALegacyClientOnOneConnection(t *testing.T) {
	t.Parallel()
	c := newTroupe(t, "a", "b")
	p := c.begin(nil)
	visit := func(method, params string) string {
		if params != "" {
			params += ","
		}
		return p.result(method, `{`+params+`"_meta":{`+preamble+`}}`)
	}
	assert.Contains(t, visit("server/discover", ""), "Several servers stand behind this one")
	assert.Contains(t, visit("tools/list", ""), "b__refund")
	assert.Contains(t, visit("tools/call", `"name":"b__refund","arguments":`+keyed("A1")), "done, call 1")
	p.shake()
	p.call("b__refund", keyed("A1")).require(gateway.Completed, "was_replay", "true")
	c.actor("a").say("notifications/prompts/list_changed")
	p.awaits("notifications/prompts/list_changed")
	c.actor("a").tell(jsonrpc.Request([]byte(`1`), "roots/list", nil))
	p.awaits("roots/list")
	for _, a := range c.actors {
		assert.Len(t, a.got("initialize"), 1)
	}
}

func TestALevelIsForTheServerThatARequestConcerns(t *testing.T) {
	t.Parallel()
	c := newTroupe(t, "a", "b")
	for _, a := range c.actors {
		a.does("logging/setLevel", func(call *call) {
			if a.name == "b" {
				a.hold(call) // and is not answered
				return
			}
			call.answer(`{}`)
		})
	}
	w, _ := c.web(nil, nil)
	meta := `"name":"a__refund","arguments":` + keyed("A1") + `,"_meta":{"io.modelcontextprotocol/logLevel":"info",` + preamble + `}`
	a := post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+meta+`}}`,
		"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "a__refund")
	assert.Contains(t, w.send(a).body, "done, call 1")
	assert.Empty(t, c.actor("b").got("logging/setLevel"))
}

func TestALevelIsGrantedAlthoughOneServerHangs(t *testing.T) {
	t.Parallel()
	c := newTroupe(t, "a", "b")
	c.actor("a").answers("logging/setLevel", `{}`)
	c.actor("b").does("logging/setLevel", c.actor("b").hold)
	p := c.perform(func(name string, o *gateway.Options) {
		if name == "b" {
			o.Upstream.StartTimeout = 100 * time.Millisecond
		}
	})
	p.result("logging/setLevel", `{"level":"info"}`)
	assert.Equal(t, []string{`logging/setLevel {"level":"info"}`}, c.actor("a").got("logging/setLevel"))
}

// A session that is opened while the servers are replaced gets those that are there then.
func TestSessionsThatAreOpenedWhileServersAreReplaced(t *testing.T) {
	t.Parallel()
	c := newTroupe(t, "a", "b")
	w, gate := c.web(by(gateway.PerSession), nil)
	sessions := make(chan []string, 8)
	for range cap(sessions) {
		go func() { sessions <- w.enter() }()
	}
	for i := range 10 {
		require.NoError(t, gate.Replace(c.upstreams(changed("b"))[:1+i%2]))
	}
	require.NoError(t, gate.Replace(c.upstreams(nil)[1:]))
	for i := range cap(sessions) {
		session := receive(t, sessions, "a session")
		got := w.send(listing(session)).body
		assert.NotContains(t, got, "a__refund")
		assert.Contains(t, w.send(post(calling("1", "b__refund", keyed(fmt.Sprint("A", i))), session...)).body, `"outcome":"COMPLETED"`)
	}
}

func TestASubscriptionEndsWithTheSession(t *testing.T) {
	t.Parallel()
	c := newLibrary(t)
	a, b := c.actor("a"), c.actor("b")
	a.answers("resources/unsubscribe", `{}`)
	b.answers("resources/subscribe", `{}`)
	left := make(chan bool, 1)
	b.does("resources/unsubscribe", func(call *call) { call.answer(`{}`); left <- true })
	w, _ := c.web(nil, nil)
	session := w.enter()
	w.send(post(asking("resources/list", `{}`), session...))
	require.NotNil(t, w.send(post(asking("resources/subscribe", `{"uri":"mcp-idem://b/file:///both"}`), session...)).message().Result)
	w.send(ask{method: "DELETE", path: "/mcp"}.with(session...))
	receive(t, left, "the end of the subscription")
	assert.Equal(t, []string{`resources/unsubscribe {"uri":"file:///both"}`}, b.got("resources/unsubscribe"))
	assert.Empty(t, a.got("resources/unsubscribe"))
}

// Two clients that choose the same token for two servers hear each of their own call.
func TestOneTokenOfTwoClients(t *testing.T) {
	t.Parallel()
	c := newTroupe(t, "a", "b")
	w, _ := c.web(nil, nil)
	feeds := map[string]chan *feed{}
	held := map[string]*call{}
	for _, a := range c.actors {
		a.on("refund", a.hold)
		session, opened := w.enter(), make(chan *feed, 1)
		w.send(listing(session))
		feeds[a.name] = opened
		body := strings.Replace(calling("1", a.name+"__refund", keyed("of-"+a.name)), `"params":{`, `"params":{"_meta":{"progressToken":1},`, 1)
		go func() { opened <- w.open(post(body, session...)) }()
		held[a.name] = a.next()
	}
	for name, call := range held {
		call.write(jsonrpc.Notification("notifications/progress", fmt.Appendf(nil, `{"progressToken":%s,"progress":1,"message":"of %s"}`, tokenOf(t, call), name)))
	}
	for name, call := range held {
		heard := receive(t, feeds[name], "the header")
		assert.Equal(t, `{"progressToken":1,"progress":1,"message":"of `+name+`"}`, string(heard.next().Params))
		call.answer(`{"content":[]}`)
		assert.NotNil(t, heard.next().Result)
		assert.Empty(t, heard.ends())
	}
}
