package gateway_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/gateway"
	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

const richHandshake = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true},"logging":{}},"serverInfo":{"name":"rich","version":"1"},"instructions":"Be rich."}`

// newRichWeb serves a server that can do everything.
func newRichWeb(t *testing.T, edit func(*gateway.HTTPOptions)) *web {
	t.Helper()
	r := prepare(t, shopTools, func(o *gateway.Options) { o.Policy.TrustAnnotations = true })
	r.server.greet = func(c *call) { c.answer(richHandshake) }
	return serveWeb(t, r, edit)
}

// told are the params of the requests of a method that the server has got.
func (w *web) told(method string) func() []string {
	var all []string
	w.server.on(method, func(c *call) {
		w.server.mu.Lock()
		all = append(all, string(c.m.Params))
		w.server.mu.Unlock()
		c.answer(`{}`)
	})
	return func() []string {
		w.server.mu.Lock()
		defer w.server.mu.Unlock()
		return append([]string{}, all...)
	}
}

func asking(method, params string) string {
	return `{"jsonrpc":"2.0","id":5,"method":"` + method + `","params":` + params + `}`
}

func TestTheServerIsToldOfASubscriptionWhileAnybodyHasIt(t *testing.T) {
	t.Parallel()
	w := newRichWeb(t, nil)
	subscribed, unsubscribed := w.told("resources/subscribe"), w.told("resources/unsubscribe")
	first, second := w.enter(), w.enter()
	const a = `{"uri":"file:///a"}`
	for _, session := range [][]string{first, second} {
		require.NotNil(t, w.send(post(asking("resources/subscribe", a), session...)).message().Result)
	}
	require.NotEmpty(t, subscribed())
	hears, too := w.open(ask{method: "GET", path: "/mcp"}.with(first...)), w.open(ask{method: "GET", path: "/mcp"}.with(second...))
	w.server.tell(jsonrpc.Notification("notifications/resources/updated", []byte(`{"uri":"file:///a/below"}`)))
	assert.Contains(t, string(hears.next().Params), "file:///a/below")
	assert.Contains(t, string(too.next().Params), "file:///a/below")

	require.NotNil(t, w.send(post(asking("resources/unsubscribe", a), first...)).message().Result)
	assert.Empty(t, unsubscribed(), "the other still wants to know")
	w.server.tell(jsonrpc.Notification("notifications/resources/updated", []byte(a)))
	w.server.tell(jsonrpc.Notification("notifications/resources/updated", []byte(`{"uri":"file:///another"}`)))
	w.server.say("notifications/prompts/list_changed")
	assert.Equal(t, "notifications/prompts/list_changed", hears.next().Method, "it does not hear of it any more")
	assert.Equal(t, "notifications/resources/updated", too.next().Method)
	assert.Equal(t, "notifications/prompts/list_changed", too.next().Method, "what nobody has subscribed to concerns nobody")

	left := make(chan struct{})
	w.server.on("resources/unsubscribe", func(c *call) { c.answer(`{}`); close(left) })
	w.send(ask{method: "DELETE", path: "/mcp"}.with(second...))
	receive(t, closing(left), "the end of the last subscription")
}

func TestEachClientGetsTheLogMessagesThatItWants(t *testing.T) {
	t.Parallel()
	w := newRichWeb(t, nil)
	levels := w.told("logging/setLevel")
	w.server.on("look", w.server.hold)
	loud, quiet := w.enter(), w.enter()
	for level, session := range map[string][]string{"error": quiet, "debug": loud} {
		require.NotNil(t, w.send(post(asking("logging/setLevel", `{"level":"`+level+`"}`), session...)).message().Result)
	}
	assert.Equal(t, `{"level":"debug"}`, levels()[len(levels())-1], "the least that anybody wants")
	assert.Equal(t, -32602, w.send(post(asking("logging/setLevel", `{"level":"loud"}`), quiet...)).code())

	logs := func(a ask) []jsonrpc.Message {
		got := make(chan answer, 1)
		go func() { got <- w.send(a) }()
		running := w.server.next()
		for _, level := range []string{"debug", "warning", "error"} {
			w.server.tell(jsonrpc.Notification("notifications/message", []byte(`{"level":"`+level+`","data":"x"}`)))
		}
		running.answer(`{"content":[]}`)
		all := receive(t, got, "the answer").messages()
		return all[:len(all)-1]
	}
	assert.Len(t, logs(post(calling("1", "look", `{}`), loud...)), 3)
	assert.Len(t, logs(post(calling("1", "look", `{}`), quiet...)), 1)
	modern := visitingTool("look", `{}`)
	assert.Empty(t, logs(modern), "a request that asks for none gets none")
	modern.body = strings.Replace(modern.body, `"_meta":{`, `"_meta":{"io.modelcontextprotocol/logLevel":"warning",`, 1)
	assert.Len(t, logs(modern), 2)
}

// Whose log message it is cannot be told while two calls are open, and never where
// the clients are strangers to one another.
func TestALogMessageGoesToNobodyWhereItsCallIsNotKnown(t *testing.T) {
	t.Parallel()
	message := jsonrpc.Notification("notifications/message", []byte(`{"level":"error","data":"x"}`))
	for name, tokens := range map[string]map[string]string{
		"two calls":     nil,
		"two strangers": {"ada": "token-of-ada", "bob": "token-of-bob"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRichWeb(t, func(o *gateway.HTTPOptions) { o.Tokens = tokens })
			w.server.on("look", w.server.hold)
			session := w.enter("Authorization", "Bearer token-of-ada")
			calls := 2
			if tokens != nil {
				calls = 1
			}
			got := make(chan answer, calls)
			var running []*call
			for i := range calls {
				go func() { got <- w.send(post(calling(string(rune('1'+i)), "look", `{}`), session...)) }()
				running = append(running, w.server.next())
			}
			w.server.tell(message)
			for _, c := range running {
				c.answer(`{"content":[]}`)
			}
			for range running {
				assert.Len(t, receive(t, got, "the answer").messages(), 1)
			}
		})
	}
}

// A server may go on with a call that was given up, and log about it.
func TestALogMessageGoesToNobodyAfterACallWasGivenUp(t *testing.T) {
	t.Parallel()
	w := newRichWeb(t, nil)
	w.server.on("look", w.server.hold)
	session := w.enter()
	hangUp := w.start(visitingTool("look", `{}`))
	w.server.next()
	hangUp()
	require.Eventually(t, func() bool { return len(w.cancellations()) == 1 }, patience, 5*time.Millisecond)
	got := make(chan answer, 1)
	go func() { got <- w.send(post(calling("1", "look", `{}`), session...)) }()
	running := w.server.next()
	w.server.tell(jsonrpc.Notification("notifications/message", []byte(`{"level":"error","data":"of the other"}`)))
	running.answer(`{"content":[]}`)
	assert.Len(t, receive(t, got, "the answer").messages(), 1)
}

func TestWhatTheServerAsksIsRefusedWhereItIsShared(t *testing.T) {
	t.Parallel()
	w := newRichWeb(t, nil)
	session := w.enter()
	answered := make(chan jsonrpc.Message, 1)
	w.server.replies(answered)
	w.server.tell(jsonrpc.Request([]byte(`"q"`), "sampling/createMessage", []byte(`{}`)))
	reply := receive(t, answered, "the reply")
	e, ok := jsonrpc.ParseError(reply.Error)
	require.True(t, ok)
	assert.Equal(t, -32601, e.Code)
	assert.Equal(t, http.StatusOK, w.send(post(pinging, session...)).status)
}

func TestAServerThatComesBackIsToldAgain(t *testing.T) {
	t.Parallel()
	w := newRichWeb(t, nil)
	session := w.enter()
	require.NotNil(t, w.send(post(asking("resources/subscribe", `{"uri":"file:///a"}`), session...)).message().Result)
	listening := w.open(ask{method: "GET", path: "/mcp"}.with(session...))
	again := make(chan struct{})
	w.server.on("resources/subscribe", func(c *call) { c.answer(`{}`); close(again) })
	w.server.die()
	receive(t, closing(again), "the subscription")
	assert.Equal(t, "notifications/tools/list_changed", listening.next().Method)
	assert.Contains(t, w.send(post(calling("1", "refund", refundA1), session...)).body, `"was_replay":false`)
}

// A task is its principal's, also that of a call that nobody records.
func TestATaskIsItsPrincipals(t *testing.T) {
	t.Parallel()
	for _, process := range []gateway.Process{gateway.Shared, gateway.PerSession} {
		t.Run(string(process), func(t *testing.T) {
			t.Parallel()
			w := newWeb(t, shopTools, func(o *gateway.HTTPOptions) {
				o.Process = process
				o.Tokens = map[string]string{"ada": "token-of-ada", "bob": "token-of-bob"}
			})
			ada, bob := []string{"Authorization", "Bearer token-of-ada"}, []string{"Authorization", "Bearer token-of-bob"}
			w.server.on("refund", func(c *call) { c.answer(`{"task":{"taskId":"of-a-refund","status":"working"},"content":[]}`) })
			w.server.on("look", func(c *call) { c.answer(`{"task":{"taskId":"of-a-look-up","status":"working"},"content":[]}`) })
			cancelled := w.told("tasks/cancel")
			require.Contains(t, w.send(visitingTool("refund", refundA1).with(ada...)).body, "of-a-refund")
			require.Contains(t, w.send(visitingTool("look", `{}`).with(ada...)).body, "of-a-look-up")
			theirs, ours := w.enter(bob...), w.enter(ada...)
			for _, id := range []string{"of-a-refund", "of-a-look-up", "of-nobody"} {
				question := asking("tasks/cancel", `{"taskId":"`+id+`"}`)
				assert.Equal(t, jsonrpc.CodeInvalidParams, w.send(post(question, theirs...)).code(), id)
			}
			assert.Equal(t, jsonrpc.CodeInvalidParams, w.send(post(asking("tasks/list", `{}`), theirs...)).code(), "it would name those of others")
			require.Empty(t, cancelled())
			for _, id := range []string{"of-a-refund", "of-a-look-up"} {
				assert.Zero(t, w.send(post(asking("tasks/cancel", `{"taskId":"`+id+`"}`), ours...)).code(), id)
			}
			assert.Len(t, cancelled(), 2)
		})
	}
}
