package main

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/conformance/suite"
)

// TestConformance runs the official conformance suite against the Go SDK's
// conformance server, directly and with the gateway between. In what belongs to
// tools, transport and lifecycle nothing may be worse; what else differs must be
// as it stands in the list of what is expected, so that a change is noticed.
func TestConformance(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("mcp-idem")
	require.NoError(t, err)
	kit, err := suite.Fetch(t.Context(), program)
	if err != nil {
		missing(t, "the conformance suite cannot be had: "+err.Error())
	}
	for _, run := range suite.Runs {
		t.Run(run.Name, func(t *testing.T) {
			t.Parallel()
			direct, err := kit.Measure(t.Context(), run, suite.Direct, filepath.Join(t.TempDir(), "direct"))
			require.NoError(t, err)
			require.Positive(t, direct.Count("", suite.Success))
			for _, place := range suite.Places {
				t.Run(place.Name, func(t *testing.T) {
					t.Parallel()
					here, err := kit.Measure(t.Context(), run, place, filepath.Join(t.TempDir(), "here"))
					require.NoError(t, err)
					asExpected(t, run, place, suite.Compare(direct, here))
				})
			}
		})
	}
}

// asExpected compares the differences with those that are known.
func asExpected(t *testing.T, run suite.Run, place suite.Place, found []suite.Difference) {
	expected, err := suite.Expected()
	require.NoError(t, err)
	for _, d := range found {
		known := false
		for _, e := range expected {
			known = known || e.Covers(run, place, d)
		}
		assert.True(t, known || !d.Worse(), "%s: %s: %s, directly %s: %s", d.Scenario, d.Check, d.Here, d.Direct, d.Words)
	}
	for _, e := range expected {
		if e.Concerns(run, place) {
			assert.True(t, e.Occurs(run, place, found), "%v is as directly, and was expected to differ: %s", e.Scenarios, e.Reason)
		}
	}
}
