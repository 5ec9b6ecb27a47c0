package upstreamtest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// serve2024 opens the stream of a session and returns the path for its messages.
func serve2024(t *testing.T, flags ...string) (*rig, *stream, string) {
	t.Helper()
	r := serve(t, append([]string{"--era", "sse"}, flags...)...)
	s := r.stream(http.MethodGet, "/mcp", "")
	require.True(t, s.lines.Scan())
	require.Equal(t, "event: endpoint", s.lines.Text())
	path := s.next()
	require.True(t, strings.HasPrefix(path, "/message?sessionId="), path)
	return r, s, path
}

func TestTheTransportOf2024(t *testing.T) {
	t.Parallel()
	r, s, path := serve2024(t, "--notify-list-changed", "--fault", "refund:do=notify:notifications/resources/list_changed")
	assert.Equal(t, http.StatusMethodNotAllowed, r.post(request(1, "initialize", "{}")).status)
	assert.Equal(t, http.StatusMethodNotAllowed, r.send(http.MethodDelete, "/mcp", "").status)
	assert.Equal(t, http.StatusNotFound, r.send(http.MethodPost, "/message?sessionId=x", request(1, "ping", "{}")).status)

	assert.Equal(t, http.StatusAccepted, r.send(http.MethodPost, path, request(1, "initialize", "{}")).status)
	assert.Contains(t, s.next(), `"id":1,"result":{"protocolVersion"`)
	assert.Equal(t, http.StatusAccepted, r.send(http.MethodPost, path, `{"jsonrpc":"2.0","method":"notifications/initialized"}`).status)
	assert.Contains(t, s.next(), "notifications/tools/list_changed")
	assert.Equal(t, http.StatusBadRequest, r.send(http.MethodPost, path, "{").status)
	assert.Equal(t, http.StatusAccepted, r.send(http.MethodPost, path, request(2, "tools/call", `{"name":"refund"}`)).status)
	both := s.next() + s.next() // the notification comes by another way
	assert.Contains(t, both, "notifications/resources/list_changed")
	assert.Contains(t, both, "re_1")
	r.count(1, 1)
}

func TestFaultsOfTheTransportOf2024(t *testing.T) {
	t.Parallel()
	for do, want := range map[string]string{"reset": "", "drop": "", "end": "", "garbage": "Traceback (most recent call last):", "wrong_id": "987654321"} {
		t.Run(do, func(t *testing.T) {
			t.Parallel()
			r, s, path := serve2024(t, "--fault", "refund:do="+do)
			assert.Equal(t, http.StatusAccepted, r.send(http.MethodPost, path, request(1, "tools/call", `{"name":"refund"}`)).status)
			assert.Contains(t, s.next(), want)
			r.count(1, 1)
		})
	}
}

func TestAFaultBeforeTheTransportOf2024HasAccepted(t *testing.T) {
	t.Parallel()
	r, s, path := serve2024(t, "--fault", "refund:nth=1,when=before_read,do=status:404", "--fault", "refund:nth=2,do=hang", "--fault", "refund:nth=3,do=sse:tight")
	call := request(1, "tools/call", `{"name":"refund"}`)
	assert.Equal(t, http.StatusNotFound, r.send(http.MethodPost, path, call).status)
	assert.Equal(t, http.StatusAccepted, r.send(http.MethodPost, path, call).status)
	assert.Equal(t, http.StatusAccepted, r.send(http.MethodPost, path, call).status)
	require.True(t, s.lines.Scan())
	require.True(t, s.lines.Scan())
	require.True(t, s.lines.Scan())
	assert.Contains(t, s.lines.Text(), "data:{")
	r.count(3, 2)
}

func TestASilentServerOf2024Accepts(t *testing.T) {
	t.Parallel()
	r, _, path := serve2024(t, "--silent")
	assert.Equal(t, http.StatusAccepted, r.send(http.MethodPost, path, request(1, "initialize", "{}")).status)
}
