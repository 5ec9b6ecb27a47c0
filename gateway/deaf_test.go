package gateway_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/gateway"
)

// Nobody reads what the gateway writes, not even the handshake. What was executed
// is recorded all the same, and said as soon as somebody listens.
func TestAnswersAreRecordedAlthoughNobodyReadsThem(t *testing.T) {
	t.Parallel()
	r := prepare(t, refundTool, nil)
	deaf := r.stranger(nil)
	r.client = deaf
	r.server.on("refund", r.server.hold)
	initialize := deaf.request("initialize", hello)
	deaf.notify("notifications/initialized", "")
	for range 1000 {
		deaf.request("ping", "")
	}
	call := deaf.start("refund", refundA1, "")
	r.server.next().answer(`{"content":[{"type":"text","text":"re_1"}]}`)
	assert.Equal(t, `{"content":[{"type":"text","text":"re_1"}]}`, string(r.becomes(dedup.Completed).Result))

	deaf.listen()
	initialize.wait()
	call.reply().require(gateway.Completed, "was_replay", "false", "recorded", "true")
	assert.Equal(t, 1, r.server.effects())
}

// A client that goes away altogether takes nothing with it either.
func TestAnswersAreRecordedAlthoughTheClientIsGone(t *testing.T) {
	t.Parallel()
	r := newRig(t, refundTool, nil)
	r.server.on("refund", r.server.hold)
	r.start("refund", refundA1, "")
	sent := r.server.next()
	assert.NoError(t, r.stdout.Close())
	assert.NoError(t, r.stdin.Close())
	sent.answer(`{"content":[]}`)
	r.becomes(dedup.Completed)
	assert.Equal(t, 1, r.server.effects())
}
