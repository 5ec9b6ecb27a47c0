package gateway_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

func listening(filter string) ask {
	return visiting("subscriptions/listen", `"notifications":`+filter, "")
}

func TestAListenerHearsWhatItHasAskedFor(t *testing.T) {
	t.Parallel()
	w := newRichWeb(t, nil)
	subscribed := w.told("resources/subscribe")
	f := w.open(listening(`{"toolsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["file:///a"]}`))
	assert.Equal(t, http.StatusOK, f.status)
	ack := f.next()
	assert.Equal(t, "notifications/subscriptions/acknowledged", ack.Method)
	assert.JSONEq(t, `{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["file:///a"]},"_meta":{"io.modelcontextprotocol/subscriptionId":1}}`, string(ack.Params), "the server has not declared the rest")
	assert.Equal(t, []string{`{"uri":"file:///a"}`}, subscribed())

	w.server.say("notifications/prompts/list_changed")
	w.server.say("notifications/tools/list_changed")
	changed := f.next()
	assert.Equal(t, "notifications/tools/list_changed", changed.Method)
	assert.JSONEq(t, `{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}`, string(changed.Params))
	w.server.tell(jsonrpc.Notification("notifications/resources/updated", []byte(`{"uri":"file:///b"}`)))
	w.server.tell(jsonrpc.Notification("notifications/resources/updated", []byte(`{"uri":"file:///a","_meta":{"x":1}}`)))
	assert.JSONEq(t, `{"uri":"file:///a","_meta":{"x":1,"io.modelcontextprotocol/subscriptionId":1}}`, string(f.next().Params))

	left := make(chan struct{})
	w.server.on("resources/unsubscribe", func(c *call) { c.answer(`{}`); close(left) })
	f.hangUp()
	receive(t, closing(left), "the end of the subscription")
}

func TestAListenerIsToldOfTheEnd(t *testing.T) {
	t.Parallel()
	w := newRichWeb(t, nil)
	f := w.open(listening(`{"toolsListChanged":true}`))
	f.next()
	assert.NoError(t, w.shut())
	last := f.next()
	assert.Equal(t, "1", string(last.ID))
	assert.JSONEq(t, `{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":1,"io.modelcontextprotocol/serverInfo":{"name":"rich","version":"1"}}}`, string(last.Result))
	assert.Empty(t, f.ends())
}

func TestWhoListensForNothingHearsTheEndAtOnce(t *testing.T) {
	t.Parallel()
	w := newRichWeb(t, nil)
	got := w.send(listening(`{"resourcesListChanged":true}`))
	assert.Len(t, got.messages(), 2)
	assert.NotNil(t, got.message().Result)
	assert.Equal(t, -32602, w.send(listening(`{"toolsListChanged":"yes"}`)).code())
}

func TestDiscoveryTellsWhatTheHandshakeTold(t *testing.T) {
	t.Parallel()
	w := newRichWeb(t, nil)
	got := w.send(visiting("server/discover", "", ""))
	assert.Equal(t, http.StatusOK, got.status)
	result := string(got.message().Result)
	assert.Contains(t, result, `"supportedVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"]`)
	assert.Contains(t, result, `"capabilities":{"tools":{"listChanged":true},"prompts":{"listChanged":true}`)
	assert.Contains(t, result, "Be rich.")
	assert.Contains(t, result, "idempotency_key")
	assert.Contains(t, result, `"resultType":"complete","ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"rich","version":"1"}}`)
}
