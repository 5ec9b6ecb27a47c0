package upstream_test

import (
	"context"
	"os"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/upstream"
	"github.com/mcp-idem/mcp-idem/upstream/upstreamtest"
)

// sdkWord is the first argument by which the test binary knows that it is to be a
// server of an SDK on its standard input and output.
const sdkWord = "server-of-an-sdk"

// serveSDK is that server, where the command line asks for it.
func serveSDK() {
	if len(os.Args) < 2 || os.Args[1] != sdkWord {
		return
	}
	shop := server.NewMCPServer("shop", "1", server.WithToolCapabilities(true), server.WithLogging())
	shop.AddTool(mcp.NewTool("pay", mcp.WithString("to")), func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		shop.AddTool(mcp.NewTool("refund"), nil) // which the client is told
		return mcp.NewToolResultText("paid " + r.GetString("to", "nobody")), nil
	})
	if server.ServeStdio(shop) != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// TestProcessOfAnSDKIsSpokenWith is TestServerOfAnSDKIsSpokenWith for a process.
func TestProcessOfAnSDKIsSpokenWith(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ era, found upstream.Era }{
		{upstream.EraAuto, upstream.EraModern},
		{upstream.EraLegacy, upstream.EraLegacy},
		{upstream.EraModern, upstream.EraModern},
	} {
		t.Run(string(c.era), func(t *testing.T) {
			t.Parallel()
			const many = 100
			r := &rig{
				t: t, notifications: make(chan jsonrpc.Message, many), stderr: make(chan string, many), strays: make(chan jsonrpc.Message, many),
				junk: make(chan string, many), eras: make(chan upstream.Era, many), exits: make(chan error, many),
			}
			o := r.limits()
			o.Era = c.era
			self, err := os.Executable()
			require.NoError(t, err)
			r.Process, err = upstream.Start(upstream.Command{Name: "shop", Path: self, Args: []string{sdkWord}, Env: upstreamtest.Env()}, o)
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, r.Close(context.Background())) })
			s := r.ready()
			assert.Equal(t, c.found, next(t, r.eras))
			assert.Contains(t, string(r.ask(s, jsonrpc.Request([]byte("1"), "tools/list", nil)).Result), `"pay"`)
			assert.Contains(t, string(r.ask(s, toolCall("2", "pay", `{"to":"zo\u00eb"}`)).Result), "paid zoë")
			assert.Equal(t, "notifications/tools/list_changed", next(t, r.notifications).Method)
			assert.Contains(t, string(r.ask(s, jsonrpc.Request([]byte("3"), "no/such", nil)).Error), "-32601")
			assert.Equal(t, "{}", string(r.ask(s, jsonrpc.Request([]byte("4"), "ping", nil)).Result))
			assert.Empty(t, r.strays)
			assert.Empty(t, r.junk)
		})
	}
}

// TestLegacyClientGetsItsOwnEraOfAProcess: what it can be asked in the middle of a
// call there, it cannot be asked in the other one.
func TestLegacyClientGetsItsOwnEraOfAProcess(t *testing.T) {
	t.Parallel()
	const params = `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`
	for server, asked := range map[string]int{"legacy": 0, "both": 0, "modern": 1} {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			r := runAuto(t, nil, "--era", server)
			m, err := r.Initialize(r.ctx(), []byte(params))
			require.NoError(t, err)
			require.NotNil(t, m.Result)
			assert.Len(t, r.received("initialize"), 1)
			assert.Len(t, r.received("server/discover"), asked)
			assert.Len(t, r.eras, asked, "what was not tried was not found")
		})
	}
}
