package toolschema

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// corpus returns the folder of published servers' tool lists that
// MCP_IDEM_CORPUS names. Without one the test is skipped, but fails in CI.
func corpus(tb testing.TB) string {
	tb.Helper()
	folder := os.Getenv("MCP_IDEM_CORPUS")
	if folder != "" {
		return folder
	}
	if os.Getenv("CI") == "true" {
		tb.Fatal("MCP_IDEM_CORPUS is not set, and CI must not skip")
	}
	tb.Skip("MCP_IDEM_CORPUS is not set: no tool lists of real servers to test with")
	return ""
}

// corpusPages returns the tools/list results by server.
func corpusPages(tb testing.TB) map[string][]byte {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(corpus(tb), "tools", "*.json"))
	require.NoError(tb, err)
	require.NotEmpty(tb, files)
	pages := make(map[string][]byte)
	for _, file := range files {
		page, err := os.ReadFile(file)
		require.NoError(tb, err)
		pages[strings.TrimSuffix(filepath.Base(file), ".json")] = page
	}
	return pages
}

// corpusTools returns the definitions of one page, in its order.
func corpusTools(tb testing.TB, page []byte) [][]byte {
	tb.Helper()
	list, err := rawjson.ParseObject(page)
	require.NoError(tb, err)
	raw, ok := list.Get("tools")
	require.True(tb, ok)
	tools, err := rawjson.ParseArray(raw)
	require.NoError(tb, err)
	return tools
}
