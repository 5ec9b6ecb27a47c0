package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A client that reads both says by its Accept header how it would rather have an
// answer that nothing is said before.
func TestAnAnswerThatIsAloneIsAsTheClientPrefers(t *testing.T) {
	t.Parallel()
	const object, events = "application/json", "text/event-stream"
	w := newWeb(t, shopTools, nil)
	session := w.enter()
	for accept, want := range map[string]string{
		"application/json, text/event-stream":                            object,
		"text/event-stream, application/json":                            events,
		"text/event-stream;q=0.5, application/json":                      object,
		"application/json;q=0.5, text/event-stream":                      events,
		"application/json;q=0.5, text/event-stream;q=0.5":                object,
		"application/json;q=2, text/event-stream;q=0.5":                  object,
		"text/event-stream, */*;q=0.1":                                   events,
		"text/*, application/json":                                       events,
		"*/*, application/json;q=0.5":                                    events,
		"text/event-stream;q=0.2, text/*, application/json;q=0.5":        object,
		"application/*;q=0.9, application/json;q=0.1, text/event-stream": events,
		"*/*": object,
		"":    object,
	} {
		t.Run(accept, func(t *testing.T) {
			t.Parallel()
			for era, request := range map[string]ask{"legacy": post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, session...), "modern": visiting("tools/list", "", "")} {
				got := w.send(request.with("Accept", accept))
				require.Equal(t, http.StatusOK, got.status, era)
				assert.Equal(t, want, got.header.Get("Content-Type"), era)
				assert.Contains(t, string(got.message().Result), `"refund"`, era)
			}
		})
	}
}

func TestAClientThatPrefersEventsIsToldByTheStatusAllTheSame(t *testing.T) {
	t.Parallel()
	w := newWeb(t, shopTools, nil)
	got := w.send(visitingTool("nothing", `{}`).with("Accept", "text/event-stream, application/json"))
	assert.Equal(t, http.StatusBadRequest, got.status)
	assert.Equal(t, "application/json", got.header.Get("Content-Type"))
	assert.Equal(t, -32602, got.code())
}

func TestAClientThatPrefersEventsHasItsSessionAllTheSame(t *testing.T) {
	t.Parallel()
	w := newWeb(t, shopTools, nil)
	got := w.send(post(initialize, "Accept", "text/event-stream, application/json"))
	assert.Equal(t, "text/event-stream", got.header.Get("Content-Type"))
	assert.Equal(t, http.StatusOK, w.send(post(pinging, "Mcp-Session-Id", got.header.Get("Mcp-Session-Id"))).status)
}

// Some clients take an event without data for a broken message.
func TestWhenToReconnectIsSaidOnceAndNeverAlone(t *testing.T) {
	t.Parallel()
	w := newWeb(t, shopTools, nil)
	w.server.on("look", w.server.hold)
	session := w.enter()
	a := make(chan answer, 1)
	go func() { a <- w.send(post(tokened("1", "look", `{}`), session...)) }()
	running := w.server.next()
	running.progress("half")
	running.answer(`{"content":[]}`)
	got := receive(t, a, "the answer")
	require.Len(t, got.messages(), 2)
	assert.True(t, strings.HasPrefix(got.body, "event: message\nretry: 1000\ndata: {"), got.body)
	assert.Equal(t, 1, strings.Count(got.body, "retry:"))

	modern := w.send(visiting("tools/list", "", "").with("Accept", "text/event-stream, application/json"))
	assert.NotContains(t, modern.body, "retry:", "no stream is taken up again in this era")
}
