package upstream_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/upstream"
)

// TestServerOfAnSDKIsSpokenWith holds that what is written here is what somebody
// else's server understands, and the reverse.
func TestServerOfAnSDKIsSpokenWith(t *testing.T) {
	t.Parallel()
	streamable := func(options ...server.StreamableHTTPOption) func(*server.MCPServer) http.Handler {
		return func(s *server.MCPServer) http.Handler { return server.NewStreamableHTTPServer(s, options...) }
	}
	for _, c := range []struct {
		name      string
		era       upstream.Era
		transport func(*server.MCPServer) http.Handler
		path      string
		found     upstream.Era
	}{
		{"auto", upstream.EraAuto, streamable(), "/mcp", upstream.EraModern},
		{"legacy", upstream.EraLegacy, streamable(), "/mcp", upstream.EraLegacy},
		{"legacy without sessions", upstream.EraLegacy, streamable(server.WithStateLess(true)), "/mcp", upstream.EraLegacy},
		{"modern", upstream.EraModern, streamable(), "/mcp", upstream.EraModern},
		{"events", upstream.EraAuto, func(s *server.MCPServer) http.Handler { return server.NewSSEServer(s) }, "/sse", upstream.EraLegacy},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			shop := server.NewMCPServer("shop", "1", server.WithToolCapabilities(true), server.WithLogging())
			var effects atomic.Int64
			tool := mcp.NewToolWithRawSchema("pay", "pays", []byte(`{"type":"object","properties":{"to":{"type":"string","x-mcp-header":"To"}}}`))
			shop.AddTool(tool, func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				effects.Add(1)
				_ = server.ServerFromContext(ctx).SendNotificationToClient(ctx, "notifications/progress", map[string]any{"progressToken": "p", "progress": 1})
				return mcp.NewToolResultText("paid " + r.GetString("to", "nobody")), nil
			})
			site := httptest.NewServer(c.transport(shop))
			t.Cleanup(func() { site.CloseClientConnections(); site.Close() })
			v := dial(t, upstream.Endpoint{URL: site.URL + c.path}, func(o *upstream.Options) { o.Era = c.era })
			session := v.ready()
			assert.Equal(t, c.found, next(t, v.eras))

			list, err := v.ask(session, jsonrpc.Request([]byte("1"), "tools/list", nil))
			require.NoError(t, err)
			assert.Contains(t, string(list.Result), `"x-mcp-header":"To"`)
			for range 3 {
				answer, err := v.ask(session, toolCall("1", "pay", `{"to":"zo\u00eb"}`))
				require.NoError(t, err)
				assert.Contains(t, string(answer.Result), "paid zoë", "%s", answer.Raw())
			}
			assert.EqualValues(t, 3, effects.Load())
			answer, err := v.ask(session, jsonrpc.Request([]byte("1"), "no/such", nil))
			require.NoError(t, err)
			assert.Contains(t, string(answer.Error), "-32601")
			pong, err := v.ask(session, jsonrpc.Request([]byte("1"), "ping", nil))
			require.NoError(t, err)
			assert.Equal(t, "{}", string(pong.Result))
		})
	}
}
