package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"sync"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

// maxLine is the longest line that a gateway may write.
const maxLine = 1 << 20

// A stdioClient speaks JSON-RPC with a process. It is safe for concurrent use.
type stdioClient struct {
	in     io.WriteCloser
	writer *jsonrpc.Writer
	lines  *jsonrpc.Reader
	exited <-chan struct{}

	mu    sync.Mutex
	last  int
	calls map[string]chan jsonrpc.Message // with room for one answer, by jsonrpc.IDKey
}

func newStdioClient(in io.WriteCloser, out io.Reader, exited <-chan struct{}) *stdioClient {
	return &stdioClient{
		in: in, writer: jsonrpc.NewWriter(in), lines: jsonrpc.NewReader(out, maxLine),
		exited: exited, calls: map[string]chan jsonrpc.Message{},
	}
}

// read hands answers on until the process has no more to say.
func (c *stdioClient) read() {
	for {
		line, err := c.lines.Next()
		if err != nil {
			return
		}
		m, err := jsonrpc.Parse(line)
		if err != nil || !m.IsResponse() {
			continue
		}
		c.mu.Lock()
		key := jsonrpc.IDKey(m.ID)
		if waiting := c.calls[key]; waiting != nil {
			delete(c.calls, key)
			waiting <- m
		}
		c.mu.Unlock()
	}
}

func (c *stdioClient) introduce() error {
	m, err := c.ask(context.Background(), "initialize", []byte(`{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"sim","version":"1"}}`))
	if err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	if m.Error != nil {
		return fmt.Errorf("initialize was answered with %s", m.Error)
	}
	return c.writer.Write(jsonrpc.Notification("notifications/initialized", nil))
}

func (c *stdioClient) call(ctx context.Context, arguments []byte) ([]byte, error) {
	m, err := c.ask(ctx, "tools/call", fmt.Appendf(nil, `{"name":%q,"arguments":%s}`, tool, arguments))
	if err != nil {
		return nil, err
	}
	if m.Error != nil {
		return nil, fmt.Errorf("a call was answered with the error %s", m.Error)
	}
	return m.Result, nil
}

// ask sends a request and waits for its response. Who gives up says so.
func (c *stdioClient) ask(ctx context.Context, method string, params []byte) (jsonrpc.Message, error) {
	answer := make(chan jsonrpc.Message, 1)
	c.mu.Lock()
	c.last++
	id := []byte(strconv.Itoa(c.last))
	c.calls[jsonrpc.IDKey(id)] = answer
	c.mu.Unlock()
	if err := c.writer.Write(jsonrpc.Request(id, method, params)); err != nil {
		return jsonrpc.Message{}, errLost // in part it may have been written
	}
	select {
	case m := <-answer:
		return m, nil
	case <-ctx.Done():
		_ = c.writer.Write(jsonrpc.Notification("notifications/cancelled", fmt.Appendf(nil, `{"requestId":%s}`, id)))
		return jsonrpc.Message{}, errLost
	case <-c.exited:
	}
	select {
	case m := <-answer:
		return m, nil
	default:
		return jsonrpc.Message{}, errLost
	}
}

func (c *stdioClient) close() { _ = c.in.Close() }
