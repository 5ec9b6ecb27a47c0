package config

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCheckIsRead(t *testing.T) {
	t.Parallel()
	f := &faults{file: "f.yaml"}
	n := parseYAML([]byte("{tool: search, arguments: '{q: .title}', executed: '.n > 0', authoritative: true}"), f)
	require.NotNil(t, n)
	var check *Check
	r := reader{faults: f, file: &File{}, env: func(string) (string, bool) { return "", false }}
	r.toCheck(&check)("check", n)
	assert.Equal(t, &Check{Tool: "search", Arguments: "{q: .title}", Executed: ".n > 0", Authoritative: true}, check)
	assert.EqualError(t, f.err(), "f.yaml:1:1: effect checks are not there yet; take check out, and settle what is unknown with mcp-idem ledger resolve")
}
