package upstream_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/upstream"
)

const (
	json      = "application/json"
	rpcError  = `{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"Invalid params: n is required"}}`
	rpcResult = `{"jsonrpc":"2.0","id":ID,"result":` + toolResult + `}`
)

// A fault is what a server does wrong with a call, and what is known afterwards.
type fault struct {
	name   string
	page   page
	answer string             // the response, where there is one
	cause  upstream.LossCause // else how it was lost
	row    int                // of the table in docs/guarantees.md
	text   string             // in the error
	stray  bool               // an answer to nothing is reported
}

func redirect(code int) page {
	return func(w http.ResponseWriter, r *http.Request, _ visit) {
		w.Header().Set("Location", "/elsewhere?token=secret")
		w.WriteHeader(code)
	}
}

func faults() []fault {
	all := []fault{
		{name: "the connection is reset after the effect", page: hangsUp(""), cause: upstream.ConnectionLost, row: 8},
		{name: "the headers are cut", page: hangsUp("HTTP/1.1 200 OK\r\nContent-Ty"), cause: upstream.ConnectionLost, row: 8},
		{name: "what comes back is no HTTP", page: hangsUp("SSH-2.0-server\r\n\r\n"), cause: upstream.ConnectionLost, row: 8},
		{name: "the body is cut by the connection", page: hangsUp("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{\"jsonrpc\""), cause: upstream.ConnectionLost, row: 8},
		{name: "the body is cut by the server", page: body(200, json, `{"jsonrpc":"2.0","id":ID,"resu`), cause: upstream.BadAnswer, row: 8},
		{name: "a redirect that would keep the method: 307", page: redirect(307), cause: upstream.BadAnswer, row: 8, text: "/elsewhere\""},
		{name: "a redirect that would keep the method: 308", page: redirect(308), cause: upstream.BadAnswer, row: 8, text: "/elsewhere\""},
		{name: "a redirect that would lose the method", page: redirect(303), cause: upstream.BadAnswer, row: 8},
		{name: "408", page: status(408), cause: upstream.BadAnswer, row: 8, text: "408"},
		{name: "409 with an error for nobody", page: body(409, json, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"busy"}}`), cause: upstream.BadAnswer, row: 8, text: `"busy"`},
		{name: "400 with a JSON-RPC error", page: body(400, json, rpcError), answer: rpcError, row: 3},
		{name: "401 with a JSON-RPC result", page: body(401, json, rpcResult), answer: rpcResult, row: 5},
		{name: "429 with an error for another request", page: body(429, json, strings.Replace(rpcError, "ID", "77", 1)), cause: upstream.BadAnswer, row: 3},
		{name: "429 that speaks of a timeout", page: body(429, json, `{"error":{"message":"upstream request timeout"}}`), cause: upstream.BadAnswer, row: 8},
		{name: "502 with a body of JSON", page: body(502, json, `{"message":"bad gateway"}`), cause: upstream.BadAnswer, row: 8, text: "502 Bad Gateway"},
		{name: "502 with a page", page: body(502, "text/html", "<html>"), cause: upstream.BadAnswer, row: 8},
		{name: "503 with a JSON-RPC result", page: body(503, json, rpcResult), answer: rpcResult, row: 5},
		{name: "503 with a JSON-RPC error under another content type", page: body(503, "text/plain", rpcError), answer: rpcError, row: 3},
		{name: "202 without an answer", page: status(202), cause: upstream.BadAnswer, row: 8, text: "202"},
		{name: "204", page: status(204), cause: upstream.BadAnswer, row: 8},
		{name: "an empty object", page: body(200, json, "{}"), cause: upstream.BadAnswer, row: 8},
		{name: "an empty body", page: body(200, json, ""), cause: upstream.BadAnswer, row: 8},
		{name: "a batch", page: body(200, json, "["+rpcResult+"]"), cause: upstream.BadAnswer, row: 8},
		{name: "a page instead of an answer", page: body(200, "text/html", "<html>"), cause: upstream.BadAnswer, row: 8, text: `"text/html"`},
		{name: "an answer under another content type", page: body(200, "text/plain", rpcResult), cause: upstream.BadAnswer, row: 8},
		{name: "no content type", page: body(200, "", rpcResult), cause: upstream.BadAnswer, row: 8},
		{name: "an answer to another request", page: body(200, json, strings.Replace(rpcResult, "ID", "77", 1)), cause: upstream.BadAnswer, row: 8, stray: true},
		{name: "an answer whose id is null", page: body(200, json, `{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"x"}}`), cause: upstream.BadAnswer, row: 8, stray: true},
		{name: "a request in place of an answer", page: body(200, json, `{"jsonrpc":"2.0","id":ID,"method":"ping"}`), cause: upstream.BadAnswer, row: 8},
		{name: "two answers in one body", page: body(200, json, rpcResult+rpcResult), cause: upstream.BadAnswer, row: 8},
		{name: "an id that is a string", page: body(200, json, strings.Replace(rpcResult, "ID", `"ID"`, 1)), answer: rpcResult, row: 5},
		{name: "a content type with a parameter", page: body(200, "Application/JSON; charset=utf-8", rpcResult), answer: rpcResult, row: 5},
		{name: "two answers on a stream", page: events("data: " + rpcResult + "\n\ndata: " + rpcError + "\n\n"), answer: rpcResult, row: 5, stray: true},
		{name: "an answer to another request on a stream", page: events("data: " + strings.Replace(rpcResult, "ID", "77", 1) + "\n\n"), cause: upstream.ConnectionLost, row: 8, stray: true},
		{name: "a stream that ends without an answer", page: events(": nothing\n\n"), cause: upstream.ConnectionLost, row: 8, text: "ended without the answer"},
		{name: "a stream that ends within the answer", page: events("data: " + rpcResult + "\n"), cause: upstream.ConnectionLost, row: 8},
		{name: "a stream that is cut", page: hangsUp("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n: nothin"), cause: upstream.ConnectionLost, row: 8},
		{name: "a broken answer on a stream", page: events("data: {\"jsonrpc\":\"2.0\",\"id\":ID}\n\n"), cause: upstream.BadAnswer, row: 8},
		{name: "an answer on a stream without end", page: stays("data: " + rpcResult + "\n\n"), answer: rpcResult, row: 5},
		{name: "a body that is too long", page: body(200, json, `{"jsonrpc":"2.0","id":ID,"result":{"x":"`+strings.Repeat("x", 5000)+`"}}`), cause: upstream.BadAnswer, row: 8, text: "4096"},
		{name: "a line that is too long", page: events("data: " + strings.Repeat("x", 5000) + "\n\n"), cause: upstream.BadAnswer, row: 8, text: "4096"},
		{name: "an event that is too long", page: events(strings.Repeat("data: "+strings.Repeat("x", 500)+"\n", 10) + "\n"), cause: upstream.BadAnswer, row: 8, text: "4096"},
	}
	for _, code := range []int{401, 403, 405, 406, 413, 415, 429} {
		all = append(all, fault{name: fmt.Sprint(code), page: status(code), cause: upstream.BadAnswer, row: 3, text: fmt.Sprint(code)})
	}
	return all
}

func TestFaultyAnswersAreJudgedAndSentOnce(t *testing.T) {
	t.Parallel()
	for era, pages := range map[string]func() map[string]page{"legacy": legacy, "modern": modern} {
		for _, f := range faults() {
			t.Run(era+"/"+f.name, func(t *testing.T) {
				t.Parallel()
				s := newSite(t, pages())
				v := call(t, s, func(o *upstream.Options) { o.MaxMessageBytes = 4096 })
				session := v.ready()
				_, err := v.pays(session) // the next one finds a connection that is in use
				require.NoError(t, err)
				s.put("tools/call", f.page)
				f.check(t, v, session)
				assert.Len(t, s.got("tools/call"), 2, "the call was sent once")
			})
		}
	}
}

func (f fault) check(t *testing.T, v *visitor, session upstream.Session) {
	answer, err := v.pays(session)
	judgement := upstream.DefaultJudgement()
	if f.answer != "" {
		require.NoError(t, err)
		assert.Equal(t, strings.Replace(f.answer, "ID", `"c-1"`, 1), string(answer.Raw()))
		assert.Equal(t, f.row, judgement.Judge(answer).Row)
	} else {
		loss := lost(t, err, f.cause)
		assert.ErrorContains(t, loss, f.text)
		assert.NotContains(t, loss.Error(), "secret")
		finding := judgement.JudgeLoss(err)
		assert.Equal(t, f.row, finding.Row, "%v", err)
		assert.Equal(t, f.row == 3, finding.Proof != nil)
		judgement.StrictCodes = true
		assert.Nil(t, judgement.JudgeLoss(err).Proof)
	}
	if f.stray {
		next(t, v.strays)
	}
}

func TestLargeAnswersComeWhole(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 50<<20)
	for name, p := range map[string]page{
		"in a body":   result(`"` + text + `"`),
		"on a stream": events("data: {\"jsonrpc\":\"2.0\",\"id\":ID,\ndata: \"result\":\"" + text + "\"}\n\n"),
	} {
		s := newSite(t, legacy())
		v := call(t, s, nil)
		session := v.ready()
		s.put("tools/call", p)
		answer, err := v.pays(session)
		require.NoError(t, err, name)
		assert.Len(t, answer.Result, len(text)+2, name)
	}
}

func TestRequestIsNotSentAgainWhenItCarriesAnIdempotencyKey(t *testing.T) {
	t.Parallel()
	s := newSite(t, legacy())
	v := dial(t, upstream.Endpoint{URL: s.URL, Header: http.Header{"Idempotency-Key": {"k"}, "X-Idempotency-Key": {"k"}}}, nil)
	session := v.ready()
	_, err := v.pays(session)
	require.NoError(t, err)
	s.put("tools/call", hangsUp(""))
	_, err = v.pays(session)
	lost(t, err, upstream.ConnectionLost)
	assert.Len(t, s.got("tools/call"), 2)
}

func TestMessagesOfTheServerOnTheStreamOfACallAreHandedOn(t *testing.T) {
	t.Parallel()
	s := newSite(t, legacy())
	s.put("tools/call", events("event: message\r\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"method\":\"notifications/progress\"}\r\n\r\n"+
		"data: junk\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"roots/list\"}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"p\",\"method\":\"ping\"}\n\n"+
		"event: other\ndata: "+rpcError+"\n\ndata: "+rpcResult+"\n\n"))
	v := call(t, s, nil)
	session := v.ready()
	own := make(chan jsonrpc.Message, 1)
	call, err := session.SendTo(v.ctx(), toolCall("1", "pay", "{}"), upstream.Listener{Notified: func(m jsonrpc.Message) { own <- m }})
	require.NoError(t, err)
	answer, err := call.Wait(v.ctx())
	require.NoError(t, err)
	assert.NotNil(t, answer.Result)
	assert.Equal(t, "notifications/progress", next(t, own).Method)
	assert.Equal(t, "junk", next(t, v.junk))
	question := next(t, v.requests)
	require.NoError(t, question.session.Reply(jsonrpc.Result(question.message.ID, []byte(`{"roots":[]}`))))
	require.Eventually(t, func() bool { return len(s.got("reply")) == 2 }, patience, tick)
	assert.Equal(t, `{"jsonrpc":"2.0","id":"p","result":{}}`, string(s.got("reply")[0].m.Raw()))
	assert.Equal(t, `{"jsonrpc":"2.0","id":9,"result":{"roots":[]}}`, string(s.got("reply")[1].m.Raw()))
}

func TestForgottenCallHasItsStreamClosed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		pages   map[string]page
		closeIt func(upstream.Session, *upstream.Call) error
	}{
		{"by Forget in the legacy era", legacy(), func(_ upstream.Session, c *upstream.Call) error { c.Forget(); return nil }},
		{"by Forget in the modern era", modern(), func(_ upstream.Session, c *upstream.Call) error { c.Forget(); return nil }},
		{"by a cancellation in the modern era", modern(), func(s upstream.Session, c *upstream.Call) error {
			return s.Notify(jsonrpc.Notification("notifications/cancelled", fmt.Appendf(nil, `{"requestId":%s}`, c.ID())))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, c.pages)
			begun, gone := make(chan struct{}), make(chan struct{})
			s.put("tools/call", func(w http.ResponseWriter, r *http.Request, v visit) {
				close(begun)
				stays(": begun\n\n")(w, r, v)
				close(gone)
			})
			v := call(t, s, nil)
			session := v.ready()
			call, err := session.Send(v.ctx(), toolCall("1", "pay", "{}"))
			require.NoError(t, err)
			next(t, begun)
			require.NoError(t, c.closeIt(session, call))
			_, err = call.Wait(v.ctx())
			lost(t, err, upstream.Forgotten)
			next(t, gone)
			assert.Empty(t, s.got("notifications/cancelled"))
		})
	}
}

func TestLegacyCancellationIsPosted(t *testing.T) {
	t.Parallel()
	s := newSite(t, legacy())
	v := call(t, s, nil)
	require.NoError(t, v.ready().Notify(jsonrpc.Notification("notifications/cancelled", []byte(`{"requestId":5}`))))
	require.Eventually(t, func() bool { return len(s.got("notifications/cancelled")) == 1 }, patience, tick)
	assert.JSONEq(t, `{"requestId":5}`, string(s.got("notifications/cancelled")[0].m.Params))
}

func TestStreamThatBreaksIsTakenUpAgainBehindItsLastEvent(t *testing.T) {
	t.Parallel()
	s := newSite(t, legacy())
	var id string
	s.put("tools/call", func(w http.ResponseWriter, r *http.Request, v visit) {
		id = string(v.m.ID)
		events("id: e-1\nretry: 1\ndata:\n\n")(w, r, v)
	})
	s.put("GET", func(w http.ResponseWriter, _ *http.Request, v visit) {
		switch v.header.Get("Last-Event-ID") {
		case "e-1":
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "id: e-2\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\n")
		case "e-2":
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: "+strings.ReplaceAll(rpcResult, "ID", id)+"\n\n")
		default:
			w.WriteHeader(405)
		}
	})
	v := call(t, s, nil)
	answer, err := v.pays(v.ready())
	require.NoError(t, err)
	assert.NotNil(t, answer.Result)
	assert.Equal(t, "notifications/progress", next(t, v.notifications).Method)
	assert.Len(t, s.got("tools/call"), 1)
}

func TestStreamThatCannotBeTakenUpLosesItsCall(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pages map[string]page
		get   page
		gets  int
	}{
		"refused":           {legacy(), status(405), 1},
		"always at fault":   {legacy(), status(500), 3},
		"always empty":      {legacy(), events(": nothing\n\n"), 3},
		"in the modern era": {modern(), status(500), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, c.pages)
			v := call(t, s, nil)
			session := v.ready()
			s.put("tools/call", events("id: e-1\nretry: 1\ndata:\n\n"))
			s.put("GET", c.get)
			_, err := v.pays(session)
			lost(t, err, upstream.ConnectionLost)
			gets := 0
			for _, visit := range s.got("GET") {
				if visit.header.Get("Last-Event-ID") == "e-1" {
					gets++
				}
			}
			assert.Equal(t, c.gets, gets)
			assert.Len(t, s.got("tools/call"), 1)
		})
	}
}
