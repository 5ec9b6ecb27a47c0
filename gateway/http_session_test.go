package gateway_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/gateway"
)

func TestASessionThatNobodyUsesEnds(t *testing.T) {
	t.Parallel()
	w := newWeb(t, shopTools, func(o *gateway.HTTPOptions) { o.SessionIdle = 50 * time.Millisecond })
	used := w.send(post(initialize)).header.Get("Mcp-Session-Id")
	listening := w.open(ask{method: "GET", path: "/mcp"}.with("Mcp-Session-Id", used))
	idle := w.send(post(initialize)).header.Get("Mcp-Session-Id")
	w.log.await(t, "a session is over", 1)
	assert.Equal(t, http.StatusNotFound, w.send(post(pinging, "Mcp-Session-Id", idle)).status)
	assert.Equal(t, http.StatusOK, w.send(post(pinging, "Mcp-Session-Id", used)).status, "it listens")
	listening.hangUp()
	w.log.await(t, "a session is over", 2)
	assert.Equal(t, http.StatusNotFound, w.send(post(pinging, "Mcp-Session-Id", used)).status)
}

func TestTheSessionThatWasIdleLongestMakesRoom(t *testing.T) {
	t.Parallel()
	w := newWeb(t, shopTools, func(o *gateway.HTTPOptions) { o.MaxSessions = 2 })
	first := w.enter()
	listening := w.open(ask{method: "GET", path: "/mcp"}.with(first...))
	second, third := w.enter(), w.enter()
	assert.Equal(t, http.StatusNotFound, w.send(post(pinging, second...)).status)
	assert.Equal(t, http.StatusOK, w.send(post(pinging, third...)).status)

	also := w.open(ask{method: "GET", path: "/mcp"}.with(third...))
	refused := w.send(post(initialize))
	assert.Equal(t, http.StatusServiceUnavailable, refused.status, "both are in use")
	assert.NotEmpty(t, refused.header.Get("Retry-After"))
	also.hangUp()
	listening.hangUp()
}

func TestNobodyTakesTheRoomOfAnother(t *testing.T) {
	t.Parallel()
	w := newWeb(t, shopTools, func(o *gateway.HTTPOptions) {
		o.MaxSessions = 4
		o.Tokens = map[string]string{"ada": "token-of-ada", "bob": "token-of-bob"}
	})
	ada, bob := []string{"Authorization", "Bearer token-of-ada"}, []string{"Authorization", "Bearer token-of-bob"}
	idle := w.enter(ada...)
	for range 2 {
		listening := w.open(ask{method: "GET", path: "/mcp"}.with(w.enter(bob...)...))
		defer listening.hangUp()
	}
	assert.Equal(t, http.StatusServiceUnavailable, w.send(post(initialize, bob...)).status, "his are in use")
	second := w.enter(ada...)
	assert.Equal(t, http.StatusOK, w.send(post(pinging, idle...)).status, "hers are no room for him")
	w.enter(ada...)
	assert.Equal(t, http.StatusNotFound, w.send(post(pinging, second...)).status, "hers are for her")
}

func TestTheOldestOfTooManyStreamsEnds(t *testing.T) {
	t.Parallel()
	w := newWeb(t, shopTools, nil)
	session := w.enter()
	oldest := w.open(ask{method: "GET", path: "/mcp"}.with(session...))
	for range gateway.MaxListening {
		w.open(ask{method: "GET", path: "/mcp"}.with(session...))
	}
	assert.Empty(t, oldest.ends())
}

func TestAHandshakeThatFailsOpensNoSession(t *testing.T) {
	t.Parallel()
	r := prepare(t, shopTools, nil)
	r.server.greet = func(c *call) { c.fail(-32050, "not today") }
	w := serveWeb(t, r, nil)
	got := w.send(post(initialize))
	assert.Equal(t, http.StatusOK, got.status)
	assert.NotZero(t, got.code())
	assert.Empty(t, got.header.Get("Mcp-Session-Id"))
	assert.Equal(t, http.StatusServiceUnavailable, w.send(ask{method: "GET", path: "/readyz"}).status)
	assert.Equal(t, http.StatusOK, w.send(ask{method: "GET", path: "/healthz"}).status)

	w.server.mu.Lock()
	w.server.greet = func(c *call) { c.answer(handshake) }
	w.server.mu.Unlock()
	assert.NotEmpty(t, w.enter(), "the next one asks again")
	assert.Equal(t, http.StatusOK, w.send(ask{method: "GET", path: "/readyz"}).status)
}

func TestARevisionIsAgreedUpon(t *testing.T) {
	t.Parallel()
	w := newWeb(t, shopTools, nil)
	for asked, want := range map[string]string{"2024-11-05": "2024-11-05", "2025-11-25": "2025-11-25", "2026-07-28": "2025-11-25", "1999-01-01": "2025-11-25"} {
		got := w.send(post(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`, asked)))
		require.Equal(t, http.StatusOK, got.status)
		assert.Contains(t, got.body, fmt.Sprintf(`"protocolVersion":%q`, want), asked)
		assert.Contains(t, got.body, "idempotency_key", "the instructions are ours as well")
	}
}
