package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSlowReaderGetsAllOfAnAnswer pipes a client's messages through the gateway into
// a reader that does not begin to read for a while. The answer does not fit into
// the pipe, and the gateway waits with the rest of it.
func TestSlowReaderGetsAllOfAnAnswer(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	folder := t.TempDir()
	output, exited := pipedThrough(t, folder, []string{"wrap", "--ledger", "ledger.db", "--log-level", "error", "--",
		"scripted", "--effects", "eff", "--gate", folder, "--fault", "refund:do=gate:answer", "--fault", "refund:do=big:1048576"},
		hello, initialized,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"refund","arguments":{"order":"A1","idempotency_key":"refund:A1:1"}}}`)
	require.NoError(t, repeat("the call", func() bool {
		_, err := os.Stat(filepath.Join(folder, "answer.waiting"))
		return err == nil
	}))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "answer"), nil, 0o600))
	select {
	case <-exited:
		t.Error("the gateway ended before its answer was read")
	case <-time.After(2 * time.Second):
	}

	require.NoError(t, output.SetReadDeadline(time.Now().Add(patience)))
	read, err := io.ReadAll(output)
	require.NoError(t, err)
	assert.NoError(t, <-exited)
	answer := string(read[strings.LastIndex(strings.TrimSpace(string(read)), "\n")+1:])
	assert.True(t, strings.HasPrefix(answer, `{"jsonrpc":"2.0","id":1,"result":`), "%.100s", answer)
	assert.True(t, strings.HasSuffix(answer, "}\n"), "the answer is whole")
	assert.Equal(t, size, strings.Count(answer, "xx")*2, "and all of it is there")
}

// pipedThrough runs mcp-idem with the lines as its whole input, and returns its
// output, which nobody reads yet, and how it ends.
func pipedThrough(t *testing.T, folder string, args []string, lines ...string) (*os.File, <-chan error) {
	program, err := exec.LookPath("mcp-idem")
	require.NoError(t, err)
	output, theirs, err := os.Pipe()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = folder, theirs, os.Stderr
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	require.NoError(t, cmd.Start())
	require.NoError(t, theirs.Close())
	exited, ended := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(ended)
		exited <- cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = output.Close()
		<-ended // t.Context has ended by now, and with it the gateway
	})
	return output, exited
}
