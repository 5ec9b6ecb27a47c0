package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/gateway"
	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/upstream"
	"github.com/mcp-idem/mcp-idem/upstream/upstreamtest"
)

// A troupe is several servers that the test speaks for, on one ledger.
type troupe struct {
	*rig
	t         *testing.T
	actors    []*actor
	lateAfter time.Duration
}

// An actor is one of them. It notes the requests that it gets, but for tools/list and
// tools/call, which the server counts.
type actor struct {
	*server
	name  string
	heard *notes
	dial  upstream.Dialer
}

// notes are lines that come from several goroutines.
type notes struct {
	mu    sync.Mutex
	lines []string
}

func (n *notes) add(line string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, line)
}

func (n *notes) all() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.lines)
}

// toolNamed is a list of one tool with side effects.
func toolNamed(name string) string {
	return `[{"name":"` + name + `","inputSchema":{"type":"object"}}]`
}

const fullHandshake = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"prompts":{},"resources":{"subscribe":true},"logging":{},"completions":{},"tasks":{"list":{},"cancel":{}}},` +
	`"serverInfo":{"name":"full","version":"1"},"instructions":"Be full."}`

// newTroupe makes servers that can do everything, each with a tool that refunds.
func newTroupe(t *testing.T, names ...string) *troupe {
	t.Helper()
	c := &troupe{rig: prepare(t, refundTool, nil), t: t}
	t.Cleanup(func() { // behind all fronts, also for those that are added later
		for _, a := range c.actors {
			a.close()
		}
	})
	for _, name := range names {
		c.add(name, refundTool)
	}
	return c
}

// add makes a further server, which is not one of the front's yet.
func (c *troupe) add(name, tools string) *actor {
	c.t.Helper()
	a := &actor{server: newServer(c.t, tools), name: name, heard: &notes{}}
	self, err := os.Executable()
	require.NoError(c.t, err)
	a.dial = gateway.Local(upstream.Command{Name: name, Path: self, Args: []string{handsOver, a.listener.Addr().String()}, Env: upstreamtest.Env()})
	a.greet = func(call *call) {
		a.heard.add("initialize")
		call.answer(fullHandshake)
	}
	c.actors = append(c.actors, a)
	return a
}

// actor is the server of a name.
func (c *troupe) actor(name string) *actor {
	for _, a := range c.actors {
		if a.name == name {
			return a
		}
	}
	c.t.Fatalf("there is no server %s", name)
	return nil
}

// upstreams are the options of the servers as they are now. edit may be nil.
func (c *troupe) upstreams(edit func(string, *gateway.Options)) (all []gateway.Options) {
	for _, a := range c.actors {
		o := c.rig.options
		o.Name, o.Digest, o.Dial = a.name, "1", a.dial
		o.Scope.Upstream = a.name
		if edit != nil {
			edit(a.name, &o)
		}
		all = append(all, o)
	}
	return all
}

// answers has a method be answered with a result, and noted.
func (a *actor) answers(method, result string) {
	a.does(method, func(c *call) { c.answer(result) })
}

// does has a method be noted, and handled.
func (a *actor) does(method string, do func(*call)) {
	a.on(method, func(c *call) {
		a.heard.add(method + " " + string(c.m.Params))
		do(c)
	})
}

// got are the requests of a method that came.
func (a *actor) got(method string) (all []string) {
	for _, line := range a.heard.all() {
		if strings.HasPrefix(line, method) {
			all = append(all, line)
		}
	}
	return all
}

// A play is a front that serves one client on stdio.
type play struct {
	*troupe
	*client
	t     *testing.T
	front *gateway.Front
}

// frontOptions are those of every front here.
func (c *troupe) frontOptions() gateway.FrontOptions {
	return gateway.FrontOptions{Version: "test", DrainFor: patience, LateAfter: c.lateAfter, Log: zerolog.New(c.log)}
}

// begin serves a client of all servers, which has not said anything yet.
func (c *troupe) begin(edit func(string, *gateway.Options)) *play {
	c.t.Helper()
	p := &play{troupe: c, t: c.t, front: gateway.NewFront(c.ledger, c.frontOptions())}
	require.NoError(c.t, p.front.Replace(c.upstreams(edit)))
	p.client = serveBy(c.t, p.front.ServeStdio)
	c.t.Cleanup(func() { p.client.close() })
	p.client.listen()
	return p
}

// perform serves a client that has shaken hands.
func (c *troupe) perform(edit func(string, *gateway.Options)) *play {
	c.t.Helper()
	p := c.begin(edit)
	p.shake()
	return p
}

// serveBy is serve for whatever serves a client on stdio.
func serveBy(t *testing.T, by func(context.Context, io.Reader, io.Writer) error) *client {
	in, stdin := io.Pipe()
	stdout, out := io.Pipe()
	ctx, shut := context.WithCancel(context.Background())
	c := &client{
		t: t, stdin: stdin, stdout: stdout, in: jsonrpc.NewWriter(stdin), shut: shut,
		served: make(chan struct{}), read: make(chan struct{}),
		waiting: map[string]chan jsonrpc.Message{}, others: make(chan jsonrpc.Message, 10_000), schemas: schemas{},
	}
	go func() {
		defer close(c.served)
		defer shut()
		c.err = by(ctx, in, out)
		_ = out.Close()
		_ = in.Close()
	}()
	return c
}

// result is that of a request.
func (p *play) result(method, params string) string {
	p.t.Helper()
	m := p.request(method, params).wait()
	require.Nil(p.t, m.Error, "%s: %s", method, m.Error)
	return string(m.Result)
}

// refusal is the error of a request.
func (p *play) refusal(method, params string) *jsonrpc.Error {
	p.t.Helper()
	m := p.request(method, params).wait()
	e, ok := jsonrpc.ParseError(m.Error)
	require.True(p.t, ok, "%s: %s", method, m.Raw())
	return e
}

// awaits waits until the client hears a message of a method, and returns it.
func (p *play) awaits(method string) jsonrpc.Message {
	p.t.Helper()
	for {
		if m := receive(p.t, p.others, method); m.Method == method {
			return m
		}
	}
}

// awaitTools asks for the tools whenever they change, until they hold a text.
func (p *play) awaitTools(text string) string {
	p.t.Helper()
	for {
		if tools := p.result("tools/list", ""); strings.Contains(tools, text) {
			return tools
		}
		p.awaits(listChanged)
	}
}

// web serves all servers by HTTP. each may be nil.
func (c *troupe) web(edit func(*gateway.HTTPOptions), each func(string, *gateway.Options)) (*web, *gateway.HTTPFront) {
	c.t.Helper()
	options := gateway.HTTPOptions{DrainFor: patience, Version: "test"}
	if edit != nil {
		edit(&options)
	}
	gate := gateway.NewHTTPFront(c.ledger, c.frontOptions(), options, "tester")
	require.NoError(c.t, gate.Replace(c.upstreams(each)))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(c.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- gate.Serve(ctx, l) }()
	w := &web{rig: c.rig, t: c.t, base: "http://" + l.Addr().String(), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}}
	var once sync.Once
	w.shut = func() (err error) {
		once.Do(func() {
			cancel()
			err = receive(c.t, served, "the end of Serve")
		})
		return err
	}
	c.t.Cleanup(func() {
		assert.NoError(c.t, w.shut())
		w.client.CloseIdleConnections()
	})
	return w, gate
}

// keyed are the arguments of a call with a key, for an order of its own.
func keyed(key string) string {
	return fmt.Sprintf(`{"order":%q,"idempotency_key":"refund:%s:1"}`, key, key)
}
