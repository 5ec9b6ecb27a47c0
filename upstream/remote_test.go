package upstream_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/upstream"
)

func TestLegacyServerIsSpokenWithInASession(t *testing.T) {
	t.Parallel()
	s := newSite(t, legacy())
	v := call(t, s, nil)
	session := v.ready()
	answer, err := v.pays(session)
	require.NoError(t, err)
	assert.Equal(t, `{"jsonrpc":"2.0","id":"c-1","result":`+toolResult+`}`, string(answer.Raw()))
	assert.Equal(t, upstream.EraLegacy, next(t, v.eras))

	opening := s.got("initialize")
	require.Len(t, opening, 1)
	assert.Equal(t, legacyClient, string(opening[0].m.Params))
	assert.Empty(t, opening[0].header.Get("Mcp-Protocol-Version"))
	for _, name := range []string{"notifications/initialized", "tools/call"} {
		visits := s.got(name)
		require.Len(t, visits, 1, name)
		assert.Equal(t, "session-1", visits[0].header.Get("Mcp-Session-Id"), name)
		assert.Equal(t, "2025-06-18", visits[0].header.Get("Mcp-Protocol-Version"), name)
		assert.Equal(t, "application/json, text/event-stream", visits[0].header.Get("Accept"), name)
		assert.Equal(t, "application/json", visits[0].header.Get("Content-Type"), name)
	}
	assert.JSONEq(t, `{"name":"pay","arguments":{"n":9007199254740993}}`, string(s.got("tools/call")[0].m.Params))
	require.NoError(t, v.Close(v.ctx()))
	require.Len(t, s.got("DELETE"), 1)
	assert.Equal(t, "session-1", s.got("DELETE")[0].header.Get("Mcp-Session-Id"))
}

func TestModernServerIsSpokenWithWithoutASession(t *testing.T) {
	t.Parallel()
	s := newSite(t, modern())
	v := call(t, s, nil)
	m, err := v.Initialize(v.ctx(), []byte(clientParams))
	require.NoError(t, err)
	assert.Equal(t, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"logging":{}},`+
		`"serverInfo":{"name":"site","version":"7"},"instructions":"be \u0062rief"}`, string(m.Result))
	require.NoError(t, v.Initialized(jsonrpc.Notification("notifications/initialized", nil)))
	assert.Equal(t, upstream.EraModern, next(t, v.eras))

	answer, err := v.pays(v.again())
	require.NoError(t, err)
	assert.Equal(t, `{"jsonrpc":"2.0","id":"c-1","result":`+toolResult+`}`, string(answer.Raw()))
	calls := s.got("tools/call")
	require.Len(t, calls, 1)
	assert.Equal(t, `{"name":"pay","arguments":{"n":9007199254740993},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}`, string(calls[0].m.Params))
	for header, value := range map[string]string{
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "pay", "Mcp-Session-Id": "", "User-Agent": "mcp-idem",
	} {
		assert.Equal(t, value, calls[0].header.Get(header), header)
	}
	assert.Empty(t, s.got("initialize"))
	assert.Empty(t, s.got("notifications/initialized"))
	require.NoError(t, v.Close(v.ctx()))
	assert.Empty(t, s.got(http.MethodDelete))
}
