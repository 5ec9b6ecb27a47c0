package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/upstream/upstreamtest"
)

// startScripted starts the scripted server over HTTP, on a free port, and returns its
// URL. It ends with the test, and has to end in good order.
func startScripted(t *testing.T, dir string, flags ...string) string {
	t.Helper()
	file := filepath.Join(dir, "scripted.address")
	cmd := exec.Command("scripted", append([]string{"--http", "127.0.0.1:0", "--address-file", file, "--until-eof"}, flags...)...)
	cmd.Env, cmd.Stderr = upstreamtest.Env(), t.Output()
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		assert.NoError(t, stdin.Close())
		assert.NoError(t, cmd.Wait())
	})
	upstreamtest.WaitForFile(t, file)
	address, err := os.ReadFile(file)
	require.NoError(t, err)
	return "http://" + strings.TrimSpace(string(address)) + "/mcp"
}
