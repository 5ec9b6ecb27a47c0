package gateway_test

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/gateway"
	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// A client speaks with a gateway over pipes. It is safe for concurrent use.
type client struct {
	t                 *testing.T
	stdin             *io.PipeWriter
	stdout            *io.PipeReader
	in                *jsonrpc.Writer
	shut              context.CancelFunc // ends ServeStdio as a signal would
	served            chan struct{}      // closed when ServeStdio has returned
	err               error              // what it returned
	read              chan struct{}      // closed when its output is read
	listening, closed sync.Once

	mu      sync.Mutex
	lastID  int
	waiting map[string]chan jsonrpc.Message
	others  chan jsonrpc.Message // what answers no request of ours
	schemas schemas              // of the outputs, as they were offered last
	called  int                  // tools/call that were sent
}

// serve lets a gateway serve a client that has not said anything yet, nor reads.
func serve(t *testing.T, g *gateway.Gateway) *client {
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
		c.err = g.ServeStdio(ctx, in, out)
		_ = out.Close()
		_ = in.Close()
	}()
	return c
}

// listen reads what the gateway says, from now on.
func (c *client) listen() {
	c.listening.Do(func() { go c.readAll() })
}

func (c *client) readAll() {
	defer close(c.read)
	defer close(c.others)
	lines := jsonrpc.NewReader(c.stdout, 64<<20)
	for {
		line, err := lines.Next()
		if err != nil {
			return
		}
		m, err := jsonrpc.Parse(line)
		if assert.NoError(c.t, err) {
			c.take(m)
		}
	}
}

func (c *client) take(m jsonrpc.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := jsonrpc.IDKey(m.ID)
	if answer := c.waiting[key]; m.IsResponse() && answer != nil {
		delete(c.waiting, key)
		answer <- m
		return
	}
	c.others <- m
}

// greet shakes hands and reads the tools.
func (c *client) greet() {
	c.t.Helper()
	c.shake()
	c.list()
}

// shake shakes hands.
func (c *client) shake() {
	c.t.Helper()
	require.NotNil(c.t, c.request("initialize", hello).wait().Result)
	c.notify("notifications/initialized", "")
}

const hello = `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}`

// A pending request is one that was sent.
type pending struct {
	client *client
	id     []byte
	tool   string
	answer chan jsonrpc.Message
}

// request sends a request; params may be empty.
func (c *client) request(method, params string) *pending {
	c.t.Helper()
	c.mu.Lock()
	c.lastID++
	p := &pending{client: c, id: []byte(strconv.Itoa(c.lastID)), answer: make(chan jsonrpc.Message, 1)}
	c.waiting[jsonrpc.IDKey(p.id)] = p.answer
	c.mu.Unlock()
	require.NoError(c.t, c.in.Write(jsonrpc.Request(p.id, method, []byte(params))))
	return p
}

func (c *client) notify(method, params string) {
	c.t.Helper()
	require.NoError(c.t, c.in.Write(jsonrpc.Notification(method, []byte(params))))
}

// wait is the response.
func (p *pending) wait() jsonrpc.Message {
	p.client.t.Helper()
	return receive(p.client.t, p.answer, "the response to "+string(p.id))
}

// cancel says that nobody wants the response any more.
func (p *pending) cancel() {
	p.client.t.Helper()
	p.client.notify("notifications/cancelled", fmt.Sprintf(`{"requestId":%s,"reason":"the test says so"}`, p.id))
}

// requireUnanswered makes sure that what the gateway has said until now was no
// response.
func (p *pending) requireUnanswered() {
	p.client.t.Helper()
	p.client.request("ping", "").wait()
	select {
	case m := <-p.answer:
		p.client.t.Fatalf("a response to a request that was cancelled: %s", m.Raw())
	default:
	}
}

// start calls a tool. A meta that is empty is left out.
func (c *client) start(tool, arguments, meta string) *pending {
	c.t.Helper()
	params := fmt.Sprintf(`{"name":%s,"arguments":%s`, rawjson.Quote(tool), arguments)
	if meta != "" {
		params += `,"_meta":` + meta
	}
	p := c.request("tools/call", params+"}")
	p.tool = tool
	c.mu.Lock()
	defer c.mu.Unlock()
	c.called++
	return p
}

// calls is how many calls were sent.
func (c *client) calls() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.called
}

// call calls a tool and returns the result, of which it is certain that it has a
// lawful shape.
func (c *client) call(tool, arguments string) reply {
	c.t.Helper()
	return c.start(tool, arguments, "").reply()
}

// list reads all pages of the tools, and remembers what results must look like.
func (c *client) list() (pages []string) {
	c.t.Helper()
	c.schemas = schemas{}
	for params := ""; ; {
		m := c.request("tools/list", params).wait()
		require.Nil(c.t, m.Error, "%s", m.Error)
		pages = append(pages, string(m.Result))
		cursor := c.schemas.add(c.t, m.Result)
		if cursor == "" {
			return pages
		}
		params = fmt.Sprintf(`{"cursor":%s}`, rawjson.Quote(cursor))
	}
}

// close ends the session from the client's side, and returns what else the
// gateway had said.
func (c *client) close() (others []jsonrpc.Message) {
	c.t.Helper()
	c.closed.Do(func() {
		c.listen() // else the last words would be waited with
		_ = c.stdin.Close()
		<-c.served
		assert.NoError(c.t, c.err)
		<-c.read
	})
	for m := range c.others {
		others = append(others, m)
	}
	return others
}
