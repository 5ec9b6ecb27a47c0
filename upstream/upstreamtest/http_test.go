package upstreamtest

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLegacySession(t *testing.T) {
	t.Parallel()
	r := serveLegacy(t)
	id := r.header.Get("Mcp-Session-Id")
	assert.NotEmpty(t, id)

	got := r.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	assert.Equal(t, http.StatusAccepted, got.status)
	assert.Empty(t, got.body)

	got = r.call("refund")
	assert.Equal(t, http.StatusOK, got.status)
	assert.Equal(t, "application/json", got.header.Get("Content-Type"))
	assert.Contains(t, got.body, `"id":1,"result":{"content":[{"type":"text","text":"refunded re_1"}]`)
	r.count(1, 1)

	assert.Equal(t, http.StatusOK, r.send(http.MethodDelete, "/mcp", "").status)
	got = r.call("refund")
	assert.Equal(t, http.StatusNotFound, got.status)
	assert.Contains(t, got.body, `"id":null,"error":{"code":-32001`)
	r.count(2, 1)

	r.initialize()
	assert.NotEqual(t, id, r.header.Get("Mcp-Session-Id"))
	assert.Equal(t, http.StatusOK, r.call("refund").status)
}

func TestWhatTheTransportRefuses(t *testing.T) {
	t.Parallel()
	r := serveLegacy(t)
	ping := request(1, "ping", "{}")
	for name, c := range map[string]struct {
		method, path, body string
		header             []string
		status             int
	}{
		"another path":            {"POST", "/other", ping, nil, 404},
		"another method":          {"PUT", "/mcp", ping, nil, 405},
		"no JSON":                 {"POST", "/mcp", "{", nil, 400},
		"a batch":                 {"POST", "/mcp", "[" + ping + "]", nil, 400},
		"no session":              {"POST", "/mcp", ping, []string{"Mcp-Session-Id", ""}, 400},
		"an unknown session":      {"POST", "/mcp", ping, []string{"Mcp-Session-Id", "x"}, 404},
		"an unknown version":      {"POST", "/mcp", ping, []string{"Mcp-Protocol-Version", "2001-01-01"}, 400},
		"the modern version":      {"POST", "/mcp", ping, []string{"Mcp-Protocol-Version", "2026-07-28"}, 400},
		"no version":              {"POST", "/mcp", ping, []string{"Mcp-Protocol-Version", ""}, 200},
		"text":                    {"POST", "/mcp", ping, []string{"Content-Type", "text/plain"}, 415},
		"no events":               {"POST", "/mcp", ping, []string{"Accept", "application/json"}, 406},
		"a stream of no events":   {"GET", "/mcp", "", []string{"Accept", "application/json"}, 406},
		"a stream of no session":  {"GET", "/mcp", "", []string{"Mcp-Session-Id", ""}, 400},
		"an end of no session":    {"DELETE", "/mcp", "", []string{"Mcp-Session-Id", "x"}, 404},
		"messages without stream": {"POST", "/message", ping, nil, 404},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := r.send(c.method, c.path, c.body, c.header...)
			assert.Equal(t, c.status, got.status, got.body)
		})
	}
}

func TestSessionlessServer(t *testing.T) {
	t.Parallel()
	r := serve(t, "--sessionless")
	got := r.post(request(0, "initialize", "{}"))
	assert.Equal(t, http.StatusOK, got.status)
	assert.Empty(t, got.header.Get("Mcp-Session-Id"))
	assert.Equal(t, http.StatusOK, r.call("refund").status)
	assert.Equal(t, http.StatusMethodNotAllowed, r.send(http.MethodGet, "/mcp", "").status)
}

func TestStandingStream(t *testing.T) {
	t.Parallel()
	r := serveLegacy(t, "--notify-list-changed", "--fault", `refund:do=notify:notifications/resources/updated:{"uri":"note://1"}`)
	s := r.stream(http.MethodGet, "/mcp", "")
	assert.Contains(t, s.next(), "notifications/tools/list_changed")
	assert.Equal(t, http.StatusConflict, r.send(http.MethodGet, "/mcp", "").status)

	assert.Equal(t, http.StatusOK, r.call("refund").status)
	assert.Equal(t, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"note://1"}}`, s.next())

	assert.Equal(t, http.StatusOK, r.send(http.MethodDelete, "/mcp", "").status)
	assert.Empty(t, s.next(), "it ends with its session")
}

func TestForgottenSessions(t *testing.T) {
	t.Parallel()
	r := serveLegacy(t, "--fault", "refund:nth=1,do=forget")
	s := r.stream(http.MethodGet, "/mcp", "")
	assert.Contains(t, r.call("refund").body, "re_1", "the call itself is answered")
	assert.Empty(t, s.next())
	assert.Equal(t, http.StatusNotFound, r.call("refund").status)
	r.initialize()
	assert.Contains(t, r.call("refund").body, "re_2")
	r.count(3, 2)
}

func TestWhatIsSaidBeforeTheAnswerMakesAStream(t *testing.T) {
	t.Parallel()
	r := serveLegacy(t, "--fault", "refund:do=progress:2", "--fault", "refund:do=log:so far, so good")
	got := r.post(request(7, "tools/call", `{"name":"refund","_meta":{"progressToken":"p"}}`))
	assert.Equal(t, "text/event-stream", got.header.Get("Content-Type"))
	events := strings.Split(strings.TrimSuffix(got.body, "\n\n"), "\n\n")
	require.Len(t, events, 4)
	assert.Equal(t, "event: message\ndata: "+`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":2}}`, events[1])
	assert.Contains(t, events[2], `"data":"so far, so good"`)
	assert.Contains(t, events[3], `"id":7,"result"`)
}

func TestRequestsToTheClient(t *testing.T) {
	t.Parallel()
	r := serveLegacy(t, "--fault", `refund:when=before_effect,do=request:elicitation/create:{"message":"sure?"}`)
	s := r.stream(http.MethodPost, "/mcp", request(1, "tools/call", `{"name":"refund"}`))
	assert.Equal(t, `{"jsonrpc":"2.0","id":"ask-1","method":"elicitation/create","params":{"message":"sure?"}}`, s.next())
	r.count(1, 0)
	assert.Equal(t, http.StatusAccepted, r.post(`{"jsonrpc":"2.0","id":"ask-1","result":{"action":"accept"}}`).status)
	assert.Contains(t, s.next(), "re_1")
	r.count(1, 1)
}

func TestARequestThatNobodyAnswersEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	r := serveLegacy(t, "--fault", "refund:when=before_effect,do=request:ping")
	s := r.stream(http.MethodPost, "/mcp", request(1, "tools/call", `{"name":"refund"}`))
	assert.Contains(t, s.next(), `"method":"ping"`)
	s.close()
	WaitForEffects(t, r.effects, 1)
}

func TestRequestsAreNoted(t *testing.T) {
	t.Parallel()
	r := serveLegacy(t)
	assert.Equal(t, http.StatusOK, r.post(request(1, "ping", "{}"), "X-Tenant", `a "b"`).status)
	got, err := Requests(r.requests)
	require.NoError(t, err)
	require.Len(t, got, 2)
	assert.Equal(t, "POST /mcp", got[1].Method+" "+got[1].Path)
	assert.False(t, got[0].Reused)
	assert.True(t, got[1].Reused)
	assert.Equal(t, `a "b"`, got[1].Header.Get("X-Tenant"))
	assert.Equal(t, r.header.Get("Mcp-Session-Id"), got[1].Header.Get("Mcp-Session-Id"))

	require.NoError(t, appendTo(r.requests, []byte(`{"method":`), false))
	_, err = Requests(r.requests)
	require.ErrorContains(t, err, "line 3")
	none, err := Requests(filepath.Join(r.dir, "none"))
	require.NoError(t, err)
	assert.Empty(t, none)
}

func TestInstanceForgetsItsSessionsAtARestart(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "effects")
	i := Serve(t, "--effects", file, "--fault", "refund:nth=2,do=kill")
	r := &rig{t: t, base: strings.TrimSuffix(i.URL, "/mcp"), client: &http.Client{Transport: &http.Transport{}},
		header: http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}}
	t.Cleanup(r.client.CloseIdleConnections)
	r.initialize()
	assert.Contains(t, r.call("refund").body, "re_1")
	i.Restart()
	assert.Equal(t, http.StatusNotFound, r.call("refund").status)
	r.initialize()
	require.Error(t, r.call("refund").err, "it kills itself at the second")
	effects, err := Effects(file)
	require.NoError(t, err)
	assert.Len(t, effects, 2)
	i.Restart()
	r.initialize()
	assert.Contains(t, r.call("refund").body, "re_3")
}

func TestAddressInUse(t *testing.T) {
	t.Parallel()
	i := Serve(t)
	address := strings.TrimSuffix(strings.TrimPrefix(i.URL, "http://"), "/mcp")
	for _, wrong := range []string{address, "nowhere"} {
		o, err := parse([]string{"--http", wrong})
		require.NoError(t, err)
		s, err := newServer(o)
		require.NoError(t, err)
		require.Error(t, s.serveHTTP(), wrong)
	}
	o, err := parse([]string{"--http", ":0", "--address-file", filepath.Join(t.TempDir(), "no", "file")})
	require.NoError(t, err)
	s, err := newServer(o)
	require.NoError(t, err)
	require.ErrorIs(t, s.serveHTTP(), os.ErrNotExist)
}

func TestSilentServer(t *testing.T) {
	t.Parallel()
	r := serve(t, "--silent")
	cancel, failed := r.leave(request(1, "initialize", "{}"))
	WaitForFile(t, r.received)
	select {
	case err := <-failed:
		t.Fatal("it answered, or broke off", err)
	default:
	}
	cancel()
	require.ErrorIs(t, <-failed, context.Canceled)
}
