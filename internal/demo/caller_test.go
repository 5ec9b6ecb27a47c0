package demo

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func resultOf(t *testing.T, text string) *mcp.CallToolResult {
	t.Helper()
	var result mcp.CallToolResult
	require.NoError(t, json.Unmarshal([]byte(text), &result))
	return &result
}

func TestProtectedCaller_DoesWhatTheOutcomeSays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		result string
		known  bool
		fails  bool
	}{
		"executed":             {result: `{"content":[],"_meta":{"mcp-idem/outcome":{"outcome":"COMPLETED","effect":"executed","next":{"action":"none"}}}}`, known: true},
		"running":              {result: `{"content":[],"_meta":{"mcp-idem/outcome":{"outcome":"RUNNING","effect":"unknown","next":{"action":"retry_same_key","after_ms":1}}}}`},
		"unknown and open":     {result: `{"content":[],"_meta":{"mcp-idem/outcome":{"outcome":"EFFECT_UNKNOWN","effect":"unknown","next":{"action":"check_status","after_ms":1}}}}`},
		"unreachable":          {result: `{"content":[],"_meta":{"mcp-idem/outcome":{"outcome":"FAILED_BEFORE_INPUT","effect":"not_executed","next":{"action":"retry_same_key","after_ms":1}}}}`},
		"answered by an error": {result: `{"content":[],"_meta":{"mcp-idem/outcome":{"outcome":"COMPLETED","effect":"answered_error","next":{"action":"new_key"}}}}`, fails: true},
		"accepted as a task":   {result: `{"content":[],"_meta":{"mcp-idem/outcome":{"outcome":"ACCEPTED","effect":"unknown","next":{"action":"none"}}}}`, fails: true},
		"no outcome":           {result: `{"content":[{"type":"text","text":"refunded"}]}`, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			caller := protectedCaller{counts: &counts{}}
			known, err := caller.follow(t.Context(), "order-1", resultOf(t, c.result))
			assert.Equal(t, c.known, known)
			assert.Equal(t, c.fails, err != nil, "%v", err)
		})
	}
}

func TestProtectedCaller_CountsReplaysAndUnknowns(t *testing.T) {
	t.Parallel()
	caller := protectedCaller{counts: &counts{}}
	for _, text := range []string{
		`{"content":[],"_meta":{"mcp-idem/outcome":{"outcome":"COMPLETED","effect":"executed","was_replay":true,"next":{"action":"none"}}}}`,
		`{"content":[],"_meta":{"mcp-idem/outcome":{"outcome":"COMPLETED","effect":"executed","next":{"action":"none"}}}}`,
		`{"content":[],"_meta":{"mcp-idem/outcome":{"outcome":"EFFECT_UNKNOWN","effect":"unknown","next":{"action":"check_status","after_ms":1}}}}`,
	} {
		_, err := caller.follow(t.Context(), "order-1", resultOf(t, text))
		require.NoError(t, err)
	}
	assert.EqualValues(t, 1, caller.counts.replays.Load())
	assert.EqualValues(t, 1, caller.counts.unknown.Load())
}

func TestOperator_TakesNoListForNoEvidence(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"an error":                  `{"content":[{"type":"text","text":"later"}],"isError":true}`,
		"no structured content":     `{"content":[{"type":"text","text":"0 refunds"}]}`,
		"structured without a list": `{"content":[],"structuredContent":{}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := refundsIn(resultOf(t, text))
			assert.Error(t, err)
		})
	}
	none, err := refundsIn(resultOf(t, `{"content":[],"structuredContent":{"refunds":[]}}`))
	require.NoError(t, err)
	assert.Empty(t, none)
}

func TestForEachOrder_DoesEachOnce(t *testing.T) {
	t.Parallel()
	const calls = 3*callers + 1
	var mu sync.Mutex
	times := map[string]int{}
	require.NoError(t, forEachOrder(t.Context(), calls, func(_ context.Context, order string) error {
		mu.Lock()
		defer mu.Unlock()
		times[order]++
		return nil
	}))
	assert.Len(t, times, calls)
	for n := range calls {
		assert.Equal(t, 1, times[orderOf(n+1)])
	}
}

func TestForEachOrder_EndsWithTheFirstFailure(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	err := forEachOrder(t.Context(), callers, func(ctx context.Context, order string) error {
		if order == orderOf(1) {
			return broken
		}
		<-ctx.Done()
		return ctx.Err()
	})
	assert.ErrorIs(t, err, broken)
}
