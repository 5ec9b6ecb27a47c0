package main

import (
	"bytes"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/upstream/upstreamtest"
)

// TestServersThatCannotBeSpokenWith has the handshake with a server behind a URL go
// wrong. Who runs the gateway is told so in one line, and the client by an error.
func TestServersThatCannotBeSpokenWith(t *testing.T) {
	t.Parallel()
	page := func(status int, media, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", media)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		}
	}
	for name, test := range map[string]struct {
		serve http.HandlerFunc
		tls   bool
		edit  func(url string) string // of the server's URL
		says  string
	}{
		"a host that there is not":    {edit: func(string) string { return "http://no-such-host.invalid/mcp" }, says: `no-such-host\.invalid`},
		"a port where nobody listens": {edit: func(string) string { return "http://127.0.0.1:1/mcp" }, says: "connection refused"},
		"https where http is spoken":  {serve: page(200, "text/plain", ""), edit: func(url string) string { return strings.Replace(url, "http:", "https:", 1) }, says: "does not speak TLS; check whether the URL should begin with http://"},
		"http where https is spoken":  {serve: page(200, "text/plain", ""), tls: true, edit: func(url string) string { return strings.Replace(url, "https:", "http:", 1) }, says: "HTTP status 400"},
		"a certificate of nobody":     {serve: page(200, "text/plain", ""), tls: true, says: "its certificate is not accepted"},
		"a redirect": {serve: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere?token=s3cret", http.StatusTemporaryRedirect)
		}, says: `it redirects to "http://127\.0\.0\.1:\d+/elsewhere"`},
		"a server that wants to know":  {serve: page(401, "application/json", `{"error":"unauthorized"}`), says: "401.*give --header 'Authorization: Bearer TOKEN'"},
		"a server that refuses access": {serve: page(403, "text/plain", ""), says: "403.*check what --header says"},
		"a page that is not there":     {serve: page(404, "text/html", "<html>"), says: "404.*check the URL"},
		"a page for people":            {serve: page(200, "text/html", "<html>"), says: "text/html"},
		"a server in trouble":          {serve: page(503, "text/plain", ""), says: "503"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := "http://127.0.0.1:1"
			if test.serve != nil {
				url = site(t, test.serve, test.tls)
			}
			if test.edit != nil {
				url = test.edit(url)
			}
			for _, era := range []string{"auto", legacyEra, modernEra} {
				refusesToStart(t, exitUpstream, test.says, "--url", url, "--era", era)
			}
		})
	}
}

// A gateway before a URL waits for clients whether its server is there or not. Who
// comes too early is told so, and who comes again finds the server.
func TestServerThatComesLaterIsFound(t *testing.T) {
	t.Parallel()
	for _, era := range bothEras {
		t.Run("by a "+era+" client", func(t *testing.T) {
			t.Parallel()
			p := &pairing{t: t, dir: t.TempDir(), clientIs: side{era, onHTTP}, serverIs: side{era, onHTTP}}
			require.NoError(t, os.WriteFile(p.path("tools.json"), []byte(pairingTools), 0o600))
			behind, err := url.Parse(p.upstream()[1])
			require.NoError(t, err)
			proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: behind.Scheme, Host: behind.Host})
			proxy.FlushInterval = -1
			var there atomic.Bool
			front := site(t, func(w http.ResponseWriter, r *http.Request) {
				if !there.Load() {
					http.Error(w, "come again", http.StatusServiceUnavailable)
					return
				}
				proxy.ServeHTTP(w, r)
			}, false)
			p.address = serveHTTP(t, append(p.wrap(), "--url", front+behind.Path)...)
			early := newHTTPClient(p.address, era)
			p.client = early
			for range 2 {
				m, err := scene{p, t}.introduce().answer()
				require.NoError(t, err)
				assert.Contains(t, string(m.Error), "503")
			}
			require.NoError(t, early.leave())

			there.Store(true)
			p.connect(t)
			scene{p, t}.first()
			require.NoError(t, p.client.leave())
			p.count(t, "A1", 1)
		})
	}
}

// site serves HTTP, and what is spoken wrongly to it is nobody's affair.
func site(t *testing.T, serve http.HandlerFunc, tls bool) string {
	s := httptest.NewUnstartedServer(serve)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	if tls {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s.URL
}

func TestPortInUseIsToldInOneLine(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	refusesToStart(t, exitFailed, `--http: 127\.0\.0\.1:\d+ is in use by another program; end that, or give another port`,
		"--http", l.Addr().String(), "--", "scripted")
}

// opening is how a client begins.
const opening = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}` + "\n"

// refusesToStart runs wrap with a client that wants to begin, and compares its exit
// status and the one line that it writes.
func refusesToStart(t *testing.T, status int, says string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "mcp-idem", append([]string{"wrap", "--log-level", "disabled"}, args...)...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(upstreamtest.Env(), "MCP_IDEM_LEDGER="+cmd.Dir+"/ledger.db")
	stdin, err := cmd.StdinPipe() // it stays open
	require.NoError(t, err)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Start())
	_, _ = io.WriteString(stdin, opening) // it may have ended before it read
	_ = cmd.Wait()                        // the exit status tells
	require.NoError(t, ctx.Err(), "it did not end")
	assert.Equal(t, status, cmd.ProcessState.ExitCode(), "%s", &stderr)
	assert.Regexp(t, `\Amcp-idem: [^\n]*`+says+`[^\n]*\n\z`, stderr.String())
	assert.NotContains(t, stderr.String()+stdout.String(), "s3cret")
	assert.NoError(t, onlyErrors(stdout.Bytes()))
}
