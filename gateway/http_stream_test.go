package gateway_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/gateway"
	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// tokened is a call that wants to hear of its progress under the token "p".
func tokened(id, tool, arguments string) string {
	return strings.Replace(calling(id, tool, arguments), `"params":{`, `"params":{"_meta":{"progressToken":"p"},`, 1)
}

// progress tells of a call's progress under the token that it has.
func (c *call) progress(message string) {
	meta, _ := rawjson.ParseObject(c.m.Params)
	inner, _ := meta.Get("_meta")
	o, _ := rawjson.ParseObject(inner)
	token, _ := o.Get("progressToken")
	c.write(jsonrpc.Notification("notifications/progress", []byte(`{"progressToken":`+string(token)+`,"progress":1,"message":"`+message+`"}`)))
}

// Both clients use the same id and the same token.
func TestProgressGoesToItsOwnCallAlone(t *testing.T) {
	t.Parallel()
	w := newWeb(t, shopTools, nil)
	w.server.on("look", w.server.hold)
	first := w.enter()
	second := w.enter()
	a := make(chan answer, 1)
	go func() { a <- w.send(post(tokened("1", "look", `{"who":"a"}`), first...)) }()
	callA := w.server.next()
	b := make(chan answer, 1)
	go func() { b <- w.send(post(tokened("1", "look", `{"who":"b"}`), second...)) }()
	callB := w.server.next()
	callB.progress("of b")
	callA.progress("of a")
	callA.answer(`{"content":[]}`)
	callB.answer(`{"content":[]}`)
	for who, got := range map[string]answer{"a": receive(t, a, "the answer"), "b": receive(t, b, "the answer")} {
		assert.Equal(t, "text/event-stream", got.header.Get("Content-Type"))
		messages := got.messages()
		require.Len(t, messages, 2, "the progress, and then the answer")
		assert.Contains(t, string(messages[0].Params), `"progressToken":"p"`)
		assert.Contains(t, string(messages[0].Params), "of "+who)
		assert.NotNil(t, messages[1].Result)
	}
}

func TestAClientThatListensHearsOfChanges(t *testing.T) {
	t.Parallel()
	w := newWeb(t, shopTools, nil)
	first, second := w.enter(), w.enter()
	listening := w.open(ask{method: "GET", path: "/mcp"}.with(first...))
	assert.Equal(t, http.StatusOK, listening.status)
	assert.Equal(t, "no", listening.header.Get("X-Accel-Buffering"))
	w.server.say("notifications/tools/list_changed")
	assert.Equal(t, "notifications/tools/list_changed", listening.next().Method)
	late := w.open(ask{method: "GET", path: "/mcp"}.with(second...))
	assert.Equal(t, "notifications/tools/list_changed", late.next().Method, "what came before it listened has waited")

	again := w.open(ask{method: "GET", path: "/mcp"}.with(first...))
	w.server.say("notifications/prompts/list_changed")
	assert.Equal(t, "notifications/prompts/list_changed", again.next().Method, "the newest stream is the one that is read")
	again.hangUp()
	w.log.await(t, "listens no more", 1)
	w.server.say("notifications/resources/list_changed")
	assert.Equal(t, "notifications/resources/list_changed", listening.next().Method)

	assert.Equal(t, http.StatusNoContent, w.send(ask{method: "DELETE", path: "/mcp"}.with(first...)).status)
	assert.Empty(t, listening.ends(), "each message went on one stream")
	assert.Equal(t, http.StatusNotFound, w.send(post(pinging, first...)).status)
	assert.Equal(t, http.StatusOK, w.send(post(pinging, second...)).status)
}

func TestAClientThatHangsUpStopsNoKeyedCall(t *testing.T) {
	t.Parallel()
	for name, era := range map[string]func(*web, string) ask{
		"legacy": func(w *web, arguments string) ask { return post(calling("1", "refund", arguments), w.enter()...) },
		"modern": func(_ *web, arguments string) ask { return visitingTool("refund", arguments) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWeb(t, shopTools, nil)
			w.server.on("refund", w.server.hold)
			request := era(w, refundA1)
			hangUp := w.start(request)
			running := w.server.next()
			hangUp()
			running.answer(`{"content":[{"type":"text","text":"paid"}]}`)
			w.becomes(dedup.Completed)
			replay := w.send(era(w, refundA1))
			assert.Contains(t, replay.body, "paid")
			assert.Contains(t, replay.body, `"was_replay":true`)
			assert.Equal(t, 1, w.server.effects())
			assert.Empty(t, w.cancellations())
		})
	}
}

// Some clients send a request again, id and all, when its connection breaks: the key
// says that it is the same call.
func TestARequestThatComesAgainWhileItRunsIsOneCall(t *testing.T) {
	t.Parallel()
	w := serveWeb(t, prepare(t, shopTools, func(o *gateway.Options) { o.Wait = time.Millisecond }), nil)
	w.server.on("refund", w.server.hold)
	request := post(calling("1", "refund", refundA1), w.enter()...)
	w.start(request)
	running := w.server.next()
	again := w.send(request)
	assert.Zero(t, again.code(), again.body)
	assert.Contains(t, again.body, `"outcome":"RUNNING"`)
	running.answer(`{"content":[{"type":"text","text":"paid"}]}`)
	w.becomes(dedup.Completed)
	assert.Contains(t, w.send(request).body, `"was_replay":true`)
	assert.Equal(t, 1, w.server.effects())
}

// What clients have left behind is bounded, too.
func TestOverTooManyCallsNothingIsClaimed(t *testing.T) {
	t.Parallel()
	w := serveWeb(t, prepare(t, shopTools, func(o *gateway.Options) { o.MaxAttempts = 1 }), nil)
	w.server.on("refund", w.server.hold)
	hangUp := w.start(visitingTool("refund", refundA1))
	running := w.server.next()
	hangUp()
	another := visitingTool("refund", strings.ReplaceAll(refundA1, "A1", "B2"))
	assert.Contains(t, w.send(another).body, `FAILED_BEFORE_INPUT`)
	running.answer(`{"content":[]}`)
	w.becomes(dedup.Completed)
	assert.Equal(t, 1, w.server.effects(), "and one operation")
}

func TestHangingUpCancelsAnUnkeyedCallOfTheModernEra(t *testing.T) {
	t.Parallel()
	w := newWeb(t, shopTools, nil)
	w.server.on("look", w.server.hold)
	session := w.enter()
	stays := make(chan answer, 1)
	go func() { stays <- w.send(post(calling("1", "look", `{"who":"legacy"}`), session...)) }()
	legacy := w.server.next()
	hangUp := w.start(visitingTool("look", `{"who":"modern"}`))
	modern := w.server.next()
	hangUp()
	w.log.await(t, `"tool":"look"`, 1) // its journey is over
	legacy.answer(`{"content":[]}`)
	receive(t, stays, "the answer of the other")
	cancelled := w.cancellations()
	require.Len(t, cancelled, 1)
	assert.Contains(t, cancelled[0], `"requestId":`+string(modern.m.ID))

	hangUp = w.start(post(calling("2", "look", `{"who":"gone"}`), session...))
	gone := w.server.next()
	hangUp()
	gone.answer(`{"content":[]}`)
	w.log.await(t, `"tool":"look"`, 3)
	assert.Len(t, w.cancellations(), 1, "in the legacy era hanging up cancels nothing")
}

func TestNobodyCancelsTheCallOfAnother(t *testing.T) {
	t.Parallel()
	w := newWeb(t, shopTools, nil)
	w.server.on("look", w.server.hold)
	mine, theirs := w.enter(), w.enter()
	got := make(chan answer, 1)
	go func() { got <- w.send(post(calling("1", "look", `{}`), mine...)) }()
	running := w.server.next()
	const cancel = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`
	assert.Equal(t, http.StatusAccepted, w.send(post(cancel, theirs...)).status)
	assert.Equal(t, http.StatusAccepted, w.send(post(cancel, "MCP-Protocol-Version", "2026-07-28")).status)
	running.answer(`{"content":[{"type":"text","text":"seen"}]}`)
	assert.Contains(t, receive(t, got, "the answer").body, "seen")
	assert.Empty(t, w.cancellations())

	go func() { got <- w.send(post(calling("2", "look", `{}`), mine...)) }()
	w.server.next()
	assert.Equal(t, http.StatusAccepted, w.send(post(strings.Replace(cancel, "1}}", "2}}", 1), mine...)).status)
	cancelled := receive(t, got, "the end of the cancelled call")
	assert.Equal(t, http.StatusOK, cancelled.status, "its stream ends with an answer all the same")
	assert.NotNil(t, cancelled.message().ID)
	assert.Len(t, w.cancellations(), 1)
}

// Claude Code and mcp-remote do so by themselves when an answer was lost as 404.
func TestAClientThatInitializesAnewGetsAReplay(t *testing.T) {
	t.Parallel()
	w := newWeb(t, shopTools, nil)
	session := w.enter()
	assert.Contains(t, w.send(post(calling("7", "refund", refundA1), session...)).body, `"was_replay":false`)
	w.send(ask{method: "DELETE", path: "/mcp"}.with(session...))
	assert.Equal(t, http.StatusNotFound, w.send(post(calling("8", "refund", refundA1), session...)).status)

	anew := w.send(post(strings.Replace(initialize, `"name":"test"`, `"name":"another"`, 1)))
	renewed := []string{"Mcp-Session-Id", anew.header.Get("Mcp-Session-Id")}
	for _, id := range []string{"7", `"other"`} {
		got := w.send(post(calling(id, "refund", refundA1), renewed...))
		assert.Contains(t, got.body, `"was_replay":true`)
		assert.Contains(t, got.body, `"id":`+id)
	}
	assert.Equal(t, 1, w.server.effects())
}
