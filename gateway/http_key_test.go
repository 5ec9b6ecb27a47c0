package gateway_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAHeaderCarriesAKey(t *testing.T) {
	t.Parallel()
	w := newWeb(t, shopTools, nil)
	session := w.enter()
	call := func(key string) string {
		return w.send(post(calling("1", "refund", `{"order":"A1"}`), session...).with("Idempotency-Key", key)).body
	}
	assert.Contains(t, call("refund:A1:1"), `"was_replay":false`)
	assert.Contains(t, call("refund:A1:1"), `"was_replay":true`)
	assert.Contains(t, call(`"refund:A1:1"`), `"was_replay":true`, "quoted, as the IETF's draft has it")
	assert.Contains(t, w.send(visitingTool("refund", `{"order":"A1"}`).with("Idempotency-Key", "refund:A1:1")).body, `"was_replay":true`)
	meta := w.send(visiting("tools/call", `"name":"refund","arguments":{"order":"A1"},"idempotencyKey":"refund:A1:1"`, "refund"))
	assert.Contains(t, meta.body, `"was_replay":true`, "it is the key of the other carriers")
	assert.Equal(t, []string{`refund {"order":"A1"}`}, w.server.received(), "the key goes no further")

	assert.Contains(t, call(""), `"reason":"key_required"`, "a header that is not there is none")
	assert.Contains(t, call("short"), `"reason":"key_`)
	assert.Contains(t, call(`"refund:A1:1`), `"reason":"key_invalid"`, "half a string")
	assert.Contains(t, call("refund A1 1 x"), `"reason":"key_invalid"`)
	assert.Contains(t, call(`""`), `"reason":"key_invalid"`)
	other := w.send(post(calling("1", "refund", `{"order":"A1"},"idempotencyKey":"refund:A1:2"`), session...).with("Idempotency-Key", "refund:A1:1"))
	assert.Contains(t, other.body, `"reason":"key_conflict"`)
	assert.Equal(t, 1, w.server.effects())
}
