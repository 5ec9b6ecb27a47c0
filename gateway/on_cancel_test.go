package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/gateway"
	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/upstream"
)

var forwarding = gateway.ToolRule{Pattern: "refund", OnCancel: gateway.OnCancelForward}

// cancellations are what the server was told to give up, before this was asked.
func (r *rig) cancellations() (all []string) {
	r.server.t.Helper()
	r.request("prompts/list", "").wait() // it comes behind all that was said
	return r.server.cancellations()
}

func (s *server) cancellations() (all []string) {
	for _, m := range s.notified() {
		if strings.Contains(m, `"notifications/cancelled"`) {
			all = append(all, m)
		}
	}
	return all
}

// isCancelled waits until the server was told to give something up.
func (s *server) isCancelled() {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return len(s.cancellations()) > 0 }, patience, time.Millisecond)
}

const afterwards = "call ended after its caller had left"

func TestACancelledCallGoesOnWhateverTheServerIsTold(t *testing.T) {
	t.Parallel()
	detaching := gateway.ToolRule{Pattern: "refund", OnCancel: gateway.OnCancelDetach}
	of := func(pattern string, rule gateway.ToolRule) gateway.ToolRule {
		rule.Pattern = pattern
		return rule
	}
	for name, c := range map[string]struct {
		rules []gateway.ToolRule
		told  bool
	}{
		"nothing is said":                  {nil, false},
		"detach":                           {[]gateway.ToolRule{detaching}, false},
		"forward":                          {[]gateway.ToolRule{forwarding}, true},
		"detach, against a later glob":     {[]gateway.ToolRule{detaching, of("re*", forwarding)}, false},
		"forward, against a later glob":    {[]gateway.ToolRule{forwarding, of("re*", detaching)}, true},
		"forward is said of another tool":  {[]gateway.ToolRule{of("transfer", forwarding)}, false},
		"forward, beside another's detach": {[]gateway.ToolRule{of("transfer", detaching), of("*", forwarding)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, deskTools, ruled(c.rules...))
			r.server.on("refund", r.server.hold)
			left := r.start("refund", refundA1, "")
			sent := r.server.next()
			left.cancel()
			r.log.await(t, `"message":"call"`, 1)
			sent.answer(`{"content":[{"type":"text","text":"re_1"}]}`)
			r.becomes(dedup.Completed)
			r.log.await(t, afterwards, 1)
			left.requireUnanswered()
			told := r.cancellations()
			if c.told {
				require.Len(t, told, 1)
				assert.JSONEq(t, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s,"reason":"the test says so"}}`, sent.m.ID), told[0])
			} else {
				assert.Empty(t, told)
			}
			again := r.call("refund", refundA1).require(gateway.Completed, "was_replay", "true")
			assert.Contains(t, again.upstreams(), "re_1")
			assert.Equal(t, 1, r.server.effects())
		})
	}
}

// What a server does about a cancellation proves nothing by itself.
func TestACancelledCallEndsAsItsEvidenceSays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		does   func(*call)
		state  dedup.State
		reason dedup.Reason
		open   bool
	}{
		"the server says nothing any more":  {func(*call) {}, dedup.Unknown, dedup.ReasonTimeout, true},
		"the server says that it gave up":   {func(c *call) { c.fail(0, "Request cancelled") }, dedup.Unknown, dedup.ReasonAmbiguousError, false},
		"the server has executed it before": {func(c *call) { c.answer(`{"content":[]}`) }, dedup.Completed, "", false},
		"the server refuses it":             {func(c *call) { c.refuse(-32602, "missing argument") }, dedup.Released, "refused", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rule := forwarding
			if c.open {
				rule.CallTimeout = 500 * time.Millisecond
			}
			r := newRig(t, deskTools, ruled(rule))
			r.server.on("refund", r.server.hold)
			left := r.start("refund", refundA1, "")
			sent := r.server.next()
			left.cancel()
			r.server.isCancelled()
			r.log.await(t, `"message":"call"`, 1)
			c.does(sent)
			r.log.await(t, afterwards, 1)
			e := r.only()
			assert.Equal(t, c.state, e.State)
			assert.Equal(t, c.reason, e.Reason)
			assert.Equal(t, c.open, e.Open())
		})
	}
}

// Who repeats a call and gives it up again was never sent, and has nothing to cancel.
func TestAServerIsToldOfACancellationOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, deskTools, ruled(forwarding))
	r.server.on("refund", r.server.hold)
	left := r.start("refund", refundA1, "")
	sent := r.server.next()
	left.cancel()
	left.cancel()
	r.log.await(t, `"message":"call"`, 1)
	left.cancel()
	again := r.start("refund", refundA1, "")
	<-r.store.waits
	again.cancel()
	r.log.await(t, `"message":"call"`, 2)
	sent.answer(`{"content":[]}`)
	r.log.await(t, afterwards, 1)
	assert.Len(t, r.cancellations(), 1)
	again.requireUnanswered()
	assert.Equal(t, 1, r.server.effects())
}

func TestACallThatIsCancelledWhenItsAnswerIsThereIsNotCancelled(t *testing.T) {
	t.Parallel()
	r := newRig(t, deskTools, ruled(forwarding))
	answered, written := make(chan struct{}), make(chan struct{})
	r.store.cue(move, func(ctx context.Context, do func(context.Context) error) error {
		r.store.cue(move, nil)
		close(answered)
		<-written
		return do(ctx)
	})
	left := r.start("refund", refundA1, "")
	receive(t, closing(answered), "the answer")
	left.cancel()
	r.log.await(t, `"message":"call"`, 1)
	close(written)
	r.log.await(t, afterwards, 1)
	assert.Empty(t, r.cancellations())
	assert.Equal(t, dedup.Completed, r.only().State)
}

// The caller cancels between the claim and the first byte.
func TestACallThatIsCancelledBeforeItIsSent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		word    gateway.OnCancel
		state   dedup.State
		effects int
		attempt string // of a second call
		replay  string
	}{
		{gateway.OnCancelForward, dedup.Released, 0, "2", "false"},
		{gateway.OnCancelDetach, dedup.Completed, 1, "1", "true"},
	} {
		t.Run(string(c.word), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, deskTools, ruled(gateway.ToolRule{Pattern: "refund", OnCancel: c.word}))
			claimed := make(chan struct{})
			r.store.cue(claim, func(ctx context.Context, do func(context.Context) error) error {
				r.store.cue(claim, nil)
				err := do(ctx)
				close(claimed)
				<-ctx.Done()
				return err
			})
			left := r.start("refund", refundA1, "")
			receive(t, closing(claimed), "the claim")
			left.cancel()
			r.becomes(c.state)
			assert.Equal(t, c.effects, r.server.effects())
			assert.Empty(t, r.cancellations(), "there is nothing to cancel")
			left.requireUnanswered()
			r.call("refund", refundA1).require(gateway.Completed, "attempt", c.attempt, "was_replay", c.replay)
			assert.Equal(t, 1, r.server.effects())
		})
	}
}

func TestAShutdownCancelsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, deskTools, func(o *gateway.Options) {
		ruled(forwarding)(o)
		o.DrainFor = time.Millisecond
	})
	r.server.on("refund", r.server.hold)
	running := r.start("refund", refundA1, "")
	r.server.next()
	require.NoError(t, r.stdin.Close())
	running.reply().require(gateway.EffectUnknown, "reason", "shutdown", "recorded", "true")
	r.close()
	r.server.close() // it has read all that it was told
	assert.Empty(t, r.server.cancellations())
	assert.Equal(t, 1, r.server.effects())
}

// Over HTTP the modern era cancels by closing the stream; in the legacy era that says
// nothing (2025-11-25, basic/transports, Sending Messages to the Server).
func TestAClosedStreamIsACancellationInTheModernEra(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ask  func(*web) ask
		told int
	}{
		"modern": {func(*web) ask { return visitingTool("refund", refundA1) }, 1},
		"legacy": {func(w *web) ask { return post(calling("1", "refund", refundA1), w.enter()...) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := serveWeb(t, prepare(t, deskTools, ruled(forwarding)), nil)
			w.server.on("refund", w.server.hold)
			hangUp := w.start(c.ask(w))
			sent := w.server.next()
			hangUp()
			if c.told > 0 {
				w.server.isCancelled()
				assert.Contains(t, w.server.cancellations()[0], fmt.Sprintf(`{"requestId":%s,"reason":"the client closed the stream"}`, sent.m.ID))
			}
			sent.answer(`{"content":[{"type":"text","text":"paid"}]}`)
			w.becomes(dedup.Completed)
			assert.Len(t, w.cancellations(), c.told)
			assert.Contains(t, w.send(visitingTool("refund", refundA1)).body, "paid")
			assert.Equal(t, 1, w.server.effects())
		})
	}
}

// A session that ends has cancelled none of its calls.
func TestTheEndOfASessionIsNoCancellation(t *testing.T) {
	t.Parallel()
	w := serveWeb(t, prepare(t, deskTools, ruled(forwarding)), nil)
	w.server.on("refund", w.server.hold)
	session := w.enter()
	w.start(post(calling("1", "refund", refundA1), session...))
	sent := w.server.next()
	require.Equal(t, http.StatusNoContent, w.send(ask{method: http.MethodDelete, path: "/mcp"}.with(session...)).status)
	sent.answer(`{"content":[]}`)
	w.becomes(dedup.Completed)
	assert.Empty(t, w.cancellations())
	assert.Equal(t, 1, w.server.effects())
}

// A modern server behind a URL is told by closing the stream of the call, on which
// alone the answer could have come.
func TestACallWhoseStreamIsClosedToCancelItIsUnknown(t *testing.T) {
	t.Parallel()
	called, closed := make(chan bool, 1), make(chan bool, 1)
	there := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m, err := jsonrpc.Parse(body)
		assert.NoError(t, err)
		w.Header().Set("Content-Type", "application/json")
		switch m.Method {
		case "server/discover":
			_, _ = w.Write(jsonrpc.Result(m.ID, []byte(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}`)).Raw())
		case "tools/list":
			_, _ = w.Write(jsonrpc.Result(m.ID, []byte(`{"resultType":"complete","tools":`+deskTools+`,"ttlMs":0,"cacheScope":"private"}`)).Raw())
		case "tools/call":
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(http.StatusOK)
			assert.NoError(t, http.NewResponseController(w).Flush())
			called <- true
			<-r.Context().Done()
			closed <- true
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(there.Close)
	r := newRig(t, deskTools, func(o *gateway.Options) {
		ruled(forwarding)(o)
		o.Upstream.Era = upstream.EraModern
		o.Dial = gateway.Remote(upstream.Endpoint{Name: "shop", URL: there.URL})
	})
	left := r.start("refund", refundA1, "")
	receive(t, called, "the call")
	left.cancel()
	receive(t, closed, "the end of its stream")
	assert.False(t, r.becomes(dedup.Unknown).Open())
	r.call("refund", refundA1).require(gateway.EffectUnknown, "reason", "connection_lost", "attempt", "1", "next.action", "ask_human")
	r.close()
}
