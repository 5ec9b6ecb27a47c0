package gateway_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/gateway"
)

// The client sends everything at once, and takes its call back before the
// handshake is over.
func TestACallThatIsCancelledWhileItWaitsItsTurnClaimsNothing(t *testing.T) {
	t.Parallel()
	r := prepare(t, refundTool, nil)
	r.server.greet = r.server.hold
	r.client = r.stranger(nil)
	r.listen()
	initialize := r.request("initialize", hello)
	greeting := r.server.next()
	cancelled := r.start("refund", refundA1, "")
	cancelled.cancel()
	greeting.answer(handshake)
	initialize.wait()
	r.notify("notifications/initialized", "")
	r.list()
	r.log.await(t, `"tool":"refund"`, 1)
	cancelled.requireUnanswered()
	assert.Empty(t, r.entries())

	r.call("refund", refundA1).require(gateway.Completed, "was_replay", "false", "attempt", "1")
	assert.Equal(t, 1, r.server.effects())
}

func TestACallThatIsCancelledBeforeItsClaimClaimsNothing(t *testing.T) {
	t.Parallel()
	for _, operation := range []string{find, claim} {
		t.Run(operation, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, refundTool, nil)
			begun := make(chan struct{})
			r.store.cue(operation, func(ctx context.Context, do func(context.Context) error) error {
				r.store.cue(operation, nil)
				close(begun)
				<-ctx.Done()
				return do(ctx)
			})
			cancelled := r.start("refund", refundA1, "")
			receive(t, closing(begun), "the ledger's turn")
			cancelled.cancel()
			r.log.await(t, `"message":"call"`, 1)
			cancelled.requireUnanswered()
			assert.Empty(t, r.entries())
			errors, _ := r.log.with(`"level":"error"`)
			assert.Empty(t, errors, "the ledger is not to blame")

			r.call("refund", refundA1).require(gateway.Completed, "was_replay", "false")
			assert.Equal(t, 1, r.server.effects())
		})
	}
}

// closing turns a channel that is closed into one that says so once.
func closing(c <-chan struct{}) <-chan bool {
	said := make(chan bool, 1)
	go func() {
		<-c
		said <- true
	}()
	return said
}

func TestACallWhoseCallerLeavesAfterTheSendingIsRecorded(t *testing.T) {
	t.Parallel()
	r := newRig(t, refundTool, nil)
	r.server.on("refund", r.server.hold)
	left := r.start("refund", `{"order":"marker-argument","idempotency_key":"marker-key:1"}`, "")
	sent := r.server.next()
	left.cancel()
	r.log.await(t, `"message":"call"`, 1)
	sent.answer(`{"content":[{"type":"text","text":"marker-result"}]}`)

	r.becomes(dedup.Completed)
	ended := r.log.await(t, "call ended after its caller had left", 1)
	assert.Len(t, ended, 1)
	assert.Contains(t, ended[0], `"outcome":"COMPLETED"`)
	assert.Contains(t, ended[0], r.only().ID.String())
	left.requireUnanswered()
	r.call("refund", `{"order":"marker-argument","idempotency_key":"marker-key:1"}`).require(gateway.Completed, "was_replay", "true")
	assert.Equal(t, 1, r.server.effects())
	requireDiscreet(t, r)
}

func TestCallsAtAShutdown(t *testing.T) {
	t.Parallel()
	t.Run("what was sent is unknown", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, refundTool, func(o *gateway.Options) { o.DrainFor = time.Millisecond })
		r.server.on("refund", r.server.hold)
		running := r.start("refund", refundA1, "")
		r.server.next()
		waiting := r.start("refund", refundA1, "")
		<-r.store.waits
		given := make(chan struct{}) // up: all requests are
		r.store.cue(move, func(ctx context.Context, do func(context.Context) error) error {
			<-given
			return do(ctx)
		})
		require.NoError(t, r.stdin.Close())
		waiting.reply().require(gateway.Running, "next.action", "retry_same_key")
		close(given)
		running.reply().require(gateway.EffectUnknown, "reason", "shutdown", "recorded", "true", "next.action", "ask_human")
		assert.Equal(t, dedup.Unknown, r.only().State)
		assert.False(t, r.only().Open())
		assert.Equal(t, 1, r.server.effects())
	})
	for _, operation := range []string{find, claim} {
		t.Run("what was not sent is told so: "+operation, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, refundTool, func(o *gateway.Options) { o.DrainFor = time.Millisecond })
			r.store.cue(operation, func(ctx context.Context, do func(context.Context) error) error {
				<-ctx.Done()
				return do(ctx)
			})
			begun := r.start("refund", refundA1, "")
			require.NoError(t, r.stdin.Close())
			begun.reply().require(gateway.FailedBeforeInput, "reason", "unreachable", "effect", "not_executed", "next.action", "retry_same_key")
			assert.Empty(t, r.entries())
			assert.Zero(t, r.server.effects())
		})
	}
}

func TestAReaderIsCancelledAtItsServer(t *testing.T) {
	t.Parallel()
	r := newRig(t, `[{"name":"get_it","inputSchema":{"type":"object"}}]`, nil)
	r.server.on("get_it", r.server.hold)
	reading := r.start("get_it", `{}`, "")
	asked := r.server.next()
	reading.cancel()
	r.log.await(t, `"message":"call`, 1)
	reading.requireUnanswered()
	asked.answer(`{"content":[]}`) // too late, and nobody minds
	r.log.await(t, "answer to no open request", 1)
	// What is still queued when a session is closed is not written any more.
	require.Eventually(t, func() bool {
		return strings.Contains(strings.Join(r.server.notified(), "\n"), `"reason":"the test says so"`)
	}, patience, time.Millisecond)
	r.close()
}
