package upstream_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/upstream"
)

// How long and how often something is waited for that reports itself to nobody.
const (
	patience = 20 * time.Second
	tick     = time.Millisecond
)

// A visit is one HTTP request that reached a site.
type visit struct {
	name   string // a JSON-RPC method, "reply", or an HTTP verb other than POST
	header http.Header
	m      jsonrpc.Message // of a POST
}

// A page answers one visit.
type page func(http.ResponseWriter, *http.Request, visit)

// A site is a scripted MCP server over HTTP that notes every request.
type site struct {
	*httptest.Server

	mu     sync.Mutex
	pages  map[string]page // by the name of a visit
	visits []visit
}

// newSite serves the pages until the end of the test.
func newSite(t *testing.T, pages ...map[string]page) *site {
	t.Helper()
	s := &site{pages: map[string]page{}}
	for _, some := range pages {
		for name, p := range some {
			s.pages[name] = p
		}
	}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

func (s *site) serve(w http.ResponseWriter, r *http.Request) {
	v := visit{name: r.Method, header: r.Header}
	if r.Method == http.MethodPost {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		v.m, _ = jsonrpc.Parse(body)
		if v.name = v.m.Method; v.name == "" {
			v.name = "reply"
		}
	}
	s.mu.Lock()
	s.visits = append(s.visits, v)
	p := s.pages[v.name]
	s.mu.Unlock()
	if p == nil {
		p = status(http.StatusNotFound)
		if v.m.IsNotification() || v.name == "reply" {
			p = status(http.StatusAccepted)
		}
	}
	p(w, r, v)
}

// put changes a page.
func (s *site) put(name string, p page) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages[name] = p
}

// got returns the visits of one name.
func (s *site) got(name string) []visit {
	s.mu.Lock()
	defer s.mu.Unlock()
	var some []visit
	for _, v := range s.visits {
		if v.name == name {
			some = append(some, v)
		}
	}
	return some
}

func status(code int) page {
	return func(w http.ResponseWriter, _ *http.Request, _ visit) { w.WriteHeader(code) }
}

// body answers with a text in which every ID stands for the request's id.
func body(code int, media, format string) page {
	return func(w http.ResponseWriter, _ *http.Request, v visit) {
		w.Header().Set("Content-Type", media)
		w.WriteHeader(code)
		_, _ = io.WriteString(w, withID(format, v))
	}
}

// result answers a request with a result.
func result(raw string) page {
	return body(http.StatusOK, "application/json", `{"jsonrpc":"2.0","id":ID,"result":`+raw+`}`)
}

// withID puts the id of the request for every ID in the text.
func withID(text string, v visit) string { return strings.ReplaceAll(text, "ID", string(v.m.ID)) }

// events answers with a stream of the given text, which then ends.
func events(format string) page { return body(http.StatusOK, "text/event-stream", format) }

// stays answers with a stream that begins with the text and ends with the client's
// leaving.
func stays(format string) page {
	return func(w http.ResponseWriter, r *http.Request, v visit) {
		events(format)(w, r, v)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
}

// hangsUp breaks the connection after it has written the text.
func hangsUp(text string) page {
	return func(w http.ResponseWriter, _ *http.Request, _ visit) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, text)
		if text == "" {
			_ = conn.(*net.TCPConn).SetLinger(0)
		}
		_ = conn.Close()
	}
}

const (
	discoverResult = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"logging":{}},` +
		`"instructions":"be \u0062rief","ttlMs":5,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"site","version":"7"}}}`
	initializeResult = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"site","version":"7"}}`
	toolResult       = `{"content":[],"n":9007199254740993}`
)

// legacy are the pages of a server of the legacy era with sessions.
func legacy() map[string]page {
	return map[string]page{
		"server/discover": body(http.StatusBadRequest, "application/json", `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Server not initialized"},"id":null}`),
		"initialize": func(w http.ResponseWriter, r *http.Request, v visit) {
			w.Header().Set("Mcp-Session-Id", "session-1")
			result(initializeResult)(w, r, v)
		},
		"ping": result("{}"), "tools/call": result(toolResult),
		"GET": status(http.StatusMethodNotAllowed), "DELETE": status(http.StatusOK),
	}
}

// modern are the pages of a server of the modern era.
func modern() map[string]page {
	return map[string]page{
		"server/discover": result(discoverResult), "tools/call": result(toolResult),
		"subscriptions/listen": stays("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\",\"params\":{}}\n\n"),
	}
}

// A visitor is a Remote, and what it reported.
type visitor struct {
	*upstream.Remote

	t             *testing.T
	notifications chan jsonrpc.Message
	requests      chan request
	junk          chan string
	strays        chan jsonrpc.Message
	exits         chan error
	restarts      chan upstream.Session
	eras          chan upstream.Era
}

// Notification and Request make the visitor the upstream's Handler.
func (v *visitor) Notification(m jsonrpc.Message) { v.notifications <- m }

func (v *visitor) Request(s upstream.Session, m jsonrpc.Message) { v.requests <- request{s, m} }

// dial returns a Remote that is closed with the test.
func dial(t *testing.T, to upstream.Endpoint, edit func(*upstream.Options)) *visitor {
	t.Helper()
	const many = 1000
	v := &visitor{
		t: t, notifications: make(chan jsonrpc.Message, many), requests: make(chan request, many), junk: make(chan string, many),
		strays: make(chan jsonrpc.Message, many), exits: make(chan error, many), restarts: make(chan upstream.Session, many),
		eras: make(chan upstream.Era, many),
	}
	o := upstream.Options{
		StartTimeout: 20 * time.Second, Grace: 5 * time.Second, WriteTimeout: 20 * time.Second,
		BackoffMin: time.Millisecond, BackoffMax: 20 * time.Millisecond, Handler: v,
		Observer: upstream.Observer{
			Junk:      func(line []byte) { v.junk <- string(line) },
			Stray:     func(m jsonrpc.Message) { v.strays <- m },
			Exited:    func(err error, _ time.Duration) { v.exits <- err },
			Restarted: func(s upstream.Session) { v.restarts <- s },
			EraFound:  func(e upstream.Era) { v.eras <- e },
		},
	}
	if edit != nil {
		edit(&o)
	}
	to.Name = "site"
	r, err := upstream.Dial(to, o)
	require.NoError(t, err)
	v.Remote = r
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		assert.NoError(t, r.Close(ctx))
	})
	return v
}

// call visits a site.
func call(t *testing.T, s *site, edit func(*upstream.Options)) *visitor {
	t.Helper()
	return dial(t, upstream.Endpoint{URL: s.URL}, edit)
}

// ctx bounds a step of a test.
func (v *visitor) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	v.t.Cleanup(cancel)
	return ctx
}

// ready does the handshake and returns the session.
func (v *visitor) ready() upstream.Session {
	v.t.Helper()
	m, err := v.Initialize(v.ctx(), []byte(clientParams))
	require.NoError(v.t, err)
	require.NotNil(v.t, m.Result)
	require.NoError(v.t, v.Initialized(jsonrpc.Notification("notifications/initialized", nil)))
	return v.again()
}

// again returns the session that is ready now.
func (v *visitor) again() upstream.Session {
	v.t.Helper()
	s, err := v.Ready(v.ctx())
	require.NoError(v.t, err)
	return s
}

// ask sends a request and returns what comes of it.
func (v *visitor) ask(s upstream.Session, m jsonrpc.Message) (jsonrpc.Message, error) {
	call, err := s.Send(v.ctx(), m)
	if err != nil {
		return jsonrpc.Message{}, err
	}
	return call.Wait(v.ctx())
}

// pays asks for the tool call of the tests.
func (v *visitor) pays(s upstream.Session) (jsonrpc.Message, error) {
	return v.ask(s, toolCall(`"c-1"`, "pay", `{"n":9007199254740993}`))
}

// lost asserts that an error is the loss of an answer.
func lost(t *testing.T, err error, cause upstream.LossCause) *upstream.LostError {
	t.Helper()
	var lost *upstream.LostError
	require.ErrorAs(t, err, &lost, "%v", err)
	require.Equal(t, cause, lost.Cause, "%v", err)
	return lost
}
