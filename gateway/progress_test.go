package gateway

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

func progressNote(token string) jsonrpc.Message {
	return jsonrpc.Notification("notifications/progress", fmt.Appendf(nil, `{"total":1e2, "progressToken":%s,"progress":1}`, token))
}

func TestProgressFindsItsCaller(t *testing.T) {
	t.Parallel()
	var p progress
	var heard []string
	renewed := 0
	ask := func(token string) (sent string, stop func()) {
		request := jsonrpc.Request([]byte("1"), "tools/call", fmt.Appendf(nil, `{"name":"t", "_meta":{"a":1,"progressToken":%s}}`, token))
		m, stop := p.follow(request, func(m jsonrpc.Message) { heard = append(heard, string(m.Params)) }, func() { renewed++ })
		_, ours := progressToken(m.Params)
		require.NotNil(t, ours)
		assert.Equal(t, fmt.Sprintf(`{"name":"t", "_meta":{"a":1,"progressToken":%s}}`, ours.Raw()), string(m.Params))
		return string(ours.Raw()), stop
	}
	first, stopFirst := ask(`"same"`)
	second, stopSecond := ask(`9007199254740993`)
	require.NotEqual(t, first, second)
	p.heard(progressNote(second))
	p.heard(progressNote(first))
	p.heard(progressNote(`"` + first + `"`)) // a text is no number
	p.heard(progressNote(`"same"`))
	p.heard(jsonrpc.Notification("notifications/progress", nil))
	assert.Equal(t, []string{`{"total":1e2, "progressToken":9007199254740993,"progress":1}`, `{"total":1e2, "progressToken":"same","progress":1}`}, heard)
	assert.Equal(t, 2, renewed)
	stopFirst()
	p.heard(progressNote(first))
	assert.Len(t, heard, 2, "nobody follows it any more")
	stopSecond()
	assert.Empty(t, p.open)
}

func TestARequestWithoutAProgressTokenStaysAsItIs(t *testing.T) {
	t.Parallel()
	var p progress
	for _, params := range []string{``, `{}`, `{"progressToken":1}`, `{"_meta":{}}`, `{"arguments":{"_meta":{"progressToken":1}}}`, `7`} {
		request := jsonrpc.Request([]byte("1"), "tools/call", []byte(params))
		m, stop := p.follow(request, nil, nil)
		stop()
		assert.Equal(t, string(request.Raw()), string(m.Raw()), params)
	}
}
