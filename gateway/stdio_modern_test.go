package gateway_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/gateway"
	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/upstream"
)

const (
	able         = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"new","version":"9"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"sampling":{},"x":{"y":1.0}}`
	visitedTools = `[{"name":"refund","inputSchema":{"type":"object"}},{"name":"look","annotations":{"readOnlyHint":true},"inputSchema":{"type":"object"}}]`
	richly       = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true},"logging":{}},"serverInfo":{"name":"rich","version":"1"},"instructions":"Mind."}`
	complete     = `"resultType":"complete"`
	ofServer     = `"io.modelcontextprotocol/serverInfo":{"name":"rich","version":"1"}`
)

// newVisitor is a rig before a legacy server, whose client has not said anything yet.
func newVisitor(t *testing.T, edit func(*gateway.Options)) *rig {
	t.Helper()
	r := prepare(t, visitedTools, func(o *gateway.Options) {
		o.Policy.TrustAnnotations, o.Upstream.Era = true, upstream.EraLegacy
		if edit != nil {
			edit(o)
		}
	})
	r.server.greet = func(c *call) { c.answer(richly) }
	return r
}

func (r *rig) come() {
	r.client = r.stranger(nil)
	r.client.listen()
}

// visit sends a request of the modern era, with more members of its params in front.
func (c *client) visit(method, params string) *pending {
	c.t.Helper()
	return c.request(method, "{"+params+`"_meta":{`+able+"}}")
}

// told notes the params of each request of a method that the server gets.
func (s *server) told(method, result string) <-chan string {
	told := make(chan string, 100)
	note := func(c *call) { told <- string(c.m.Params); c.answer(result) }
	if method != "initialize" {
		s.on(method, note)
		return told
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.greet = note
	return told
}

func TestModernClientOnStdioIsServed(t *testing.T) {
	t.Parallel()
	r := newVisitor(t, nil)
	told := r.server.told("initialize", richly)
	r.come()
	found := string(r.visit("server/discover", "").wait().Result)
	assert.Contains(t, found, `{"supportedVersions":["2026-07-28",`)
	assert.Contains(t, found, `"capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true},"logging":{}},"instructions":"Mind.`)
	assert.Contains(t, found, complete+`,"ttlMs":0,"cacheScope":"private","_meta":{`+ofServer+`}}`)
	assert.Equal(t, `{"protocolVersion":"2025-11-25","capabilities":{"x":{"y":1.0}},"clientInfo":{"name":"new","version":"9"}}`, receive(t, told, "the handshake"))

	list := string(r.visit("tools/list", "").wait().Result)
	assert.Contains(t, list, `"idempotency_key"`)
	assert.Contains(t, list, complete+`,"ttlMs":0,"cacheScope":"private","_meta":{`+ofServer+`}}`)
	assert.Equal(t, `{"content":[{"type":"text","text":"done, call 1"}],`+complete+`,"_meta":{`+ofServer+`}}`,
		string(r.visit("tools/call", `"name":"look","arguments":{},`).wait().Result))
	const refund = `"name":"refund","arguments":{"order":7,"idempotency_key":"refund:order-7:1"},`
	first := string(r.visit("tools/call", refund).wait().Result)
	assert.Contains(t, first, `done, call 2`)
	assert.Contains(t, first, complete)
	again := string(r.visit("tools/call", refund).wait().Result)
	assert.Contains(t, again, `"was_replay":true`)
	assert.Contains(t, again, complete)
	assert.Equal(t, []string{`look {}`, `refund {"order":7}`}, r.server.received())
	assert.Empty(t, told, "one handshake is enough")
	assert.Contains(t, string(r.only().Provenance), `"client":"new 9"`)
}

func TestAnyFirstRequestOfAModernClientIsServed(t *testing.T) {
	t.Parallel()
	for method, params := range map[string]string{
		"tools/call":           `"name":"look","arguments":{},`,
		"tools/list":           ``,
		"resources/list":       ``,
		"subscriptions/listen": `"notifications":{},`,
	} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			r := newVisitor(t, nil)
			r.come()
			answer := r.visit(method, params).wait()
			require.NotNil(t, answer.Result, "%s", answer.Raw())
			assert.Contains(t, string(answer.Result), complete)
		})
	}
}

func TestModernRequestThatCannotBeServedIsRefusedHere(t *testing.T) {
	t.Parallel()
	r := newVisitor(t, nil)
	r.come()
	for name, c := range map[string]struct {
		method, meta, says string
		code               int
	}{
		"a version of the future": {"tools/list", strings.Replace(able, "2026-07-28", "2099-01-01", 1), `"requested":"2099-01-01"`, -32022},
		"no capabilities":         {"tools/list", `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`, "clientCapabilities", -32602},
		"a version that is none":  {"tools/list", `"io.modelcontextprotocol/protocolVersion":7`, "protocolVersion", -32602},
		"initialize":              {"initialize", able, "Method not found", -32601},
		"ping":                    {"ping", able, "Method not found", -32601},
		"logging/setLevel":        {"logging/setLevel", able, "Method not found", -32601},
	} {
		answer := r.request(c.method, `{"_meta":{`+c.meta+`}}`).wait()
		problem, ok := jsonrpc.ParseError(answer.Error)
		require.True(t, ok, "%s: %s", name, answer.Raw())
		assert.Equal(t, c.code, problem.Code, name)
		assert.Contains(t, string(answer.Error), c.says, name)
	}
	assert.Empty(t, r.server.notified(), "no handshake was made")
}

func TestRequestsOfBothErasAreServedEachInItsOwn(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"legacy", "modern"} {
		t.Run(first, func(t *testing.T) {
			t.Parallel()
			r := newVisitor(t, nil)
			r.come()
			if first == "modern" {
				r.visit("server/discover", "").wait()
			}
			r.shake()
			assert.NotContains(t, string(r.request("tools/list", "").wait().Result), complete)
			assert.Contains(t, string(r.visit("tools/list", "").wait().Result), complete)
			assert.Contains(t, string(r.visit("server/discover", "").wait().Result), ofServer)
			assert.Contains(t, string(r.start("look", "{}", `{"io.modelcontextprotocol/protocolVersion":"2025-11-25"}`).wait().Result), "done")
			r.server.say("notifications/prompts/list_changed")
			assert.Equal(t, "notifications/prompts/list_changed", receive(t, r.others, "what a legacy client hears").Method)
		})
	}
}

func TestHandshakeOfTheGatewayServesAClientWhoseOwnIsRefused(t *testing.T) {
	t.Parallel()
	r := newVisitor(t, nil)
	times := 0
	r.server.greet = func(c *call) {
		if times++; times > 1 {
			c.fail(-32600, "already initialized")
			return
		}
		c.answer(richly)
	}
	r.come()
	r.visit("server/discover", "").wait()
	answer := r.request("initialize", strings.Replace(hello, "2025-06-18", "2025-03-26", 1)).wait()
	assert.Contains(t, string(answer.Result), `"protocolVersion":"2025-03-26"`)
	assert.Contains(t, string(answer.Result), `"instructions":"Mind.`)
	assert.Contains(t, string(r.request("tools/list", "").wait().Result), "refund")
}

func TestModernClientOnStdioHearsWhatItListensFor(t *testing.T) {
	t.Parallel()
	r := newVisitor(t, nil)
	subscribed := r.server.told("resources/subscribe", "{}")
	unsubscribed := r.server.told("resources/unsubscribe", "{}")
	r.come()
	listen := r.visit("subscriptions/listen", `"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["file:///a"]},`)
	ack := receive(t, r.others, "the acknowledgement")
	tag := fmt.Sprintf(`"io.modelcontextprotocol/subscriptionId":%s`, listen.id)
	assert.Equal(t, "notifications/subscriptions/acknowledged", ack.Method)
	assert.JSONEq(t, `{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["file:///a"]},"_meta":{`+tag+`}}`, string(ack.Params), "the server has not declared the rest")
	assert.Equal(t, `{"uri":"file:///a"}`, receive(t, subscribed, "the subscription"))

	r.server.say("notifications/prompts/list_changed")
	r.server.tell(jsonrpc.Notification("notifications/message", []byte(`{"level":"emergency","data":1}`)))
	r.server.say("notifications/tools/list_changed")
	changed := receive(t, r.others, "the change")
	assert.Equal(t, "notifications/tools/list_changed", changed.Method)
	assert.JSONEq(t, `{"_meta":{`+tag+`}}`, string(changed.Params))
	r.server.tell(jsonrpc.Notification("notifications/resources/updated", []byte(`{"uri":"file:///a"}`)))
	assert.JSONEq(t, `{"uri":"file:///a","_meta":{`+tag+`}}`, string(receive(t, r.others, "the update").Params))

	listen.cancel()
	assert.Equal(t, `{"_meta":{`+tag+`,`+ofServer+`},`+complete+`}`, string(listen.wait().Result), "the response is the end")
	assert.Equal(t, `{"uri":"file:///a"}`, receive(t, unsubscribed, "the end of the subscription"))
	r.server.say("notifications/tools/list_changed")
	r.visit("tools/call", `"name":"look","arguments":{},`).wait()
	assert.Empty(t, r.others)
}

func TestListenerOnStdioIsToldOfTheEnd(t *testing.T) {
	t.Parallel()
	r := newVisitor(t, nil)
	r.come()
	listen := r.visit("subscriptions/listen", `"notifications":{"toolsListChanged":true},`)
	receive(t, r.others, "the acknowledgement")
	assert.Empty(t, r.close())
	assert.Contains(t, string(listen.wait().Result), complete)
}

func TestModernClientOnStdioIsToldOfChangesByARestart(t *testing.T) {
	t.Parallel()
	r := newVisitor(t, nil)
	r.come()
	r.visit("subscriptions/listen", `"notifications":{"toolsListChanged":true},`)
	receive(t, r.others, "the acknowledgement")
	r.server.die()
	assert.Equal(t, "notifications/tools/list_changed", receive(t, r.others, "the change").Method)
}

func TestModernClientOnStdioHearsLogsThatItAsksFor(t *testing.T) {
	t.Parallel()
	r := newVisitor(t, nil)
	levels := r.server.told("logging/setLevel", "{}")
	log := func(level string) jsonrpc.Message {
		return jsonrpc.Notification("notifications/message", []byte(`{"level":"`+level+`","data":1}`))
	}
	r.server.on("look", func(c *call) {
		c.write(log("info"))
		c.write(log("error"))
		c.answer(`{"content":[]}`)
	})
	r.come()
	r.visit("tools/call", `"name":"look","arguments":{},`).wait()
	assert.Empty(t, r.others, "nobody has asked")
	r.request("tools/call", `{"name":"look","arguments":{},"_meta":{"io.modelcontextprotocol/logLevel":"warning",`+able+`}}`).wait()
	assert.JSONEq(t, `{"level":"error","data":1}`, string(receive(t, r.others, "the log").Params))
	assert.Empty(t, r.others)
	assert.JSONEq(t, `{"level":"warning"}`, receive(t, levels, "the level"))
}

func TestModernClientOnStdioIsAskedNothing(t *testing.T) {
	t.Parallel()
	r := newVisitor(t, nil)
	answers := make(chan jsonrpc.Message, 1)
	r.server.replied = func(m jsonrpc.Message) { answers <- m }
	r.come()
	r.visit("server/discover", "").wait()
	r.server.tell(jsonrpc.Request([]byte("7"), "sampling/createMessage", []byte(`{}`)))
	assert.Contains(t, string(receive(t, answers, "the refusal").Error), "-32601")
	assert.Empty(t, r.others)
}

func TestModernClientOnStdioCancels(t *testing.T) {
	t.Parallel()
	r := newVisitor(t, nil)
	r.server.on("look", r.server.hold)
	r.come()
	look := r.visit("tools/call", `"name":"look","arguments":{},`)
	r.server.next()
	look.cancel()
	require.Eventually(t, func() bool {
		return strings.Contains(strings.Join(r.server.notified(), ""), "notifications/cancelled")
	}, patience, time.Millisecond)
}

func TestModernClientBeforeAModernUpstreamOnStdio(t *testing.T) {
	t.Parallel()
	r := newVisitor(t, func(o *gateway.Options) { o.Upstream.Era = upstream.EraAuto })
	asked := r.server.told("server/discover", `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"resultType":"complete","_meta":{`+ofServer+`}}`)
	const question = `{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{}}},"requestState":"s"}`
	params := r.server.told("resources/read", question)
	r.come()
	assert.Contains(t, string(r.visit("server/discover", "").wait().Result), ofServer)
	assert.Equal(t, `{"_meta":{`+able+`}}`, receive(t, asked, "server/discover"), "it can be told what the client can do")
	answer := string(r.visit("resources/read", `"uri":"x",`).wait().Result)
	assert.Contains(t, answer, `"resultType":"input_required"`)
	assert.JSONEq(t, `{"uri":"x","_meta":{`+able+`}}`, receive(t, params, "the request"))
	assert.NotContains(t, strings.Join(r.server.notified(), ""), "initialized")
}

func TestUpstreamThatFailsToStartFailsAModernClientToo(t *testing.T) {
	t.Parallel()
	r := newVisitor(t, nil)
	r.server.greet = func(c *call) { c.fail(-32602, "too old") }
	r.come()
	answer := r.visit("server/discover", "").wait()
	assert.Contains(t, string(answer.Error), "too old")
	r.server.told("initialize", richly)
	assert.NotNil(t, r.visit("server/discover", "").wait().Result, "another try may do")
}
