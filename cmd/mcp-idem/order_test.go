package main

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

const (
	hello       = `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"order","version":"1"}}}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

// TestOrderTowardsTheServer has a client write everything at once, so that nothing
// but the gateway keeps it in order.
func TestOrderTowardsTheServer(t *testing.T) {
	t.Parallel()
	w := startWire(t, nil)
	requests, want := pipelined(`{"jsonrpc":"2.0","id":%[1]d,"method":"prompts/get","params":{"name":"p%[1]d"}}`, "prompts/get p%d")
	early := `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`
	w.write(w.client, append([]string{hello, early, initialized}, requests...)...)
	require.Equal(t, "initialize", subject(t, w.heard()), "what comes first")
	w.write(w.server, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"prompts":{}},"serverInfo":{"name":"order","version":"1"}}}`)
	w.hears(append([]string{"notifications/roots/list_changed", "notifications/initialized"}, want...))

	// Once the tools are known, the calls of readers are in line too.
	w.write(w.client, `{"jsonrpc":"2.0","id":"list","method":"tools/list"}`)
	w.write(w.server, string(jsonrpc.Result(w.heard().ID, manyReaders()).Raw()))
	for !strings.Contains(w.next(w.fromGateway, 0), `"id":"list"`) {
	}
	requests, want = pipelined(`{"jsonrpc":"2.0","id":"%[1]d","method":"tools/call","params":{"name":"get_%[1]d"}}`, "tools/call get_%d")
	w.write(w.client, requests...)
	w.hears(want)
}

// TestOrderTowardsTheClient has a server write a notification right behind each
// response.
func TestOrderTowardsTheClient(t *testing.T) {
	t.Parallel()
	w := startWire(t, nil)
	w.handshake([]byte(`[{"name":"get_balance","inputSchema":{"type":"object"}}]`))
	for n := range 200 {
		request := `{"jsonrpc":"2.0","id":%d,"method":"prompts/get","params":{"name":"p"}}`
		if n%2 == 1 {
			request = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"get_balance"}}`
		}
		w.write(w.client, fmt.Sprintf(request, n))
		w.write(w.server, string(jsonrpc.Result(w.heard().ID, []byte(`{"content":[]}`)).Raw()),
			fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/n%d"}`, n))
		require.Contains(t, w.next(w.fromGateway, n), fmt.Sprintf(`"id":%d,"result"`, n))
		require.Contains(t, w.next(w.fromGateway, n), fmt.Sprintf("notifications/n%d", n))
	}
	w.finish()
}

// together is how many requests a client writes at once.
const together = 50

// pipelined are requests with a notification behind each, and what the server has
// to hear of them.
func pipelined(request, heard string) (lines, want []string) {
	for n := range together {
		lines = append(lines, fmt.Sprintf(request, n), fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/n%d"}`, n))
		want = append(want, fmt.Sprintf(heard, n), fmt.Sprintf("notifications/n%d", n))
	}
	return lines, want
}

// manyReaders is a page of tools without an effect: get_0, get_1 and so on.
func manyReaders() []byte {
	var tools []string
	for n := range together {
		tools = append(tools, fmt.Sprintf(`{"name":"get_%d","inputSchema":{"type":"object"}}`, n))
	}
	return fmt.Appendf(nil, `{"tools":[%s]}`, strings.Join(tools, ","))
}

// write writes lines to one of the ends, in one piece.
func (w *wire) write(end io.Writer, lines ...string) {
	w.t.Helper()
	_, err := io.WriteString(end, strings.Join(lines, "\n")+"\n")
	require.NoError(w.t, err)
}

// heard is the next message that the server gets.
func (w *wire) heard() jsonrpc.Message {
	w.t.Helper()
	w.upstream()
	m, err := jsonrpc.Parse([]byte(w.next(w.fromServerEnd, 0)))
	require.NoError(w.t, err)
	return m
}

// hears asserts what the server gets, in order.
func (w *wire) hears(want []string) {
	w.t.Helper()
	var got []string
	for range want {
		got = append(got, subject(w.t, w.heard()))
	}
	require.Equal(w.t, want, got)
}

// subject is a message's method, with the name in its params where there is one.
func subject(t *testing.T, m jsonrpc.Message) string {
	t.Helper()
	if m.Params == nil {
		return m.Method
	}
	params, err := rawjson.ParseObject(m.Params)
	require.NoError(t, err)
	name, _ := params.String("name")
	return strings.TrimSpace(m.Method + " " + name)
}
