package gateway_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/gateway"
	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

// newLibrary is two servers with resources, of which they list one and the same.
func newLibrary(t *testing.T) *troupe {
	c := newTroupe(t, "a", "b")
	for _, a := range c.actors {
		a.answers("resources/list", `{"resources":[{"uri":"file:///both","name":"x"},{"name":"y","uri":"file:///only-`+a.name+`"}]}`)
		a.answers("resources/templates/list", `{"resourceTemplates":[{"uriTemplate":"`+a.name+`://{id}","name":"t"}]}`)
		a.does("resources/read", func(call *call) {
			_, uri, _ := strings.Cut(string(call.m.Params), `"uri":`)
			call.answer(fmt.Sprintf(`{"contents":[{"uri":%s,"text":%q}, {"uri":"file:///else","n":1.0}]}`, strings.TrimSuffix(uri, "}"), a.name))
		})
	}
	return c
}

func TestAResourceIsReadFromTheServerThatHasIt(t *testing.T) {
	t.Parallel()
	for name, lists := range map[string]bool{"after they were listed": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newLibrary(t).perform(nil)
			if lists {
				assert.Equal(t, `{"resources":[{"uri":"file:///both","name":"x"},{"name":"y","uri":"file:///only-a"},`+
					`{"uri":"mcp-idem://b/file:///both","name":"x"},{"name":"y","uri":"file:///only-b"}]}`, p.result("resources/list", ""))
			}
			for uri, of := range map[string]string{
				"file:///only-a": "a", "file:///only-b": "b", "file:///both": "a", "mcp-idem://b/file:///both": "b", "mcp-idem://a/file:///both": "a", "b://7": "b",
			} {
				got := p.result("resources/read", fmt.Sprintf(`{"uri":%q}`, uri))
				assert.Equal(t, fmt.Sprintf(`{"contents":[{"uri":%q,"text":%q}, {"uri":"file:///else","n":1.0}]}`, uri, of), got)
			}
			assert.Len(t, p.actor("a").got("resources/read"), 3)
			assert.Len(t, p.actor("b").got("resources/read"), 3)
			e := p.refusal("resources/read", `{"uri":"file:///nowhere"}`)
			assert.Equal(t, -32002, e.Code)
			assert.Len(t, p.actor("a").got("resources/read"), 3)
		})
	}
}

// What a template could mean is somebody's only if nobody lists it.
func TestAListedResourceIsNotThatOfAnothersTemplate(t *testing.T) {
	t.Parallel()
	c := newLibrary(t)
	c.actor("a").answers("resources/templates/list", `{"resourceTemplates":[{"uriTemplate":"file:///{id}","name":"t"}]}`)
	p := c.perform(nil)
	p.result("resources/templates/list", "")
	assert.Contains(t, p.result("resources/read", `{"uri":"file:///only-b"}`), `"text":"b"`)
	assert.Contains(t, p.result("resources/read", `{"uri":"file:///nowhere"}`), `"text":"a"`)
}

// A server that is a front itself has aliases of its own, perhaps for servers of the
// same names.
func TestAnAliasOfAServersOwnIsItsOwn(t *testing.T) {
	t.Parallel()
	c := newLibrary(t)
	c.actor("b").answers("resources/list", `{"resources":[{"uri":"mcp-idem://a/file:///only-a","name":"x"}]}`)
	p := c.perform(nil)
	assert.Contains(t, p.result("resources/list", ""), `"uri":"mcp-idem://b/mcp-idem://a/file:///only-a"`)
	assert.Contains(t, p.result("resources/read", `{"uri":"mcp-idem://b/mcp-idem://a/file:///only-a"}`), `"text":"b"`)
	assert.Equal(t, []string{`resources/read {"uri":"mcp-idem://a/file:///only-a"}`}, p.actor("b").got("resources/read"))
}

func TestAResourceIsReadFromTheServerThatHasNamedIt(t *testing.T) {
	t.Parallel()
	c := newLibrary(t)
	c.actor("b").on("refund", func(call *call) {
		call.answer(`{"content":[{"type":"resource_link","uri":"made://1","name":"m"},{"type":"resource","resource":{"uri":"made://2","text":""}}]}`)
	})
	c.actor("b").answers("prompts/get", `{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"made://3","text":""}}}]}`)
	p := c.perform(nil)
	p.refusal("resources/read", `{"uri":"made://1"}`)
	p.list()
	p.call("b__refund", keyed("A1")).require(gateway.Completed)
	p.result("prompts/get", `{"name":"b__p"}`)
	for _, uri := range []string{"made://1", "made://2", "made://3"} {
		assert.Contains(t, p.result("resources/read", `{"uri":"`+uri+`"}`), `"text":"b"`)
	}
	assert.Empty(t, c.actor("a").got("resources/read"))
}

func TestASubscriptionUnderAnAlias(t *testing.T) {
	t.Parallel()
	c := newLibrary(t)
	for _, a := range c.actors {
		for _, method := range []string{"resources/subscribe", "resources/unsubscribe", "completion/complete"} {
			a.answers(method, `{}`)
		}
	}
	p := c.perform(nil)
	templates := p.result("resources/templates/list", "")
	assert.Equal(t, `{"resourceTemplates":[{"uriTemplate":"a://{id}","name":"t"},{"uriTemplate":"b://{id}","name":"t"}]}`, templates)
	p.result("resources/list", "")
	b := p.actor("b")
	p.result("resources/subscribe", `{"uri":"mcp-idem://b/file:///both","_meta":{"x":1}}`)
	assert.Equal(t, []string{`resources/subscribe {"uri":"file:///both","_meta":{"x":1}}`}, b.got("resources/subscribe"))
	b.tell(jsonrpc.Notification("notifications/resources/updated", []byte(`{"uri":"file:///both","n":1.0}`)))
	assert.Equal(t, `{"uri":"mcp-idem://b/file:///both","n":1.0}`, string(p.awaits("notifications/resources/updated").Params))
	p.result("resources/unsubscribe", `{"uri":"mcp-idem://b/file:///both"}`)
	assert.Len(t, b.got("resources/unsubscribe"), 1)
	assert.Empty(t, p.actor("a").got("resources/subscribe"))
	p.result("completion/complete", `{"ref":{"type":"ref/resource","uri":"b://{id}"},"argument":{"name":"id","value":"1"}}`)
	p.result("completion/complete", `{"ref":{"type":"ref/prompt","name":"b__p"},"argument":{"name":"name","value":"a__"}}`)
	assert.Equal(t, []string{
		`completion/complete {"ref":{"type":"ref/resource","uri":"b://{id}"},"argument":{"name":"id","value":"1"}}`,
		`completion/complete {"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"name","value":"a__"}}`,
	}, b.got("completion/complete"))
	assert.Empty(t, p.actor("a").got("completion/complete"))
}

// What a client has asked for holds for a server that takes the place of another, and
// for one that comes late.
func TestWhatAClientWantsIsToldToServersThatComeLater(t *testing.T) {
	t.Parallel()
	c := newLibrary(t)
	for _, a := range c.actors {
		a.answers("resources/subscribe", `{}`)
		a.answers("logging/setLevel", `{}`)
	}
	late := c.actor("a")
	late.greet = func(call *call) { call.fail(-32603, "not today") }
	p := c.perform(nil)
	p.result("resources/subscribe", `{"uri":"file:///only-b"}`)
	p.result("logging/setLevel", `{"level":"warning"}`)
	b := p.actor("b")
	require.Len(t, b.got("logging/setLevel"), 1)

	told := make(chan bool, 10)
	late.does("logging/setLevel", func(call *call) { call.answer(`{}`); told <- true })
	late.server.mu.Lock()
	late.server.greet = func(c *call) { c.answer(fullHandshake) }
	late.server.mu.Unlock()
	receive(t, told, "the level for one that comes late")
	assert.Equal(t, []string{`logging/setLevel {"level":"warning"}`}, late.got("logging/setLevel"))

	subscribed := make(chan bool, 10)
	b.does("resources/subscribe", func(call *call) { call.answer(`{}`); subscribed <- true })
	b.does("logging/setLevel", func(call *call) { call.answer(`{}`); told <- true })
	require.NoError(t, p.front.Replace(c.upstreams(func(name string, o *gateway.Options) {
		if name == "b" {
			o.Digest = "2"
		}
	})))
	receive(t, told, "the level for another in the place of the first")
	receive(t, subscribed, "the subscription for it")
	assert.Len(t, b.got("initialize"), 2)
	assert.Len(t, late.got("logging/setLevel"), 1)
}
