package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTokenFilesSayWhoHasWhichToken(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text string
		want map[string]string // nil: it is refused
		says string
	}{
		"lines":                {text: "# who may call\nada: zz1\n\n---\n'bob' : \"zz:3\"\n", want: map[string]string{"ada": "zz1", "bob": "zz:3"}},
		"an object":            {text: ` {"ada":"zz1"}`, want: map[string]string{"ada": "zz1"}},
		"nothing":              {text: "# nobody\n", says: "no tokens"},
		"a broken object":      {text: `{"ada":1}`, says: "no JSON object"},
		"a line without token": {text: "ada: zz1\nbob:\n", says: "line 2"},
		"a nested map":         {text: "tokens:\n  ada: zz1\n", says: "line 1"},
		"one name twice":       {text: "ada: zz1\nada: zz2\n", says: "line 2"},
		"one token twice":      {text: "ada: zz1\nbob: zz1\n", says: "same token"},
		"a token with a space": {text: "ada: zz1 zz2\n", says: "space"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "tokens")
			require.NoError(t, os.WriteFile(file, []byte(test.text), 0o600))
			got, err := readTokens(file, zerolog.Nop())
			if test.want != nil {
				require.NoError(t, err)
				assert.Equal(t, test.want, got)
				return
			}
			require.ErrorContains(t, err, test.says)
			assert.NotContains(t, err.Error(), "zz", "tokens are not shown")
			assert.Equal(t, exitUsage, exitCode(err))
		})
	}
}

func TestATokenFileThatOthersCanReadIsWarnedOf(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(file, []byte("ada: one\n"), 0o644))
	var log strings.Builder
	_, err := readTokens(file, zerolog.New(&log))
	require.NoError(t, err)
	assert.Contains(t, log.String(), "chmod 600")
}

func TestTheAddressOfHTTPMayBeAWordOfItsOwn(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]struct {
		address, name string
		left          []string
	}{
		"--http -- server --port 1":                    {defaultAddress, "", []string{"server", "--port", "1"}},
		"--http=127.0.0.1:1 server":                    {"127.0.0.1:1", "", []string{"server"}},
		"--http 127.0.0.1:1 --name x -- server --http": {"127.0.0.1:1", "x", []string{"server", "--http"}},
		"--name x --http :1 server 127.0.0.1:2":        {":1", "x", []string{"server", "127.0.0.1:2"}},
		"--http server 127.0.0.1:2":                    {defaultAddress, "", []string{"server", "127.0.0.1:2"}},
		"--http -- 127.0.0.1:2":                        {defaultAddress, "", []string{"127.0.0.1:2"}},
		"server --http 127.0.0.1:1":                    {"", "", []string{"server", "--http", "127.0.0.1:1"}},
		"--http [::1]:1 server":                        {"[::1]:1", "", []string{"server"}},
		"--http 127.0.0.1:1":                           {"127.0.0.1:1", "", []string{}},
	} {
		var s settings
		cmd := &cobra.Command{Use: "wrap"}
		s.register(cmd.Flags())
		cmd.Flags().SetInterspersed(false)
		require.NoError(t, cmd.Flags().Parse(strings.Fields(line)), line)
		left, err := s.http.takeAddress(cmd, cmd.Flags().Args())
		require.NoError(t, err, line)
		assert.Equal(t, want.address, s.http.address, line)
		assert.Equal(t, want.name, s.name, line)
		assert.Equal(t, want.left, left, line)
	}
}

// The whole program, from its flags to its end.
func TestWrapServesHTTP(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens.yaml")
	require.NoError(t, os.WriteFile(tokens, []byte("ada: token-of-ada\n"), 0o600))
	program, err := exec.LookPath("mcp-idem")
	require.NoError(t, err)
	cmd := exec.Command(program, "wrap", "--http", "127.0.0.1:0", "--token-file", tokens, "--log-format", "json", "--ledger", filepath.Join(dir, "ledger.db"),
		"--", "scripted", "--effects", filepath.Join(dir, "eff"))
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	log := bufio.NewReader(stderr)
	address := listeningAt(t, log)
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{}}
	defer client.CloseIdleConnections()

	ask := func(token string) (int, string) {
		request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, address, strings.NewReader(
			`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`))
		require.NoError(t, err)
		for name, value := range map[string]string{
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list",
			"Authorization": "Bearer " + token,
		} {
			request.Header.Set(name, value)
		}
		response, err := client.Do(request)
		require.NoError(t, err)
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, string(body)
	}
	status, _ := ask("another")
	assert.Equal(t, http.StatusUnauthorized, status)
	status, body := ask("token-of-ada")
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, body, "idempotency_key")

	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	_, err = io.Copy(io.Discard, log)
	require.NoError(t, err)
	assert.NoError(t, cmd.Wait())
}

// listeningAt reads the log until it says where clients find the gateway.
func listeningAt(t *testing.T, log *bufio.Reader) string {
	t.Helper()
	for {
		line, err := log.ReadBytes('\n')
		require.NoError(t, err, "the log ends")
		var entry struct{ Message, Address string }
		if json.Unmarshal(line, &entry) == nil && entry.Message == "listening" {
			return entry.Address
		}
	}
}
