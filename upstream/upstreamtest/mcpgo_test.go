package upstreamtest

import (
	"context"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAClientOfMCPGo lets a client that is not ours use a server without faults.
func TestAClientOfMCPGo(t *testing.T) {
	t.Parallel()
	for era, version := range map[string]string{legacy: "2025-06-18", modern: "2026-07-28", both: "2026-07-28", sse: "2025-06-18"} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			r := serve(t, "--era", era, "--fault", "send_mail:do=ask:sure?", "--fault", "note_set:do=progress:2")
			var wire transport.Interface
			var err error
			want := 3
			if era == sse {
				want = 2
				wire, err = transport.NewSSE(r.base + "/mcp")
			} else {
				wire, err = transport.NewStreamableHTTP(r.base + "/mcp")
			}
			require.NoError(t, err)
			c := client.NewClient(wire, client.WithElicitationHandler(accepts{}))
			require.NoError(t, c.Start(t.Context()))
			t.Cleanup(func() { assert.NoError(t, c.Close()) })
			hello := mcp.InitializeRequest{}
			hello.Params.ProtocolVersion = mcp.LATEST_PROTOCOL_VERSION
			hello.Params.ClientInfo = mcp.Implementation{Name: "x", Version: "1"}
			_, err = c.Initialize(t.Context(), hello)
			require.NoError(t, err)
			assert.Equal(t, version, c.ProtocolVersion())

			tools, err := c.ListTools(t.Context(), mcp.ListToolsRequest{})
			require.NoError(t, err)
			assert.Len(t, tools.Tools, 6)
			for _, tool := range []string{"refund", "send_mail", "note_set"} {
				if era == sse && tool == "send_mail" {
					continue // this client cannot be asked there
				}
				call := mcp.CallToolRequest{}
				call.Params.Name = tool
				result, err := c.CallTool(t.Context(), call)
				require.NoError(t, err, tool)
				assert.False(t, result.IsError, tool)
			}
			effects, err := Effects(r.effects)
			require.NoError(t, err)
			assert.Len(t, effects, want)
		})
	}
}

type accepts struct{}

// Elicit is part of client.ElicitationHandler.
func (accepts) Elicit(context.Context, mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{Action: mcp.ElicitationResponseActionAccept, Content: map[string]any{}}}, nil
}
