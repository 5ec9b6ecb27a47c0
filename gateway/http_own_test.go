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
)

// newOwnWeb serves each session with a process of its own.
func newOwnWeb(t *testing.T) *web {
	t.Helper()
	return newWeb(t, shopTools, func(o *gateway.HTTPOptions) { o.Process = gateway.PerSession })
}

func TestASessionWithAServerOfItsOwnIsAskedItself(t *testing.T) {
	t.Parallel()
	w := newOwnWeb(t)
	replies := make(chan jsonrpc.Message, 1)
	w.server.replies(replies)
	mine := w.enter()
	listening := w.open(ask{method: "GET", path: "/mcp"}.with(mine...))
	ask := jsonrpc.Request([]byte(`"q"`), "elicitation/create", []byte(`{"message":"sure?"}`))
	w.server.tell(ask)
	question := listening.next()
	assert.Equal(t, "elicitation/create", question.Method)

	theirs := w.enter() // with another process
	answer := `{"jsonrpc":"2.0","id":` + string(question.ID) + `,"result":{"action":"accept"}}`
	assert.Equal(t, http.StatusAccepted, w.send(post(answer, theirs...)).status)
	assert.Equal(t, http.StatusAccepted, w.send(post(answer, mine...)).status)
	reply := receive(t, replies, "the reply")
	assert.JSONEq(t, `"q"`, string(reply.ID))
	assert.Empty(t, replies, "who was not asked has not answered")
	listening.hangUp()
}

func TestAQuestionGoesOnTheStreamOfAnOpenCall(t *testing.T) {
	t.Parallel()
	w := newOwnWeb(t)
	replies := make(chan jsonrpc.Message, 1)
	w.server.replies(replies)
	w.server.on("look", w.server.hold)
	session := w.enter()
	opened := make(chan *feed, 1)
	go func() { opened <- w.open(post(calling("1", "look", `{}`), session...)) }()
	running := w.server.next()
	running.write(jsonrpc.Request([]byte(`"q"`), "sampling/createMessage", []byte(`{}`)))
	call := receive(t, opened, "the header")
	question := call.next()
	assert.Equal(t, "sampling/createMessage", question.Method)
	assert.Equal(t, http.StatusAccepted, w.send(post(`{"jsonrpc":"2.0","id":`+string(question.ID)+`,"result":{}}`, session...)).status)
	receive(t, replies, "the reply")
	running.answer(`{"content":[]}`)
	assert.NotNil(t, call.next().Result)
	assert.Empty(t, call.ends())
}

func TestASessionTakesItsServerWithIt(t *testing.T) {
	t.Parallel()
	w := newOwnWeb(t)
	w.server.on("refund", w.server.hold)
	session := w.enter()
	hangUp := w.start(post(calling("1", "refund", refundA1), session...))
	running := w.server.next()
	w.send(ask{method: "DELETE", path: "/mcp"}.with(session...))
	running.answer(`{"content":[{"type":"text","text":"paid"}]}`)
	w.becomes(dedup.Completed)
	hangUp()

	another := w.enter()
	replay := w.send(post(calling("1", "refund", refundA1), another...))
	assert.Contains(t, replay.body, "paid", "the ledger is the same")
	assert.Contains(t, w.send(visitingTool("refund", refundA1)).body, `"was_replay":true`, "so it is for the modern era, which shares a process")
	assert.Equal(t, 1, w.server.effects())
}

// An answer that comes late is listened for although the session is over, as long as
// there is room for more sessions.
func TestALateAnswerIsHeardWhenTheSessionIsOver(t *testing.T) {
	t.Parallel()
	r := prepare(t, shopTools, func(o *gateway.Options) { o.CallTimeout = 200 * time.Millisecond })
	w := serveWeb(t, r, func(o *gateway.HTTPOptions) { o.Process, o.MaxSessions = gateway.PerSession, 2 })
	w.server.on("refund", w.server.hold)
	over := func(arguments string) *call {
		session := w.enter()
		assert.Contains(t, w.send(post(calling("1", "refund", arguments), session...)).body, `EFFECT_UNKNOWN`)
		w.send(ask{method: "DELETE", path: "/mcp"}.with(session...))
		return w.server.next()
	}
	over(refundA1).answer(`{"content":[{"type":"text","text":"paid"}]}`)
	w.becomes(dedup.Completed)

	for _, order := range []string{"B", "C", "D"} { // nobody is kept out by what may come late
		over(strings.ReplaceAll(refundA1, "A1", order))
	}
	w.enter()
}

func TestAServerThatCannotBeStartedIsToldToItsClient(t *testing.T) {
	t.Parallel()
	r := prepare(t, shopTools, func(o *gateway.Options) { o.Dial = gateway.Local(command("/nonexistent/server")) })
	w := serveWeb(t, r, func(o *gateway.HTTPOptions) { o.Process = gateway.PerSession })
	got := w.send(post(initialize))
	assert.Equal(t, http.StatusBadGateway, got.status)
	assert.Contains(t, got.body, "nonexistent")
	_, err := gateway.NewHTTP(r.ledger, r.options, gateway.HTTPOptions{})
	require.Error(t, err)
}
