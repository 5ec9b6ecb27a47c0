package upstreamtest

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	asksFirst = `"name":"refund","arguments":{"order":"A","n":1}`
	thenSays  = `"name":"refund","arguments":{"n":1, "order":"A"},"inputResponses":{"confirm":{"action":"accept"}},"requestState":`
)

func TestACallThatAsks(t *testing.T) {
	t.Parallel()
	r := serveModern(t, "--fault", "refund:do=ask:sure?")
	got := r.modern(1, "tools/call", "refund", asksFirst)
	assert.Contains(t, got.body, `"result":{"resultType":"input_required","inputRequests":{"confirm":{"method":"elicitation/create","params":{"mode":"form","message":"sure?",`)
	assert.Contains(t, got.body, `"requestState":"state-1"`)
	r.count(1, 0)

	got = r.modern(2, "tools/call", "refund", thenSays+`"state-1"`)
	assert.Contains(t, got.body, `"id":2,"result":{"content":[{"type":"text","text":"refunded re_2"}]`)
	r.count(2, 1)
}

func TestWhatAStateDoesThatWasUsedBefore(t *testing.T) {
	t.Parallel()
	for consumed, want := range map[string]struct {
		body    string
		effects int
	}{replayConsumed: {`"id":3,"result":{"content":[{"type":"text","text":"refunded re_2"}]`, 1}, refuseConsumed: {`"code":-32602`, 1}, executeConsumed: {"re_3", 2}} {
		t.Run(consumed, func(t *testing.T) {
			t.Parallel()
			r := serveModern(t, "--fault", "refund:do=ask:sure?", "--consumed", consumed)
			r.modern(1, "tools/call", "refund", asksFirst)
			r.modern(2, "tools/call", "refund", thenSays+`"state-1"`)
			assert.Contains(t, r.modern(3, "tools/call", "refund", thenSays+`"state-1"`).body, want.body)
			r.count(3, want.effects)
		})
	}
}

func TestAStateGoesWithItsCall(t *testing.T) {
	t.Parallel()
	r := serveModern(t, "--fault", "refund:do=ask:sure?")
	r.modern(1, "tools/call", "refund", asksFirst)
	for name, more := range map[string]string{
		"another state":     thenSays + `"state-2"`,
		"other arguments":   `"name":"refund","arguments":{"order":"B"},"inputResponses":{},"requestState":"state-1"`,
		"no input":          asksFirst + `,"requestState":"state-1"`,
		"another tool":      `"name":"send_mail","arguments":{"order":"A","n":1},"inputResponses":{},"requestState":"state-1"`,
		"broken arguments":  `"name":"refund","arguments":{"order":"A","n":1,"n":1},"inputResponses":{},"requestState":"state-1"`,
		"a state elsewhere": asksFirst + `,"inputResponses":{},"requestState":"x"`,
	} {
		tool := "refund"
		if name == "another tool" {
			tool = "send_mail"
		}
		got := r.modern(2, "tools/call", tool, more)
		assert.Equal(t, http.StatusBadRequest, got.status, name)
		assert.Contains(t, got.body, "no such requestState", name)
	}
	r.count(7, 0)
}

func TestTwoRounds(t *testing.T) {
	t.Parallel()
	r := serveModern(t, "--fault", "refund:do=ask:sure?", "--fault", "refund:do=ask:really?", "--fault", "refund:nth=3,do=drop")
	assert.Contains(t, r.modern(1, "tools/call", "refund", asksFirst).body, "sure?")
	assert.Contains(t, r.modern(2, "tools/call", "refund", thenSays+`"state-1"`).body, "really?")
	assert.Contains(t, r.modern(3, "tools/call", "refund", thenSays+`"state-1"`).body, "really?", "the same question again")
	r.count(3, 0)
	assert.Contains(t, r.modern(4, "tools/call", "refund", thenSays+`"state-2"`).body, "re_4")
	r.count(4, 1)
}

func TestAnAnswerThatWasLostIsThereForTheSameState(t *testing.T) {
	t.Parallel()
	r := serveModern(t, "--fault", "refund:do=ask:sure?", "--fault", "refund:nth=2,do=drop")
	r.modern(1, "tools/call", "refund", asksFirst)
	require.Error(t, r.modern(2, "tools/call", "refund", thenSays+`"state-1"`).err)
	assert.Contains(t, r.modern(3, "tools/call", "refund", thenSays+`"state-1"`).body, "re_2")
	r.count(3, 1)
}

func TestAConsumedStateWaitsForTheFirst(t *testing.T) {
	t.Parallel()
	r := serveModern(t, "--fault", "refund:do=ask:sure?", "--fault", "refund:nth=2,when=before_effect,do=gate:go")
	r.modern(1, "tools/call", "refund", asksFirst)
	bodies := make(chan string, 2)
	go func() { bodies <- r.modern(2, "tools/call", "refund", thenSays+`"state-1"`).body }()
	WaitForFile(t, r.dir, "go.waiting")
	go func() { bodies <- r.modern(3, "tools/call", "refund", thenSays+`"state-1"`).body }()
	WaitForFile(t, r.dir, "started.3")
	Open(t, r.dir, "go")
	assert.Contains(t, <-bodies, "re_2")
	assert.Contains(t, <-bodies, "re_2")
	r.count(3, 1)
}

func TestModernRoots(t *testing.T) {
	t.Parallel()
	r := serveModern(t)
	assert.Contains(t, r.modern(1, "tools/call", "ask_roots", `"name":"ask_roots"`).body, `"inputRequests":{"roots":{"method":"roots/list"}}`)
	got := r.modern(2, "tools/call", "ask_roots", `"name":"ask_roots","inputResponses":{"roots":{"roots":[]}},"requestState":"state-1"`)
	assert.Contains(t, got.body, `{\"roots\":{\"roots\":[]}}`)
}

func TestALegacyCallAsksOnItsStream(t *testing.T) {
	t.Parallel()
	r := serveLegacy(t, "--fault", "refund:do=ask:sure?")
	for answer, want := range map[string]string{`"result":{"action":"accept"}`: "refunded re_", `"error":{"code":-32601,"message":"no"}`: `"isError":true`} {
		s := r.stream(http.MethodPost, "/mcp", request(1, "tools/call", `{"name":"refund"}`))
		question := s.next()
		assert.Contains(t, question, `"method":"elicitation/create","params":{"mode":"form","message":"sure?"`)
		id := question[len(`{"jsonrpc":"2.0","id":`):][:len(`"ask-1"`)]
		r.post(`{"jsonrpc":"2.0","id":` + id + `,` + answer + `}`)
		assert.Contains(t, s.next(), want)
	}
	r.count(2, 1)
}
