package gateway_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/gateway"
	"github.com/mcp-idem/mcp-idem/toolschema"
)

const nativeTool = `[{"name":"task_set","inputSchema":{"type":"object","properties":{` +
	`"data":{"type":"object","properties":{"title":{"type":"string"},"client_token":{"type":"string"}}}}}}]`

const taskA1 = `{"data":{"title":"A1"},"idempotency_key":"task:A1:1"}`

// deduplicate has every tool be of a class that trusts the server's own key.
func deduplicate(rule string) func(*gateway.Options) {
	return func(o *gateway.Options) {
		o.Policy.Overrides = []toolschema.Override{{Pattern: "*", Class: toolschema.ClassDeduplicate}}
		if rule != "" {
			parsed, err := toolschema.ParseNativeRule(rule)
			if err != nil {
				panic(err)
			}
			o.Policy.Natives = []toolschema.NativeRule{parsed}
		}
	}
}

var uuid8 = regexp.MustCompile(`"[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"`)

func TestACallIsSentAgainWithTheSameNestedNativeKey(t *testing.T) {
	t.Parallel()
	r := newRig(t, nativeTool, deduplicate(""))
	assert.NotContains(t, r.list()[0], "client_token", "the model is not to see it")
	r.server.on("task_set", func(c *call) { c.fail(-32603, "boom") })
	r.call("task_set", taskA1).require(gateway.EffectUnknown, "attempt", "1", "next.action", "retry_same_key")
	r.server.on("task_set", nil)
	r.call("task_set", taskA1).require(gateway.Completed, "attempt", "2")
	got := r.server.received()
	require.Len(t, got, 2)
	assert.Equal(t, got[0], got[1], "the same key at the same place")
	assert.Equal(t, `task_set {"data":{"title":"A1","client_token":KEY}}`, uuid8.ReplaceAllString(got[0], "KEY"))
}

func TestARawNativeKeyIsTheCallersOwn(t *testing.T) {
	t.Parallel()
	r := newRig(t, nativeTool, deduplicate("*=data.client_token,raw,shown"))
	assert.Contains(t, r.list()[0], "client_token")
	r.call("task_set", strings.Replace(taskA1, `"title"`, `"client_token":"theirs","title"`, 1)).require(gateway.Completed)
	assert.Equal(t, []string{`task_set {"data":{"client_token":"task:A1:1","title":"A1"}}`}, r.server.received())
	r.call("task_set", taskA1).require(gateway.Completed, "was_replay", "true")
}

// Without the object that the key stands in the server gets none, and would not
// know the call again.
func TestACallWithoutAPlaceForTheNativeKeyIsNotSentAgain(t *testing.T) {
	t.Parallel()
	const bare = `{"title":"A1","idempotency_key":"task:A1:1"}`
	r := newRig(t, nativeTool, deduplicate(""))
	r.server.on("task_set", func(c *call) { c.fail(-32603, "boom") })
	r.call("task_set", bare).require(gateway.EffectUnknown, "next.action", "ask_human")
	r.call("task_set", bare).require(gateway.EffectUnknown, "attempt", "1")
	assert.Equal(t, 1, r.server.effects())
}

// A first call that went without the key, or with another form of it, is unknown to
// the server by the key that a second one would carry.
func TestACallIsNotSentAgainWithAKeyThatTheFirstDidNotCarry(t *testing.T) {
	t.Parallel()
	for name, rules := range map[string][2]string{
		"none before":                     {"*=none", "*=data.client_token"},
		"another place":                   {"*=data.other", "*=data.client_token"},
		"another form":                    {"*=data.client_token,raw", "*=data.client_token"},
		"none any more":                   {"*=data.client_token", "*=none"},
		"shown or hidden is all the same": {"*=data.client_token,shown", "*=data.client_token"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nativeTool, deduplicate(rules[0]))
			r.server.on("task_set", func(c *call) { c.fail(-32603, "boom") })
			r.call("task_set", taskA1).require(gateway.EffectUnknown, "attempt", "1")
			r.server.on("task_set", nil)
			second := r.another(deduplicate(rules[1]))
			if strings.Contains(rules[0], "shown") {
				second.call("task_set", taskA1).require(gateway.Completed, "attempt", "2")
				return
			}
			second.call("task_set", taskA1).require(gateway.EffectUnknown, "attempt", "1", "next.action", "ask_human")
			assert.Equal(t, 1, r.server.effects())
		})
	}
}

func TestTheUpstreamsWindowIsTheOperators(t *testing.T) {
	t.Parallel()
	r := newRig(t, nativeTool, func(o *gateway.Options) {
		deduplicate("")(o)
		o.UpstreamWindow = time.Hour
	})
	r.server.on("task_set", func(c *call) { c.fail(-32603, "boom") })
	r.call("task_set", taskA1).require(gateway.EffectUnknown, "next.action", "retry_same_key")
	r.clock.Advance(time.Hour)
	r.call("task_set", taskA1).require(gateway.EffectUnknown, "attempt", "1")
	assert.Equal(t, 1, r.server.effects())
}

func TestANativeKeyThatNobodyHasSpokenOfIsNotedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, nativeTool, nil)
	r.list()
	r.log.await(t, "tools take a key of their own", 1)
	r.server.say(listChanged)
	r.server.say("notifications/message")
	receive(t, r.others, "the word behind it")
	lines, _ := r.log.with("tools take a key of their own")
	assert.Len(t, lines, 1)
	r.server.offers(strings.Replace(nativeTool, "client_token", "clientToken", 1))
	r.server.say(listChanged) // of which the client is not told: what it is offered is the same
	r.log.await(t, "tools take a key of their own", 2)
	quiet := newRig(t, nativeTool, deduplicate(""))
	quiet.list()
	lines, _ = quiet.log.with("tools take a key of their own")
	assert.Empty(t, lines)
}
