package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/conformance/suite"
)

func TestFlags(t *testing.T) {
	t.Parallel()
	s, err := parseFlags([]string{"--run", "2025", "--place", "^stdio", "--keep", "folder", "--gateway", "program", "--wrap", "--era legacy"})
	require.NoError(t, err)
	assert.Equal(t, []string{"folder", "program", "--era legacy"}, []string{s.keep, s.gateway, s.wrap})
	assert.True(t, s.runs.selects("0.2.0 2025-11-25"))
	assert.False(t, s.runs.selects("0.1.16"))
	assert.False(t, s.places.selects("http"))
	all, err := parseFlags(nil)
	require.NoError(t, err)
	assert.True(t, all.runs.selects("0.1.16"))
	for _, wrong := range [][]string{{"--run", "("}, {"--nothing"}, {"word"}} {
		_, err := parseFlags(wrong)
		require.Error(t, err, wrong)
	}
}

// sheetOf is a sheet with one scenario of one check, at two places.
func sheetOf(direct, here suite.Status, expected ...suite.Expectation) sheet {
	report := func(status suite.Status) suite.Report {
		return suite.Report{"prompts-list": {"a": {ID: "a", Status: status, Words: "so it is"}}}
	}
	return sheet{run: suite.Runs[0], expected: expected, columns: []column{
		{place: suite.Direct, report: report(direct)}, {place: suite.Places[0], report: report(here)},
	}}
}

func TestSheet(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		sheet   sheet
		worse   bool
		printed []string
	}{
		"a failure is printed with its words": {sheetOf(suite.Success, suite.Failure), true,
			[]string{"passed/failed  1/0     0/1", "prompts-list   1/0     0/1", "stdio shared: WORSE: prompts-list: a is FAILURE, directly SUCCESS; so it is"}},
		"an expected failure is counted": {sheetOf(suite.Success, suite.Failure, suite.Expectation{Scenarios: []string{"prompts-list"}}), false,
			[]string{"prompts-list   1/0     0/1", "1 checks worse as expected, 0 better"}},
		"a failure less is counted":            {sheetOf(suite.Failure, suite.Success), false, []string{"0 checks worse as expected, 1 better"}},
		"what does not differ is in the total": {sheetOf(suite.Success, suite.Success), false, []string{"passed/failed  1/0     1/0"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			require.NoError(t, test.sheet.print(&out))
			for _, line := range test.printed {
				assert.Contains(t, out.String(), line)
			}
			assert.Equal(t, test.worse, test.sheet.worse())
			assert.Equal(t, len(test.printed) > 1 || strings.Contains(out.String(), "better"), strings.Contains(out.String(), "prompts-list"))
		})
	}
}

func TestSheetSaysWhatWasNotRun(t *testing.T) {
	t.Parallel()
	s := sheetOf(suite.Success, suite.Success)
	s.columns[1] = column{place: suite.Places[0], err: errors.New("no such flag")}
	var out bytes.Buffer
	require.NoError(t, s.print(&out))
	assert.Contains(t, out.String(), "stdio shared: not run: no such flag")
	assert.True(t, s.worse())
}
