package toolschema

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
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

func TestClassificationOfLabelledTools(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join(corpus(t), "labels.json"))
	require.NoError(t, err)
	var labels []struct {
		Server, Tool, Label string
		Annotations         json.RawMessage
	}
	require.NoError(t, json.Unmarshal(raw, &labels))
	require.NotEmpty(t, labels)

	for _, trusted := range []bool{true, false} {
		var hit, missed, alarm float64
		for _, l := range labels {
			d := Policy{TrustAnnotations: trusted}.Classify(l.Tool, l.Annotations)
			switch effect := l.Label == "effectful"; {
			case effect && d.Class.Keyed():
				hit++
			case effect:
				missed++
				t.Logf("missed: %s/%s: %s", l.Server, l.Tool, d.Rule)
			case d.Class.Keyed():
				alarm++
				t.Logf("false alarm: %s/%s: %s", l.Server, l.Tool, d.Rule)
			}
		}
		recall, precision := hit/(hit+missed), hit/(hit+alarm)
		t.Logf("%d labels, annotations trusted %v: recall %.3f, precision %.3f for \"has side effects\"",
			len(labels), trusted, recall, precision)
		assert.GreaterOrEqual(t, recall, .97)
		if trusted {
			assert.GreaterOrEqual(t, precision, .88)
		}
	}
}
