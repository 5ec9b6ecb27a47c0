package upstreamtest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A rig is a server over HTTP and a raw client of it.
type rig struct {
	t                                *testing.T
	server                           *server
	base                             string
	dir, effects, received, requests string
	client                           *http.Client
	header                           http.Header // of every request
}

// serve serves in this process, so no fault may end it.
func serve(t *testing.T, flags ...string) *rig {
	t.Helper()
	dir := t.TempDir()
	r := &rig{
		t: t, dir: dir, effects: filepath.Join(dir, "effects"), received: filepath.Join(dir, "received"),
		requests: filepath.Join(dir, "requests"), client: &http.Client{Transport: &http.Transport{}},
		header: http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}},
	}
	r.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	o, err := parse(append([]string{"--http", ":0", "--effects", r.effects, "--received", r.received,
		"--requests", r.requests, "--gate", dir}, flags...))
	require.NoError(t, err)
	s, err := newServer(o)
	require.NoError(t, err)
	l := httptest.NewUnstartedServer(nil)
	l.Config = s.web()
	l.Start()
	r.base, r.server = l.URL, s
	t.Cleanup(func() {
		r.client.CloseIdleConnections()
		l.CloseClientConnections()
		s.sessions.forget()
		s.hub.close()
		l.Close()
		s.behind.Wait()
	})
	return r
}

// legacy opens a session, modern needs none.
func serveLegacy(t *testing.T, flags ...string) *rig {
	t.Helper()
	r := serve(t, flags...)
	r.initialize()
	return r
}

func serveModern(t *testing.T, flags ...string) *rig {
	t.Helper()
	r := serve(t, append([]string{"--era", "modern"}, flags...)...)
	r.header.Set("Mcp-Protocol-Version", "2026-07-28")
	return r
}

func (r *rig) initialize() {
	r.t.Helper()
	r.header.Del("Mcp-Session-Id")
	got := r.post(request(0, "initialize", `{"protocolVersion":"2025-06-18"}`))
	require.Equal(r.t, http.StatusOK, got.status)
	r.header.Set("Mcp-Session-Id", got.header.Get("Mcp-Session-Id"))
	r.header.Set("Mcp-Protocol-Version", "2025-06-18")
}

// A reply is what came back, as far as it came.
type reply struct {
	status int
	header http.Header
	body   string
	err    error // of the request, or of reading the body
}

func (r *rig) post(body string, header ...string) reply {
	return r.send(http.MethodPost, "/mcp", body, header...)
}

// call calls a tool in the legacy era.
func (r *rig) call(tool string) reply {
	return r.post(request(1, "tools/call", fmt.Sprintf(`{"name":%q}`, tool)))
}

// modern sends a request with what a modern request needs; more is what its
// params have besides.
func (r *rig) modern(id int, method, name, more string, header ...string) reply {
	return r.post(modernRequest(id, method, more), append([]string{"Mcp-Method", method, "Mcp-Name", name}, header...)...)
}

const modernMeta = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}`

func modernRequest(id int, method, more string) string {
	if more != "" {
		more = "," + more
	}
	return request(id, method, `{"_meta":{`+modernMeta+`}`+more+`}`)
}

func (r *rig) send(method, path, body string, header ...string) (got reply) {
	resp, err := r.open(r.t.Context(), method, path, body, header...)
	if err != nil {
		return reply{err: err}
	}
	defer func() { assert.NoError(r.t, resp.Body.Close()) }()
	text, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(text), err}
}

// open returns when the headers are there. An empty header value is left out.
func (r *rig) open(ctx context.Context, method, path, body string, header ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, r.base+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = r.header.Clone()
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
		if header[i+1] == "" {
			req.Header.Del(header[i])
		}
	}
	return r.client.Do(req)
}

// leave posts a request that will not be answered. The client goes when cancel is
// called, and then, or when there is an answer after all, failed has the error.
func (r *rig) leave(body string) (cancel func(), failed chan error) {
	ctx, cancel := context.WithCancel(r.t.Context())
	r.t.Cleanup(cancel)
	failed = make(chan error, 1)
	go func() {
		resp, err := r.open(ctx, http.MethodPost, "/mcp", body)
		if err == nil {
			_ = resp.Body.Close()
		}
		failed <- err
	}()
	return cancel, failed
}

// A stream is an open stream of events.
type stream struct {
	t      *testing.T
	resp   *http.Response
	lines  *bufio.Scanner
	cancel context.CancelFunc
}

func (r *rig) stream(method, path, body string, header ...string) *stream {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	resp, err := r.open(ctx, method, path, body, header...)
	require.NoError(r.t, err)
	s := &stream{r.t, resp, bufio.NewScanner(resp.Body), cancel}
	r.t.Cleanup(s.close)
	return s
}

func (s *stream) close() {
	s.cancel()
	_ = s.resp.Body.Close() // a second time does nothing
}

// next returns the next data of the stream, empty at its end.
func (s *stream) next() string {
	for s.lines.Scan() {
		if data, ok := strings.CutPrefix(s.lines.Text(), "data: "); ok {
			return data
		}
	}
	return ""
}

// count asserts how many calls were received and how many effects they had.
func (r *rig) count(calls, effects int) {
	r.t.Helper()
	received, err := os.ReadFile(r.received)
	require.NoError(r.t, err)
	assert.Equal(r.t, calls, bytes.Count(received, []byte(`"tools/call"`)), "calls")
	got, err := Effects(r.effects)
	require.NoError(r.t, err)
	assert.Len(r.t, got, effects)
}
