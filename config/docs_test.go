package config_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/config"
)

// TestTheReferenceIsTrue holds docs/configuration.md to the code: its example is a
// good file, every member has a row, and no row is of a member that is none.
func TestTheReferenceIsTrue(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/configuration.md")
	require.NoError(t, err)
	example := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindSubmatch(text)
	require.NotNil(t, example)
	_, err = config.Parse(example[1], "example.yaml", root(t), environment)
	require.NoError(t, err)

	_, reference, ok := strings.Cut(string(text), "\n## idempotency\n")
	require.True(t, ok)
	reference, _, ok = strings.Cut(reference, "\n## Variables\n")
	require.True(t, ok)
	var documented []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*) \\|").FindAllStringSubmatch(reference, -1) {
		for _, name := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(row[1], -1) {
			documented = append(documented, name[1])
		}
	}
	assert.ElementsMatch(t, config.MemberNames(), documented)
}
