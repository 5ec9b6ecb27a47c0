package lint

import (
	"bufio"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// TestGuaranteesTellTheTable compares the table of moves in the documentation
// with the one in the code.
func TestGuaranteesTellTheTable(t *testing.T) {
	t.Parallel()
	type ends struct{ from, to []string }
	coded := map[int]ends{}
	add := func(list []string, s dedup.State) []string {
		if slices.Contains(list, s.String()) {
			return list
		}
		return append(list, s.String())
	}
	for _, m := range dedup.Moves {
		e := coded[int(m.Row)]
		coded[int(m.Row)] = ends{from: add(e.from, m.From), to: add(e.to, m.To)}
	}
	file, err := os.Open("../../docs/guarantees.md")
	require.NoError(t, err)
	defer file.Close()
	row := regexp.MustCompile(`^\| (\d+) \| ([a-z_, ]+) \| ([a-z_, ]+) \| `)
	seen := 0
	for lines := bufio.NewScanner(file); lines.Scan(); {
		match := row.FindStringSubmatch(lines.Text())
		if match == nil {
			continue
		}
		seen++
		number, err := strconv.Atoi(match[1])
		require.NoError(t, err)
		assert.ElementsMatch(t, coded[number].from, strings.Split(match[2], ", "), "row %d, from", number)
		assert.ElementsMatch(t, coded[number].to, strings.Split(match[3], ", "), "row %d, to", number)
	}
	assert.Equal(t, len(coded), seen, "rows")
}

// TestReadme holds what can be held of the README: its length, its JSON, and
// that every file it names is there.
func TestReadme(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	assert.Less(t, strings.Count(string(text), "\n"), 200, "lines")
	blocks := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllSubmatch(text, -1)
	require.NotEmpty(t, blocks)
	for _, block := range blocks {
		assert.True(t, json.Valid(block[1]), "%s", block[1])
	}
	links := regexp.MustCompile(`\]\(([^)#]+)`).FindAllSubmatch(text, -1)
	require.NotEmpty(t, links)
	for _, link := range links {
		assert.FileExists(t, "../../"+string(link[1]))
	}
	folders := regexp.MustCompile(`(?m)^(  )?([a-z/-]+/) +\S`).FindAllSubmatch(text, -1)
	require.NotEmpty(t, folders)
	parent := ""
	for _, folder := range folders {
		name := string(folder[2])
		if len(folder[1]) == 0 {
			parent = name
		} else {
			name = parent + name
		}
		assert.DirExists(t, "../../"+name)
	}
}
