package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTicked(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		said string
		want map[string]bool
	}{
		"Claude Code, behind the command": {
			said: "Checking MCP server health…\n\n" +
				"stdio: /tmp/mcp-idem wrap -- ./server - ✔ Connected\n" +
				"http: http://127.0.0.1:1/mcp (HTTP) - ✔ Connected\n" +
				"token: http://127.0.0.1:2/mcp (HTTP) - ✘ Failed to connect — Server rejected the configured Authorization header (HTTP 401)\n" +
				"project: ./server - ⏸ Pending approval (run `claude` to approve)\n",
			want: map[string]bool{"stdio": true, "http": true},
		},
		"Gemini CLI, before the name": {
			said: "Configured MCP servers:\n\n" +
				"✓ stdio: /tmp/mcp-idem wrap -- ./server (stdio) - Connected\n" +
				"✗ http: http://127.0.0.1:1/mcp (http) - Disconnected\n" +
				"○ token: http://127.0.0.1:2/mcp (http) - Disabled\n",
			want: map[string]bool{"stdio": true},
		},
		"opencode, in colours and boxes": {
			said: "\x1b[0m\n┌  MCP Servers\n│\n" +
				"●  ✓ stdio \x1b[90mconnected\n│      \x1b[90m/tmp/mcp-idem wrap -- ./server\n│\n" +
				"●  ⚠ token \x1b[90mneeds authentication\n│      \x1b[90mhttp://127.0.0.1:2/mcp\n│\n" +
				"●  ✗ http \x1b[90mfailed\n└  3 server(s)\n",
			want: map[string]bool{"stdio": true},
		},
		"no server": {said: "No MCP servers configured.\n", want: map[string]bool{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, ticked(test.said))
		})
	}
}

func TestWithTools(t *testing.T) {
	t.Parallel()
	connected, err := withTools(strings.NewReader(`{"id":1,"result":{"userAgent":"x"}}
{"method":"mcpServer/startupStatus/updated","params":{"name":"stdio","status":"ready"}}
{"id":2,"result":{"data":[{"name":"stdio","tools":{"refund":{}}},{"name":"token","tools":{},"toolsError":"not logged in"}],"nextCursor":null}}
`))
	require.NoError(t, err)
	assert.Equal(t, map[string]bool{"stdio": true, "token": false}, connected)

	_, err = withTools(strings.NewReader(`{"id":1,"result":{}}` + "\n"))
	assert.ErrorContains(t, err, "no list of servers", "the app server has ended")
}

func TestOffered(t *testing.T) {
	t.Parallel()
	request := `{"model":"m","tools":[{"type":"function","function":{"name":"bash"}},{"type":"function","function":{"name":"stdio-refund"}},{"type":"function","function":{"name":"http-list_refunds"}}]}`
	assert.Equal(t, []string{"stdio", "http"}, offered(strings.NewReader(request)))
	assert.Empty(t, offered(strings.NewReader("")), "a request without a body")
}

func TestFill(t *testing.T) {
	t.Parallel()
	command := []string{"/bin/mcp-idem", "wrap", "--", "server"}
	assert.Equal(t, []string{"add", "stdio", "/bin/mcp-idem", "--", "wrap", "--", "server"},
		fill([]string{"add", "NAME", "COMMAND", "--", "ARGS"}, "stdio", "", command))
	assert.Equal(t, []string{"add", "http", "http://x/mcp"}, fill([]string{"add", "NAME", "URL"}, "http", "http://x/mcp", command))
}

func TestAddress(t *testing.T) {
	t.Parallel()
	got, err := address(strings.NewReader(`{"message":"starting","ledger":"x"}
{"address":"http://127.0.0.1:7423/mcp","message":"listening"}
`))
	require.NoError(t, err)
	assert.Equal(t, "http://127.0.0.1:7423/mcp", got)

	_, err = address(strings.NewReader("mcp-idem: the port is taken\n"))
	assert.ErrorContains(t, err, "does not listen")
}
