package upstream_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/upstream"
)

// A legacy client can do things in its own era that the other does not have.
func TestALegacyClientsOwnEraGoesFirst(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		pages         []map[string]page
		known         upstream.Era
		asked, opened int
		reported      bool
	}{
		{"a server of both", []map[string]page{modern(), legacy()}, "", 0, 1, false},
		{"a server of both that was modern", []map[string]page{modern(), legacy()}, upstream.EraModern, 0, 1, false},
		{"a legacy server", []map[string]page{legacy()}, "", 0, 1, false},
		{"a modern server", []map[string]page{modern()}, "", 1, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, c.pages...)
			v := call(t, s, func(o *upstream.Options) { o.Known = c.known })
			_, err := v.Initialize(v.ctx(), []byte(legacyClient))
			require.NoError(t, err)
			assert.Len(t, s.got("server/discover"), c.asked)
			assert.Len(t, s.got("initialize"), c.opened)
			if c.reported {
				assert.Equal(t, upstream.EraModern, next(t, v.eras))
			} else {
				assert.Empty(t, v.eras, "nobody has asked for the other")
			}
		})
	}
}

func TestEraIsFound(t *testing.T) {
	t.Parallel()
	refuses := func(p page) map[string]page { return map[string]page{"server/discover": p} }
	hangs := func(_ http.ResponseWriter, r *http.Request, _ visit) { <-r.Context().Done() }
	for _, c := range []struct {
		name       string
		pages      []map[string]page
		era, known upstream.Era
		found      upstream.Era // nothing where it was known
		asked      int          // how often server/discover was
		opened     int          // how often initialize was
	}{
		{"a modern server", []map[string]page{modern()}, "", "", upstream.EraModern, 1, 0},
		{"a modern server, known", []map[string]page{modern()}, "", upstream.EraModern, "", 1, 0},
		{"a modern server that was legacy", []map[string]page{modern()}, "", upstream.EraLegacy, upstream.EraModern, 1, 1},
		{"a legacy server", []map[string]page{legacy()}, "", "", upstream.EraLegacy, 1, 1},
		{"a legacy server, known", []map[string]page{legacy()}, "", upstream.EraLegacy, "", 0, 1},
		{"a legacy server that was modern", []map[string]page{legacy()}, "", upstream.EraModern, upstream.EraLegacy, 1, 1},
		{"a server of both, pinned to legacy", []map[string]page{modern(), legacy()}, upstream.EraLegacy, "", upstream.EraLegacy, 0, 1},
		{"a server of both, pinned to modern", []map[string]page{legacy(), modern()}, upstream.EraModern, "", upstream.EraModern, 1, 0},
		{"method not found", []map[string]page{legacy(), refuses(body(200, json, `{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"x"}}`))}, "", "", upstream.EraLegacy, 1, 1},
		{"404", []map[string]page{legacy(), refuses(status(404))}, "", "", upstream.EraLegacy, 1, 1},
		{"500", []map[string]page{legacy(), refuses(status(500))}, "", "", upstream.EraLegacy, 1, 1},
		{"a result that is none", []map[string]page{legacy(), refuses(result("{}"))}, "", "", upstream.EraLegacy, 1, 1},
		{"a connection that ends", []map[string]page{legacy(), refuses(hangsUp(""))}, "", "", upstream.EraLegacy, 1, 1},
		{"no answer", []map[string]page{legacy(), refuses(hangs)}, "", "", upstream.EraLegacy, 1, 1},
		{"only legacy versions", []map[string]page{legacy(), refuses(body(400, json,
			`{"jsonrpc":"2.0","id":ID,"error":{"code":-32022,"message":"x","data":{"supported":["2025-11-25"]}}}`))}, "", "", upstream.EraLegacy, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, c.pages...)
			v := call(t, s, func(o *upstream.Options) { o.Era, o.Known, o.StartTimeout = c.era, c.known, 3*time.Second })
			_, err := v.pays(v.ready())
			require.NoError(t, err)
			assert.Len(t, s.got("server/discover"), c.asked)
			assert.Len(t, s.got("initialize"), c.opened)
			if c.found == "" {
				assert.Empty(t, v.eras)
			} else {
				assert.Equal(t, c.found, next(t, v.eras))
			}
		})
	}
}

func TestFirstHandshakeThatFailsSaysWhy(t *testing.T) {
	t.Parallel()
	everything := func(p page) map[string]page { return map[string]page{"server/discover": p, "initialize": p, "GET": p} }
	for _, c := range []struct {
		name  string
		pages map[string]page
		era   upstream.Era
		text  string
	}{
		{"401", everything(status(401)), "", "--header 'Authorization: Bearer TOKEN'"},
		{"403", everything(status(403)), "", "refuses access"},
		{"404", everything(status(404)), "", "check the URL"},
		{"307", everything(redirect(307)), "", `/elsewhere": if that is right, give that URL`},
		{"502", everything(status(502)), "", "502 Bad Gateway"},
		{"a web page", everything(body(200, "text/html", "<html>")), "", "check that the URL is that of an MCP server"},
		{"no answer", everything(func(_ http.ResponseWriter, r *http.Request, _ visit) { <-r.Context().Done() }), "", "did not answer initialize within 200ms"},
		{"no MCP server", everything(result("7")), "", "check that the URL is that of an MCP server"},
		{"no modern server", everything(status(400)), upstream.EraModern, "400 Bad Request"},
		{"a connection that ends", everything(hangsUp("")), "", "ended the connection before it answered"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v := call(t, newSite(t, c.pages), func(o *upstream.Options) { o.Era, o.StartTimeout = c.era, 200*time.Millisecond })
			v.failsToStart(c.text)
			assert.NotContains(t, v.Err().Error(), "secret")
		})
	}
}

// failsToStart asserts that the first handshake fails for good, with a line that
// contains the text.
func (v *visitor) failsToStart(text string) {
	v.t.Helper()
	_, err := v.Initialize(v.ctx(), []byte(clientParams))
	var start *upstream.StartError
	require.ErrorAs(v.t, err, &start)
	assert.ErrorContains(v.t, err, text)
	assert.NotContains(v.t, err.Error(), "\n")
	next(v.t, v.Failed())
	assert.Equal(v.t, err, v.Err())
	_, err = v.Ready(v.ctx())
	assert.ErrorAs(v.t, err, new(*upstream.UnreachableError))
}

func TestServerThatCannotBeReachedSaysWhy(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	plain := newSite(t, legacy())
	secure := newSecure(t, http.NotFoundHandler())
	for _, c := range []struct{ name, url, text string }{
		{"nobody listens", "http://user:secret@" + l.Addr().String() + "/?key=secret", "connection refused"},
		{"no such host", "http://nowhere.invalid/?key=secret", `there is no host "nowhere.invalid"`},
		{"it speaks no TLS", strings.Replace(plain.URL, "http:", "https:", 1), "does not speak TLS"},
		{"its certificate is nobody's", secure.URL + "/?key=secret", "its certificate is not accepted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v := dial(t, upstream.Endpoint{URL: c.url}, nil)
			v.failsToStart(c.text)
			assert.NotContains(t, v.Err().Error(), "secret")
			unsent(t, v.Err())
		})
	}
}

func TestURLThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "localhost:80", "ftp://host/", "http://", "http:// secret/", "/mcp"} {
		_, err := upstream.Dial(upstream.Endpoint{Name: "site", URL: url}, upstream.Options{})
		assert.ErrorAs(t, err, new(*upstream.StartError), url)
		assert.NotContains(t, err.Error(), "secret")
	}
}

func TestErrorAnswerToTheHandshakeIsHandedOn(t *testing.T) {
	t.Parallel()
	for _, era := range []upstream.Era{upstream.EraAuto, upstream.EraLegacy, upstream.EraModern} {
		t.Run(string(era), func(t *testing.T) {
			t.Parallel()
			p := body(200, json, rpcError)
			v := call(t, newSite(t, map[string]page{"server/discover": p, "initialize": p}), func(o *upstream.Options) { o.Era = era })
			m, err := v.Initialize(v.ctx(), []byte(clientParams))
			require.NoError(t, err)
			assert.Contains(t, string(m.Error), "n is required")
			assert.NoError(t, v.Err())
		})
	}
}

func TestServerThatHasWorkedNeverFails(t *testing.T) {
	t.Parallel()
	s := newSite(t, legacy())
	v := call(t, s, nil)
	v.ready()
	s.put("initialize", status(401))
	s.put("ping", status(404))
	s.put("tools/call", status(404))
	_, err := v.pays(v.again())
	lost(t, err, upstream.BadAnswer)
	next(t, v.exits)
	assert.ErrorContains(t, next(t, v.exits), "401")
	_, err = v.Initialize(v.ctxOf(50*time.Millisecond), []byte(clientParams))
	assert.ErrorContains(t, err, "401", "and the caller is told")
	assert.NoError(t, v.Err())
	s.put("initialize", legacy()["initialize"])
	next(t, v.restarts)
}

// ctxOf bounds a step that is meant not to end before.
func (v *visitor) ctxOf(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	v.t.Cleanup(cancel)
	return ctx
}

func TestCredentialsAreSentWithEveryRequest(t *testing.T) {
	t.Parallel()
	s := newSite(t, legacy())
	v := dial(t, upstream.Endpoint{
		URL: strings.Replace(s.URL, "http://", "http://ada:pass@", 1) + "/mcp#x", Agent: "mcp-idem/1.2.3", Header: http.Header{"x-tenant": {"t-1"}},
	}, nil)
	_, err := v.pays(v.ready())
	require.NoError(t, err)
	require.NoError(t, v.Close(v.ctx()))
	for _, name := range []string{"server/discover", "initialize", "notifications/initialized", "tools/call", "DELETE"} {
		visits := s.got(name)
		require.NotEmpty(t, visits, name)
		assert.Equal(t, "Basic YWRhOnBhc3M=", visits[0].header.Get("Authorization"), name)
		assert.Equal(t, "mcp-idem/1.2.3", visits[0].header.Get("User-Agent"), name)
		assert.Equal(t, "t-1", visits[0].header.Get("X-Tenant"), name)
	}
}
