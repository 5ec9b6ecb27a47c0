package gateway_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/gateway"
	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/upstream"
)

// A web is a gateway that serves HTTP before a server that the test speaks for.
type web struct {
	*rig
	t      *testing.T
	base   string
	client *http.Client
	gate   *gateway.HTTP
	shut   func() error // ends Serve as a signal would, and returns what it returned
}

// newWeb serves HTTP on a free port of this machine. edit may be nil.
func newWeb(t *testing.T, tools string, edit func(*gateway.HTTPOptions)) *web {
	t.Helper()
	return serveWeb(t, prepare(t, tools, func(o *gateway.Options) { o.Policy.TrustAnnotations = true }), edit)
}

func serveWeb(t *testing.T, r *rig, edit func(*gateway.HTTPOptions)) *web {
	t.Helper()
	options := gateway.HTTPOptions{DrainFor: patience, Version: "test"}
	if edit != nil {
		edit(&options)
	}
	gate, err := gateway.NewHTTP(r.ledger, r.options, options)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- gate.Serve(ctx, l) }()
	w := &web{rig: r, t: t, base: "http://" + l.Addr().String(), gate: gate, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}}
	over := false
	w.shut = func() error {
		if over {
			return nil
		}
		over = true
		cancel()
		return receive(t, served, "the end of Serve")
	}
	t.Cleanup(func() {
		assert.NoError(t, w.shut())
		w.client.CloseIdleConnections()
	})
	return w
}

// An ask is an HTTP request to be made, as a client of the public SDKs makes it; what
// a test changes makes it wrong.
type ask struct {
	method, path, body string
	header             map[string]string // "": without it
}

func post(body string, header ...string) ask {
	a := ask{method: http.MethodPost, path: "/mcp", body: body, header: map[string]string{}}
	return a.with(header...)
}

// with sets headers, given as names and values.
func (a ask) with(header ...string) ask {
	all := map[string]string{}
	for name, value := range a.header {
		all[name] = value
	}
	for i := 0; i < len(header); i += 2 {
		all[header[i]] = header[i+1]
	}
	a.header = all
	return a
}

// An answer is what came of it.
type answer struct {
	t      testing.TB
	status int
	header http.Header
	body   string
}

// message is the one message in the answer, or the last of its events.
func (a answer) message() jsonrpc.Message {
	a.t.Helper()
	all := a.messages()
	require.NotEmpty(a.t, all, "there is no message in %q", a.body)
	return all[len(all)-1]
}

func (a answer) messages() (all []jsonrpc.Message) {
	a.t.Helper()
	texts := []string{a.body}
	if strings.HasPrefix(a.header.Get("Content-Type"), "text/event-stream") {
		texts = nil
		for line := range strings.SplitSeq(a.body, "\n") {
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				texts = append(texts, data)
			}
		}
	}
	for _, text := range texts {
		m, err := jsonrpc.Parse([]byte(text))
		require.NoError(a.t, err, text)
		all = append(all, m)
	}
	return all
}

// code is the code of the error in the answer, 0 where there is none.
func (a answer) code() int {
	a.t.Helper()
	e, ok := jsonrpc.ParseError(a.message().Error)
	if !ok {
		return 0
	}
	return e.Code
}

func (w *web) request(ctx context.Context, a ask) *http.Request {
	w.t.Helper()
	r, err := http.NewRequestWithContext(ctx, a.method, w.base+a.path, strings.NewReader(a.body))
	require.NoError(w.t, err)
	if a.method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	for name := range a.header {
		r.Header.Del(name)
	}
	for name, value := range a.header {
		if name == "Host" {
			r.Host = value
		} else if value != "" {
			r.Header.Add(name, value)
		}
	}
	return r
}

// send makes the request, and reads the answer to its end.
func (w *web) send(a ask) answer {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	response, err := w.client.Do(w.request(ctx, a))
	require.NoError(w.t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	require.NoError(w.t, err)
	return answer{t: w.t, status: response.StatusCode, header: response.Header, body: string(body)}
}

// start makes the request and does not wait. hangUp has the client vanish.
func (w *web) start(a ask) (hangUp func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	request, gone := w.request(ctx, a), make(chan struct{})
	go func() {
		defer close(gone)
		if response, err := w.client.Do(request); err == nil {
			_ = response.Body.Close()
		}
	}()
	hangUp = func() { cancel(); <-gone }
	w.t.Cleanup(hangUp)
	return hangUp
}

// cancellations are what the server was told to give up, before this was asked.
func (w *web) cancellations() (all []string) {
	w.t.Helper()
	w.send(visiting("prompts/list", "", "")) // it comes behind all that was said
	for _, m := range w.server.notified() {
		if strings.Contains(m, `"notifications/cancelled"`) {
			all = append(all, m)
		}
	}
	return all
}

// A feed is a response that is read while it comes.
type feed struct {
	t      testing.TB
	header http.Header
	status int
	events chan jsonrpc.Message
	hangUp func() // by the client; waits until nothing is left
}

// open makes the request, and returns when the header of the answer has come.
func (w *web) open(a ask) *feed {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	response, err := w.client.Do(w.request(ctx, a))
	require.NoError(w.t, err)
	f := &feed{t: w.t, header: response.Header, status: response.StatusCode, events: make(chan jsonrpc.Message, 1000)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(f.events)
		defer func() { _ = response.Body.Close() }()
		lines := bufio.NewScanner(response.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				if m, err := jsonrpc.Parse([]byte(data)); assert.NoError(w.t, err, data) {
					f.events <- m
				}
			}
		}
	}()
	f.hangUp = func() { cancel(); <-read }
	w.t.Cleanup(f.hangUp)
	return f
}

func (f *feed) next() jsonrpc.Message {
	f.t.Helper()
	return receive(f.t, f.events, "an event")
}

// ends waits until the server has ended the stream, and returns what came before.
func (f *feed) ends() (rest []string) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		select {
		case m, ok := <-f.events:
			if !ok {
				return rest
			}
			rest = append(rest, string(m.Raw()))
		case <-ctx.Done():
			f.t.Fatal("the stream does not end")
		}
	}
}

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":` + hello + `}`

// enter shakes hands and returns the header of the session.
func (w *web) enter(header ...string) []string {
	w.t.Helper()
	a := w.send(post(initialize, header...))
	require.Equal(w.t, http.StatusOK, a.status, a.body)
	require.NotNil(w.t, a.message().Result, a.body)
	id := a.header.Get("Mcp-Session-Id")
	require.NotEmpty(w.t, id)
	session := append([]string{"Mcp-Session-Id", id, "MCP-Protocol-Version", "2025-06-18"}, header...)
	require.Equal(w.t, http.StatusAccepted, w.send(post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, session...)).status)
	return session
}

// calling is a tools/call of the legacy era; arguments is a JSON object.
func calling(id, tool, arguments string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments + `}}`
}

const preamble = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"visitor","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}`

// visiting is a request of the modern era with the headers that belong to it; params
// are the members beside _meta.
func visiting(method, params, name string) ask {
	if params != "" {
		params += ","
	}
	a := post(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+params+`"_meta":{`+preamble+`}}}`,
		"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method)
	if name != "" {
		a = a.with("Mcp-Name", name)
	}
	return a
}

func visitingTool(tool, arguments string) ask {
	return visiting("tools/call", `"name":"`+tool+`","arguments":`+arguments, tool)
}

func command(path string) upstream.Command { return upstream.Command{Name: "shop", Path: path} }
