package config_test

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/config"
	"github.com/mcp-idem/mcp-idem/gateway"
	"github.com/mcp-idem/mcp-idem/toolschema"
	"github.com/mcp-idem/mcp-idem/upstream"
)

const secret = "s3cr3t-of-somebody"

// environment is what variables are in the tests.
func environment(name string) (string, bool) {
	value, ok := map[string]string{
		"TOKEN": secret, "GITHUB_TOKEN": secret, "BILLING_TOKEN": secret, "HOME": "/home/ada",
		"EMPTY": "", "NESTED": "${TOKEN}", "NUL": "a\x00b", "LINES": "a\nb", "BAD_SPAN": "soon",
	}[name]
	return value, ok
}

// root is a folder that is absolute everywhere.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("/work")
	require.NoError(t, err)
	return dir
}

func parseFile(t *testing.T, name string) *config.File {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	file, err := config.Parse(data, name, root(t), environment)
	require.NoError(t, err)
	return file
}

func bearer(more ...string) http.Header {
	h := http.Header{"Authorization": {"Bearer " + secret}}
	for i := 0; i < len(more); i += 2 {
		h.Set(more[i], more[i+1])
	}
	return h
}

func remote(name string, headers http.Header, path string) config.Server {
	if headers == nil {
		headers = http.Header{}
	}
	return config.Server{Name: name, URL: "https://" + name + ".example.com" + path, Headers: headers}
}

func TestAFileOfAnyClientWorksAsItIs(t *testing.T) {
	t.Parallel()
	dir := root(t)
	for name, want := range map[string]config.File{
		"claude-code.json": {Servers: []config.Server{
			{Name: "memory", Command: "npx", Args: []string{"-y", "memory-server"}, Env: []string{"TOKEN=" + secret, "LEVEL=low"}},
			remote("billing", bearer(), "/mcp"), remote("events", nil, "/sse"), remote("stream", nil, "/mcp"),
		}},
		"claude-desktop.json": {Servers: []config.Server{
			{Name: "files", Command: filepath.Clean("/usr/bin/files"), Args: []string{"/srv"}, Env: []string{"PORT=8080", "RATIO=1.50", "DEBUG=true"}},
		}},
		"cursor.json": {Servers: []config.Server{
			{Name: "local", Command: filepath.Clean("/home/ada/bin/server"), Args: []string{"--token", secret}},
			remote("remote", http.Header{"X-Token": {secret}}, "/mcp"),
		}},
		"vscode.json": {Servers: []config.Server{
			{Name: "github", Command: filepath.Join(dir, "bin/github"), Dir: filepath.Join(dir, "work")}, remote("web", nil, "/mcp"),
		}},
		"vscode-settings.json": {Servers: []config.Server{{Name: "one", Command: "one"}}},
		"vscode-dotted.jsonc":  {Servers: []config.Server{{Name: "one", Command: "one"}}},
		"copilot.json": {
			Servers: []config.Server{{Name: "local", Command: "local"}, remote("some", nil, "/mcp")},
			Notes:   []string{`copilot.json:4:84: server "some": tools does nothing here: all tools are offered`},
		},
		"windsurf.json": {
			Servers: []config.Server{remote("docs", http.Header{"X-Key": {"k"}}, "/mcp"), {Name: "on", Command: "on"}},
			Notes: []string{
				`windsurf.json:4:5: server "off" is left out: disabled is true`,
				`windsurf.json:5:48: server "on": disabledTools does nothing here: all tools are offered`,
			},
		},
		"codex.yaml": {
			Servers: []config.Server{
				{Name: "local", Command: "local", Args: []string{"--fast"}, Env: []string{"MODE=quiet"}, PassEnv: []string{"TOKEN", "HOME"}, Dir: filepath.Clean("/srv")},
				remote("remote", bearer("X-Team", "blue", "X-Level", "/home/ada"), "/mcp"),
			},
			Notes: []string{`codex.yaml:15:3: server "sleeping" is left out: enabled is false`},
		},
		"gemini.json": {
			Servers: []config.Server{
				{Name: "local", Command: "local", Args: []string{"a"}, Env: []string{"PRICE=$5 and $HOME"}, Dir: filepath.Join(dir, "sub")},
				remote("old", nil, "/mcp"), remote("new", nil, "/mcp"),
			},
			Notes: []string{
				`gemini.json:8:5: server "barred" is left out: it is in mcp.excluded`,
				`gemini.json:9:5: server "unlisted" is left out: it is not in mcp.allowed`,
			},
		},
		"antigravity.json": {Servers: []config.Server{remote("a", bearer(), "/mcp")}},
		"zed.json": {
			Servers: []config.Server{
				{Name: "now", Command: "now", Args: []string{"-v"}},
				{Name: "then", Command: "then", Args: []string{"-x"}, Env: []string{"A=1"}},
				remote("web", bearer(), "/mcp"),
			},
			Notes: []string{`zed.json:8:5: server "off" is left out: enabled is false`},
		},
		"opencode.jsonc": {Servers: []config.Server{
			{Name: "local", Command: "npx", Args: []string{"-y", "x"}, Env: []string{"A=b"}},
			remote("remote", http.Header{"X-A": {"b"}}, "/mcp"),
			{Name: "servers", Command: "tricky"},
		}},
		"opencode2.json": {
			Servers: []config.Server{{Name: "local", Command: "local"}},
			Notes: []string{
				"opencode2.json:1:2: the servers in mcp are not read, since there are some in mcp.servers",
				`opencode2.json:1:91: server "off" is left out: disabled is true`,
			},
		},
		"cline.json": {Servers: []config.Server{
			{Name: "local", Command: "local", Args: []string{"1"}}, remote("http", nil, "/mcp"), remote("plain", nil, "/sse"),
		}},
		"roo.json": {Servers: []config.Server{
			remote("a", nil, "/mcp"), {Name: "b", Command: "b", Dir: filepath.Dir(dir)},
		}},
		"langchain.json": {Servers: []config.Server{remote("a", nil, "/mcp"), {Name: "b", Command: "python", Args: []string{"b.py"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, &want, parseFile(t, name))
		})
	}
}

func TestTheExampleSaysWhatItIsMeantToSay(t *testing.T) {
	t.Parallel()
	top := config.Guard{Window: 168 * time.Hour}
	own := top
	own.CallTimeout = time.Minute
	assert.Equal(t, &config.File{
		Settings: config.Settings{Ledger: filepath.Join(root(t), "ledger.db"), Namespace: "support-bot"},
		Servers: []config.Server{{
			Name: "github", Command: "npx", Args: []string{"-y", "@modelcontextprotocol/server-github"},
			Env: []string{"GITHUB_PERSONAL_ACCESS_TOKEN=" + secret}, PassEnv: []string{"SSH_AUTH_SOCK"},
			Account: "my-org", Guard: own,
			Tools: []config.Tool{
				{Pattern: "create_issue", Class: toolschema.ClassNonRetryable, NearDuplicate: toolschema.NearDuplicateConfirm, Window: 720 * time.Hour},
				{Pattern: "get_*", Class: toolschema.ClassReadOnly},
				{
					Pattern: "create_payment", Class: toolschema.ClassDeduplicate, UpstreamWindow: 24 * time.Hour,
					Native: &toolschema.NativeRule{Pattern: "create_payment", Path: []string{"body", "idempotency_key"}},
				},
			},
		}, {
			Name: "billing", URL: "https://billing.example.com/mcp", Headers: bearer(), Guard: top,
		}},
	}, parseFile(t, "example.yaml"))
}

func patterns(list ...string) []*regexp.Regexp {
	compiled := []*regexp.Regexp{}
	for _, text := range list {
		compiled = append(compiled, regexp.MustCompile(text))
	}
	return compiled
}

func TestAServerSaysWhatTheTopDoesNot(t *testing.T) {
	t.Parallel()
	file := parseFile(t, "everything.yaml")
	assert.Equal(t, config.Settings{
		Ledger: filepath.Join(root(t), "state/ledger.db"), Namespace: "blue", HTTP: "127.0.0.1:9000",
		TokenFile: filepath.Join(root(t), "tokens.yaml"), MaxBody: 1 << 20,
		AllowOrigins: []string{"https://app.example", "http://localhost:6274"},
		SessionIdle:  5 * time.Minute, LogLevel: "debug", LogFormat: "json",
	}, file.Settings)
	require.Len(t, file.Servers, 2)
	assert.Equal(t, config.Guard{
		CallTimeout: time.Minute, LateWindow: 2 * time.Hour, Wait: 5 * time.Second, StartTimeout: 10 * time.Second,
		Window: 24 * time.Hour, InputWindow: 10 * time.Minute, UpstreamWindow: 12 * time.Hour, NearDuplicateWindow: 3 * time.Minute,
		TrustAnnotations: config.TrustNo, Keys: gateway.KeysHarness, OnProblem: toolschema.OnProblemOmit,
		Era: upstream.EraLegacy, Process: gateway.PerSession, StrictCodes: true,
		Texts: config.Texts{Ambiguous: patterns("gone away"), Refusal: patterns("^no such"), NothingHappened: patterns("(?i)dry run")},
	}, file.Servers[0].Guard, "what the top says")
	assert.Equal(t, config.Guard{
		CallTimeout: 2 * time.Minute, LateWindow: -1, Wait: 6 * time.Second, StartTimeout: 11 * time.Second,
		Window: 25 * time.Hour, InputWindow: 11 * time.Minute, UpstreamWindow: 13 * time.Hour, NearDuplicateWindow: 4 * time.Minute,
		TrustAnnotations: config.TrustAuto, Keys: gateway.KeysModel, OnProblem: toolschema.OnProblemHarness,
		Era: upstream.EraModern, Process: gateway.Shared,
		Texts: config.Texts{Ambiguous: patterns(), Refusal: patterns("a"), NothingHappened: patterns("b")},
	}, file.Servers[1].Guard, "what it says itself")
	no := false
	assert.Equal(t, []config.Tool{{
		Pattern: "pay", Class: toolschema.ClassSafeRetry, NearDuplicate: toolschema.NearDuplicateOff, Native: &toolschema.NativeRule{Pattern: "pay"},
		Window: time.Hour, CallTimeout: 3 * time.Second, UpstreamWindow: 2 * time.Hour, OnCancel: gateway.OnCancelForward, StrictCodes: &no,
		Texts: config.Texts{Ambiguous: patterns("c"), Refusal: patterns("d"), NothingHappened: patterns("e")},
	}, {
		Pattern: "send_*", NearDuplicate: toolschema.NearDuplicateAsk, OnCancel: gateway.OnCancelDetach,
		Native: &toolschema.NativeRule{Pattern: "send_*", Path: []string{"meta", "so.so"}, Shown: true, Raw: true},
	}}, file.Servers[1].Tools)
	assert.Equal(t, "shop", file.Servers[1].Account)
}

func TestAliasesAndMergedMembersOfYAML(t *testing.T) {
	t.Parallel()
	assert.Equal(t, []config.Server{{
		Name: "one", Command: "one", Args: []string{"-q"}, Env: []string{"A=1", "B=2"},
		Guard: config.Guard{Keys: gateway.KeysHarness, Wait: time.Second},
	}, {
		Name: "two", Command: "two", Args: []string{"-v"}, Env: []string{"A=on", "N=08", "T=2026-11-30"},
		Guard: config.Guard{Keys: gateway.KeysHarness, Wait: 2 * time.Second},
	}}, parseFile(t, "merged.yaml").Servers)
}

func TestVariables(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"${TOKEN}":           secret,
		"a${env:TOKEN}b":     "a" + secret + "b",
		"${EMPTY}":           "",
		"${EMPTY:-x}":        "",
		"${UNSET:-x y}":      "x y",
		"${UNSET:-}":         "",
		"${env:UNSET:-x}":    "x",
		"${NESTED}":          "${TOKEN}",
		"$TOKEN $$ $ $(x) }": "$TOKEN $$ $ $(x) }",
		"{env:TOKEN}":        "{env:TOKEN}",
		"$${TOKEN}":          "$" + secret,
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			file, err := config.Parse([]byte(`{"mcpServers": {"a": {"command": "a", "args": ["`+text+`"]}}}`), "a.json", root(t), environment)
			require.NoError(t, err)
			assert.Equal(t, []string{want}, file.Servers[0].Args)
		})
	}
}

func TestTheFormatIsThatOfTheNameOrElseOfTheText(t *testing.T) {
	t.Parallel()
	const asJSON = `{"mcpServers": {"a": {"command": "a"}}} // end`
	const asYAML = "# servers\nmcpServers:\n  a:\n    command: a\n"
	for name, text := range map[string]string{
		"a.json": asJSON, "a.JSONC": asJSON, "a.json5": asJSON, "a.yaml": asYAML, "a.YML": asYAML, "a": asJSON, "a.conf": asYAML,
		"commented": "// a comment\n" + asJSON, "commented.conf": "/* a comment */ " + asJSON,
		"bom.json": "\ufeff" + asJSON, "bom.yaml": "\ufeff" + asYAML, "bom": "\ufeff" + asJSON,
		"crlf.yaml": strings.ReplaceAll(asYAML, "\n", "\r\n"), "crlf.json": "\r\n" + asJSON + "\r\n",
		"json.yaml": `{"mcpServers": {"a": {"command": "a"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, err := config.Parse([]byte(text), name, root(t), environment)
			require.NoError(t, err)
			assert.Equal(t, []config.Server{{Name: "a", Command: "a"}}, file.Servers)
		})
	}
}

func TestCommentsAndTrailingCommasAreLeftAloneInTexts(t *testing.T) {
	t.Parallel()
	text := `{"mcpServers": {"a": {"command": "a", "args": ["//x", "/*y*/", "z,]", "\",]//", ],},},}`
	file, err := config.Parse([]byte(text), "a.json", root(t), environment)
	require.NoError(t, err)
	assert.Equal(t, []string{"//x", "/*y*/", "z,]", `",]//`}, file.Servers[0].Args)
}

func TestPathsOfALoadedFileCountFromItsFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "idem.yaml")
	require.NoError(t, os.WriteFile(path, []byte("idempotency: {ledger: l.db}\nmcpServers: {a: {command: bin/a}}\n"), 0o600))
	file, err := config.Load(path, environment)
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(dir, "l.db"), file.Ledger)
	assert.Equal(t, filepath.Join(dir, "bin", "a"), file.Servers[0].Command)
}

func TestAFileThatCannotBeRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := config.Load(filepath.Join(dir, "none.yaml"), environment)
	require.ErrorIs(t, err, os.ErrNotExist)
	assert.ErrorContains(t, err, "the configuration cannot be read: ")

	large := filepath.Join(dir, "large.json")
	require.NoError(t, os.WriteFile(large, make([]byte, config.MaxBytes+1), 0o600))
	_, err = config.Load(large, environment)
	assert.EqualError(t, err, large+": it has more than 4 MiB; a file of servers is smaller")
}

func TestALedgerMayBeAnAddress(t *testing.T) {
	t.Parallel()
	file, err := config.Parse([]byte("idempotency: {ledger: 'postgres://idem:${TOKEN}@db/idem'}\nmcpServers: {a: {command: a}}"), "a.yaml", root(t), environment)
	require.NoError(t, err)
	assert.Equal(t, "postgres://idem:"+secret+"@db/idem", file.Ledger)
}
