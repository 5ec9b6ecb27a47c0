package gateway_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shopTools are one that is keyed and one that is not.
const shopTools = `[{"name":"refund","inputSchema":{"type":"object"}},{"name":"look","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]`

func TestBothErasListAndCallByHTTP(t *testing.T) {
	t.Parallel()
	w := newWeb(t, shopTools, nil)
	session := w.enter()

	list := w.send(post(`{"jsonrpc":"2.0","id":"a","method":"tools/list"}`, session...))
	assert.Equal(t, http.StatusOK, list.status)
	assert.Equal(t, "application/json", list.header.Get("Content-Type"))
	assert.Contains(t, list.body, `"idempotency_key"`)
	assert.NotContains(t, list.body, "resultType")

	first := w.send(post(calling("1", "refund", refundA1), session...))
	assert.Contains(t, first.body, `"was_replay":false`)
	again := w.send(post(calling("2", "refund", refundA1), session...))
	assert.Contains(t, again.body, `"was_replay":true`)
	assert.Contains(t, again.body, `"id":2`)

	modern := w.send(visiting("tools/list", "", ""))
	require.Equal(t, http.StatusOK, modern.status, modern.body)
	assert.Contains(t, modern.body, `"resultType":"complete","ttlMs":0,"cacheScope":"private"`)
	assert.Contains(t, modern.body, `"io.modelcontextprotocol/serverInfo":{"name":"test","version":"1"}`)
	replay := w.send(visitingTool("refund", refundA1))
	assert.Contains(t, replay.body, `"was_replay":true`, "the era is none of the key's business")
	assert.Contains(t, replay.body, `"resultType":"complete"`)
	assert.Equal(t, 1, w.server.effects())

	look := w.send(visitingTool("look", `{}`))
	assert.Contains(t, look.body, `done, call 2`)
	assert.Len(t, w.entries(), 1)
}
