package upstreamtest

import (
	"context"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWireFaults has what a client reads of each fault behind the effect, of which
// there is always one, by one request.
func TestWireFaults(t *testing.T) {
	t.Parallel()
	const answer = `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"refunded re_1"}],"structuredContent":{"refund_id":"re_1"}}}`
	for do, want := range map[string]struct {
		status int
		header string // NAME: VALUE
		body   string
		err    error
	}{
		"reset":            {err: syscall.ECONNRESET},
		"drop":             {err: io.EOF},
		"redirect:307":     {status: 307, header: "Location: /mcp"},
		"redirect:308:/x":  {status: 308, header: "Location: /x"},
		"status:401":       {status: 401, header: `WWW-Authenticate: Bearer realm="scripted", error="invalid_token"`, body: `{"error":"Unauthorized","status":401}`},
		"status:403":       {status: 403, header: "Content-Type: application/json", body: `{"error":"Forbidden","status":403}`},
		"status:404":       {status: 404, body: `{"error":"Not Found","status":404}`},
		"status:405:":      {status: 405, header: "Allow: POST"},
		"status:429":       {status: 429, header: "Retry-After: 1", body: `{"error":"Too Many Requests","status":429}`},
		"status:502":       {status: 502, header: "Content-Type: application/json", body: `{"error":"Bad Gateway","status":502}`},
		"status:502:a: b":  {status: 502, header: "Content-Type: text/plain; charset=utf-8", body: "a: b"},
		"status:202":       {status: 202},
		"rpc_status:503":   {status: 503, header: "Content-Type: application/json", body: answer},
		"empty":            {status: 200, header: "Content-Type: application/json", body: `{}`},
		"garbage":          {status: 200, body: "Traceback (most recent call last):"},
		"broken":           {status: 200, body: `{"id":1,"result":{}}`},
		"batch":            {status: 200, body: "[" + answer + "]"},
		"wrong_id":         {status: 200, body: strings.Replace(answer, `"id":1`, `"id":987654321`, 1)},
		"string_id":        {status: 200, body: strings.Replace(answer, `"id":1`, `"id":"1"`, 1)},
		"twice":            {status: 200, header: "Content-Type: text/event-stream", body: "event: message\ndata: " + answer + "\n\nevent: message\ndata: " + answer + "\n\n"},
		"end":              {status: 200, header: "Content-Type: text/event-stream"},
		"cut:10":           {status: 200, header: "Content-Type: application/json", body: answer[:10], err: io.ErrUnexpectedEOF},
		"cut":              {status: 200, err: io.ErrUnexpectedEOF},
		"slow_headers:2ms": {status: 200, body: answer},
		"slow_body:2ms":    {status: 200, body: answer},
		"sse":              {status: 200, header: "Content-Type: text/event-stream", body: "event: message\ndata: " + answer + "\n\n"},
	} {
		t.Run(do, func(t *testing.T) {
			t.Parallel()
			r := serveLegacy(t, "--fault", "refund:do="+do)
			got := r.call("refund")
			require.ErrorIs(t, got.err, want.err)
			assert.Equal(t, want.status, got.status)
			assert.Equal(t, want.body, got.body)
			if name, value, ok := strings.Cut(want.header, ": "); ok {
				assert.Equal(t, value, got.header.Get(name))
			}
			r.count(1, 1)
		})
	}
}

func TestWireFaultsAtOtherPoints(t *testing.T) {
	t.Parallel()
	for _, when := range []string{beforeRead, beforeEffect} {
		for do, status := range map[string]int{"reset": 0, "status:401": 401, "redirect:307": 307, "end": 200} {
			t.Run(when+" "+do, func(t *testing.T) {
				t.Parallel()
				r := serveLegacy(t, "--fault", "refund:when="+when+",do="+do)
				assert.Equal(t, status, r.call("refund").status)
				r.count(1, 0)
			})
		}
	}
}

func TestShapesApplyToAnyAnswer(t *testing.T) {
	t.Parallel()
	r := serveLegacy(t, "--fault", "refund:do=error:-32603:busy", "--fault", "refund:do=rpc_status:503", "--fault", "send_mail:do=sse",
		"--fault", "send_mail:do=cut:20", "--fault", "note_set:do=progress:1", "--fault", "note_set:do=drop",
		"--fault", "get_balance:do=progress:1", "--fault", "get_balance:do=garbage")
	got := r.call("refund")
	assert.Equal(t, 503, got.status)
	assert.Equal(t, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"busy"}}`, got.body)

	got = r.call("send_mail")
	require.ErrorIs(t, got.err, io.ErrUnexpectedEOF)
	assert.Equal(t, "event: message\ndata:", got.body)

	got = r.call("note_set")
	require.ErrorIs(t, got.err, io.ErrUnexpectedEOF)
	assert.Contains(t, got.body, "notifications/progress")

	got = r.call("get_balance")
	require.NoError(t, got.err)
	assert.Contains(t, got.body, "\n\nevent: message\ndata: Traceback")
}

func TestFaultsOfAConnectionThatIsReused(t *testing.T) {
	t.Parallel()
	r := serve(t, "--sessionless", "--fault", "refund:conn=reused,do=reset")
	assert.Contains(t, r.call("refund").body, "re_1")
	require.ErrorIs(t, r.call("refund").err, syscall.ECONNRESET)
	assert.Contains(t, r.call("refund").body, "re_3", "on a new connection")
	r.count(3, 3)

	r = serve(t, "--sessionless", "--fault", "refund:conn=new,do=status:404")
	assert.Equal(t, 404, r.call("refund").status)
	assert.Equal(t, 200, r.call("refund").status)
}

// A client of net/http sends a POST once more by itself when it carries an
// idempotency key and a connection breaks that was used before.
func TestAResetOfAReusedConnectionBringsOutHiddenResends(t *testing.T) {
	t.Parallel()
	r := serve(t, "--sessionless", "--fault", "refund:nth=2,do=reset")
	r.header.Set("Idempotency-Key", "k")
	assert.Contains(t, r.call("refund").body, "re_1")
	assert.Contains(t, r.call("refund").body, "re_3")
	r.count(3, 3)
}

func TestFaultsOfOtherRequests(t *testing.T) {
	t.Parallel()
	r := serve(t, "--fault", "initialize:nth=1,do=status:503:", "--fault", "ping:nth=2,do=status:404", "--fault", "GET:do=status:405",
		"--fault", "DELETE:nth=1,do=reset", "--fault", "notifications/initialized:do=status:400")
	assert.Equal(t, 503, r.post(request(0, "initialize", "{}")).status)
	r.initialize()
	assert.Equal(t, 400, r.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`).status)
	assert.Equal(t, 200, r.post(request(1, "ping", "{}")).status)
	assert.Equal(t, 404, r.post(request(2, "ping", "{}")).status)
	assert.Equal(t, 405, r.send(http.MethodGet, "/mcp", "").status)
	require.ErrorIs(t, r.send(http.MethodDelete, "/mcp", "").err, syscall.ECONNRESET)
	assert.Equal(t, 200, r.send(http.MethodDelete, "/mcp", "").status)
}

func TestStreamsWithoutEnd(t *testing.T) {
	t.Parallel()
	r := serveLegacy(t, "--fault", "refund:do=endless", "--fault", "send_mail:do=stay_open", "--fault", "note_set:do=hang")
	s := r.stream(http.MethodPost, "/mcp", request(1, "tools/call", `{"name":"refund"}`))
	for range 3 {
		require.True(t, s.lines.Scan())
		assert.Equal(t, ": still at it", s.lines.Text())
		require.True(t, s.lines.Scan())
	}
	s = r.stream(http.MethodPost, "/mcp", request(2, "tools/call", `{"name":"send_mail"}`))
	assert.Contains(t, s.next(), `"id":2,"result"`)
	more := make(chan string, 1)
	go func() { more <- s.next() }()
	cancel, failed := r.leave(request(3, "tools/call", `{"name":"note_set"}`))
	WaitForEffects(t, r.effects, 3)
	select {
	case text := <-more:
		t.Fatal("the stream ended, or went on:", text)
	case err := <-failed:
		t.Fatal("an answer, or an end:", err)
	default:
	}
	cancel()
	require.ErrorIs(t, <-failed, context.Canceled)
	s.cancel()
	assert.Empty(t, <-more)
	r.count(3, 3)
}

func TestSlowAnswersTakeTheirTime(t *testing.T) {
	t.Parallel()
	r := serveLegacy(t, "--fault", "refund:do=slow_headers:32ms", "--fault", "send_mail:do=slow_body:32ms", "--fault", "note_set:do=sse", "--fault", "note_set:do=slow_body:32ms")
	for _, tool := range []string{"refund", "send_mail", "note_set"} {
		begin := time.Now()
		resp, err := r.open(t.Context(), http.MethodPost, "/mcp", request(1, "tools/call", `{"name":"`+tool+`"}`))
		require.NoError(t, err)
		headers := time.Since(begin)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Contains(t, string(text), `"id":1,"result"`)
		slow := time.Since(begin)
		if tool == "refund" {
			slow = headers
		}
		assert.Greater(t, slow, 28*time.Millisecond, tool)
	}
}

func TestBigAnswers(t *testing.T) {
	t.Parallel()
	r := serveLegacy(t, "--fault", "refund:do=big:50000000", "--fault", "send_mail:do=big:50000000", "--fault", "send_mail:do=sse")
	for _, tool := range []string{"refund", "send_mail"} {
		assert.Greater(t, len(r.call(tool).body), 50_000_000, tool)
	}
}

func TestAnAnswerThatWaitsBehindAnEvent(t *testing.T) {
	t.Parallel()
	r := serveLegacy(t, "--fault", "refund:do=resume")
	got := r.call("refund")
	require.NoError(t, got.err)
	assert.NotContains(t, got.body, "result")
	id, _, _ := strings.Cut(strings.TrimPrefix(got.body, "id: "), "\n")
	require.NotEmpty(t, id)
	got = r.send(http.MethodGet, "/mcp", "", "Last-Event-ID", id)
	assert.Contains(t, got.body, "re_1")
	r.count(1, 1)
}

func TestStyles(t *testing.T) {
	t.Parallel()
	const data = `{"a":1,"b":2}`
	for words, want := range map[string]string{
		"":                "event: message\ndata: " + data + "\n\n",
		"plain":           "event: message\ndata: " + data + "\n\n",
		"unnamed,tight":   "data:" + data + "\n\n",
		"ids,retry":       "id: event-1\nretry: 50\nevent: message\ndata: " + data + "\n\n",
		"lines,crlf":      "event: message\r\ndata: {\r\ndata: \"a\":1,\"b\":2\r\ndata: }\r\n\r\n",
		"cr,unnamed":      "data: " + data + "\r\r",
		"bom,unnamed":     "\ufeffdata: " + data + "\n\n",
		"comments,tight":  ": a comment\n:\nevent: message\ndata:" + data + "\n: between the lines\n\n",
		"unnamed,ids,bom": "\ufeffid: event-1\ndata: " + data + "\n\n",
	} {
		s, err := parseStyle(words)
		require.NoError(t, err)
		assert.Equal(t, want, string(s.event(1, "message", []byte(data))), words)
		assert.NotContains(t, string(s.event(2, "message", []byte(data))), "\ufeff", "only the first event")
	}
	_, err := parseStyle("lines,bold")
	require.Error(t, err)
}
