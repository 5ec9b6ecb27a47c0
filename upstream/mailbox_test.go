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

// An oldSite is a server of the transport of 2024-11-05: what is posted to it is
// answered on the one stream that is open.
type oldSite struct {
	*site

	out  chan string // what is to be written to the stream; an empty text ends it
	gone chan struct{}
}

func newOldSite(t *testing.T, endpoint string) *oldSite {
	o := &oldSite{out: make(chan string, 100), gone: make(chan struct{}, 100)}
	posted := func(answer string) page {
		return func(w http.ResponseWriter, r *http.Request, v visit) {
			if r.URL.Path != "/messages" {
				w.WriteHeader(http.StatusMethodNotAllowed)
				return
			}
			w.WriteHeader(http.StatusAccepted)
			o.out <- "data: " + withID(answer, v) + "\n\n"
		}
	}
	o.site = newSite(t, map[string]page{
		"GET": func(w http.ResponseWriter, r *http.Request, _ visit) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = fmt.Fprintf(w, "event: endpoint\ndata: %s\n\n", endpoint)
			w.(http.Flusher).Flush()
			defer func() { o.gone <- struct{}{} }()
			for {
				select {
				case text := <-o.out:
					if text == "" {
						return
					}
					_, _ = io.WriteString(w, text)
					w.(http.Flusher).Flush()
				case <-r.Context().Done():
					return
				}
			}
		},
		"server/discover": status(405),
		"initialize":      posted(`{"jsonrpc":"2.0","id":ID,"result":` + initializeResult + `}`),
		"tools/call":      posted(rpcResult),
	})
	return o
}

func TestOlderTransportIsSpokenWith(t *testing.T) {
	t.Parallel()
	o := newOldSite(t, "/messages?session=5")
	v := call(t, o.site, nil)
	session := v.ready()
	o.out <- "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"roots/list\"}\n\n" +
		"data: {\"jsonrpc\":\"2.0\",\"id\":77,\"result\":{}}\n\n"
	answer, err := v.pays(session)
	require.NoError(t, err)
	assert.Equal(t, strings.Replace(rpcResult, "ID", `"c-1"`, 1), string(answer.Raw()))
	assert.Equal(t, "notifications/x", next(t, v.notifications).Method)
	assert.Equal(t, "roots/list", next(t, v.requests).message.Method)
	assert.Equal(t, "77", string(next(t, v.strays).ID))
	assert.Len(t, o.got("tools/call"), 1)
	assert.Len(t, o.got("GET"), 1)
	assert.Equal(t, upstream.EraLegacy, next(t, v.eras))
	require.NoError(t, v.Close(v.ctx()))
	next(t, o.gone)
}

func TestOlderTransportLosesItsCallsWithItsStream(t *testing.T) {
	t.Parallel()
	o := newOldSite(t, "/messages")
	v := call(t, o.site, nil)
	session := v.ready()
	o.put("tools/call", status(http.StatusAccepted))
	open, err := session.Send(v.ctx(), toolCall("1", "pay", "{}"))
	require.NoError(t, err)
	o.out <- ""
	_, err = open.Wait(v.ctx())
	lost(t, err, upstream.ConnectionLost)
	next(t, v.exits)
	again := next(t, v.restarts)
	open, err = again.Send(v.ctx(), toolCall("1", "pay", "{}"))
	require.NoError(t, err)
	o.out <- "data: {\"jsonrpc\":\"2.0\",\"id\":" + string(open.ID()) + "}\n\n"
	_, err = open.Wait(v.ctx())
	lost(t, err, upstream.BadAnswer)
	require.Eventually(t, func() bool { return len(o.got("tools/call")) == 2 }, patience, tick)
}

func TestOlderTransportJudgesAStatus(t *testing.T) {
	t.Parallel()
	o := newOldSite(t, "/messages")
	v := call(t, o.site, nil)
	session := v.ready()
	o.put("tools/call", status(429))
	_, err := v.pays(session)
	assert.NotNil(t, upstream.DefaultJudgement().JudgeLoss(err).Proof)
}

func TestOlderTransportThatLeadsElsewhereIsRefused(t *testing.T) {
	t.Parallel()
	for _, endpoint := range []string{"http://elsewhere.invalid/messages", "https://127.0.0.1/messages", "//elsewhere.invalid/", ":"} {
		t.Run(endpoint, func(t *testing.T) {
			t.Parallel()
			o := newOldSite(t, endpoint)
			call(t, o.site, nil).failsToStart("405 Method Not Allowed")
			next(t, o.gone)
		})
	}
}

func TestOlderTransportForgetsACall(t *testing.T) {
	t.Parallel()
	o := newOldSite(t, "/messages")
	v := call(t, o.site, nil)
	session := v.ready()
	o.put("tools/call", status(http.StatusAccepted))
	open, err := session.Send(v.ctx(), toolCall("1", "pay", "{}"))
	require.NoError(t, err)
	open.Forget()
	o.out <- "data: {\"jsonrpc\":\"2.0\",\"id\":" + string(open.ID()) + ",\"result\":{}}\n\n"
	assert.Equal(t, string(open.ID()), string(next(t, v.strays).ID))
	_, err = v.ask(session, jsonrpc.Request([]byte("1"), "nothing", nil))
	lost(t, err, upstream.BadAnswer)
}
