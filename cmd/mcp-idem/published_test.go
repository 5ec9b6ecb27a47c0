package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// publishedVersion is that of the servers that the tests install from the npm
// registry.
const publishedVersion = "2026.8.31"

// TestPublishedMemory keeps a graph that one can look into, so that the effects
// can be counted.
func TestPublishedMemory(t *testing.T) {
	t.Parallel()
	graph := filepath.Join(t.TempDir(), "graph.json")
	p := startPublished(t, "memory", []string{"MEMORY_FILE_PATH=" + graph})
	p.offers("create_entities", true)
	p.offers("read_graph", false)

	arguments := map[string]any{"entities": []any{map[string]any{"name": "Ada", "entityType": "person", "observations": []any{"<b> & 9007199254740993"}}}}
	p.journey("create_entities", arguments, "entities:ada:1")
	read := p.call("read_graph", map[string]any{})
	assert.Nil(t, read.Meta, "a reader's answer is the server's own")
	assert.Equal(t, 1, strings.Count(string(read.RawStructuredContent), `"Ada"`))
	p.refused("create_entities", map[string]any{"entities": []any{}}, "entities:ada:1")

	lines, err := os.ReadFile(graph)
	require.NoError(t, err)
	assert.Equal(t, 1, strings.Count(string(lines), `"Ada"`))
}

// TestPublishedFilesystem moves a file: a second time would fail.
func TestPublishedFilesystem(t *testing.T) {
	t.Parallel()
	folder, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	from, to := filepath.Join(folder, "from.txt"), filepath.Join(folder, "to.txt")
	require.NoError(t, os.WriteFile(from, []byte("<contents> & more"), 0o600))
	p := startPublished(t, "filesystem", nil, folder)
	p.offers("move_file", true)
	p.offers("read_text_file", false)

	assert.Equal(t, "<contents> & more", textOf(p.call("read_text_file", map[string]any{"path": from})))
	p.journey("move_file", map[string]any{"source": from, "destination": to}, "move:from:1")
	assert.NoFileExists(t, from)
	assert.FileExists(t, to)
	p.refused("move_file", map[string]any{"source": to, "destination": from}, "move:from:1")
	assert.FileExists(t, to)
}

// TestPublishedEverything runs an operation that takes a while and tells of its
// progress, and asks the client on the way.
func TestPublishedEverything(t *testing.T) {
	t.Parallel()
	p := startPublished(t, "everything", nil)
	p.offers("trigger-long-running-operation", true)
	p.offers("echo", false)

	assert.Equal(t, "Echo: <&>", textOf(p.call("echo", map[string]any{"message": "<&>"})))
	p.journey("trigger-long-running-operation", map[string]any{"duration": 0.2, "steps": 2}, "operation:one:1")
	p.refused("trigger-long-running-operation", map[string]any{"duration": 0.2, "steps": 3}, "operation:one:1")
}

// A published server behind a gateway, and mcp-go's client before it.
type published struct {
	t      *testing.T
	ctx    context.Context
	client *client.Client
	tools  map[string]offeredTool
}

// An offeredTool is what matters here of a tool as it is listed.
type offeredTool struct {
	Name        string `json:"name"`
	InputSchema struct {
		Required []string `json:"required"`
	} `json:"inputSchema"`
	OutputSchema json.RawMessage `json:"outputSchema"`
}

func startPublished(t *testing.T, server string, env []string, args ...string) *published {
	script := filepath.Join(publishedFolder(t), "node_modules", "@modelcontextprotocol", "server-"+server, "dist", "index.js")
	command := append([]string{"wrap", "--ledger", filepath.Join(t.TempDir(), "ledger.db"), "--log-level", "error", "--", "node", script}, args...)
	c, err := client.NewStdioMCPClientWithOptions("mcp-idem", append(env, "GORACE=atexit_sleep_ms=0"), command, transport.WithCommandStderrWriter(t.Output()))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	t.Cleanup(cancel)
	var hello mcp.InitializeRequest
	hello.Params.ProtocolVersion = "2025-06-18"
	hello.Params.ClientInfo = mcp.Implementation{Name: "published_test", Version: "1"}
	answer, err := c.Initialize(ctx, hello)
	require.NoError(t, err)
	assert.Contains(t, answer.Instructions, "idempotency_key")
	p := &published{t: t, ctx: ctx, client: c, tools: map[string]offeredTool{}}
	p.list()
	return p
}

// list reads the tools below the typed client, which would drop half of their
// schemas.
func (p *published) list() {
	answer, err := p.client.GetTransport().SendRequest(p.ctx, transport.JSONRPCRequest{
		JSONRPC: mcp.JSONRPC_VERSION, ID: mcp.NewRequestId("list"), Method: string(mcp.MethodToolsList), Params: struct{}{}})
	require.NoError(p.t, err)
	require.Nil(p.t, answer.Error)
	var list struct{ Tools []offeredTool }
	require.NoError(p.t, json.Unmarshal(answer.Result, &list))
	for _, tool := range list.Tools {
		p.tools[tool.Name] = tool
	}
	typed, err := p.client.ListTools(p.ctx, mcp.ListToolsRequest{})
	require.NoError(p.t, err)
	assert.Len(p.t, typed.Tools, len(list.Tools))
}

// offers asserts that a tool is there, and whether it asks for a key.
func (p *published) offers(name string, keyed bool) {
	require.Contains(p.t, p.tools, name)
	if keyed {
		assert.Contains(p.t, p.tools[name].InputSchema.Required, "idempotency_key")
	} else {
		assert.NotContains(p.t, p.tools[name].InputSchema.Required, "idempotency_key")
	}
}

func (p *published) call(tool string, arguments map[string]any) *mcp.CallToolResult {
	var request mcp.CallToolRequest
	request.Params.Name, request.Params.Arguments = tool, arguments
	result, err := p.client.CallTool(p.ctx, request)
	require.NoError(p.t, err)
	return result
}

// journey makes a call without a key, with one, and again.
func (p *published) journey(tool string, arguments map[string]any, key string) {
	missing := p.call(tool, arguments)
	assert.True(p.t, missing.IsError)
	assert.Equal(p.t, "key_required", p.outcome(missing)["reason"])

	first := p.call(tool, withKey(arguments, key))
	assert.False(p.t, first.IsError, "%v", first.Content)
	assert.Equal(p.t, "COMPLETED", p.outcome(first)["outcome"])
	assert.Equal(p.t, false, p.outcome(first)["was_replay"])
	p.fits(tool, first)

	again := p.call(tool, withKey(arguments, key))
	assert.False(p.t, again.IsError)
	assert.Equal(p.t, true, p.outcome(again)["was_replay"])
	assert.Equal(p.t, p.outcome(first)["operation_id"], p.outcome(again)["operation_id"])
	assert.Equal(p.t, first.Content, again.Content[:len(again.Content)-1], "the answer is the recorded one, with a text at its end")
	p.fits(tool, again)
}

// refused asserts that a key which was used for something else is refused.
func (p *published) refused(tool string, arguments map[string]any, key string) {
	result := p.call(tool, withKey(arguments, key))
	assert.True(p.t, result.IsError)
	assert.Equal(p.t, "REJECTED_DUPLICATE", p.outcome(result)["outcome"])
	assert.Equal(p.t, "key_reused", p.outcome(result)["reason"])
	assert.Contains(p.t, textOf(result), "ALREADY EXECUTED")
}

func (p *published) outcome(result *mcp.CallToolResult) map[string]any {
	require.NotNil(p.t, result.Meta)
	require.IsType(p.t, map[string]any{}, result.Meta.AdditionalFields["mcp-idem/outcome"])
	return result.Meta.AdditionalFields["mcp-idem/outcome"].(map[string]any)
}

// fits asserts that a client which validates the structured content against the
// offered outputSchema is content.
func (p *published) fits(tool string, result *mcp.CallToolResult) {
	if p.tools[tool].OutputSchema == nil {
		return
	}
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(string(p.tools[tool].OutputSchema)))
	require.NoError(p.t, err)
	compiler := jsonschema.NewCompiler()
	require.NoError(p.t, compiler.AddResource("output.json", document))
	schema, err := compiler.Compile("output.json")
	require.NoError(p.t, err)
	content, err := jsonschema.UnmarshalJSON(strings.NewReader(string(result.RawStructuredContent)))
	require.NoError(p.t, err)
	assert.NoError(p.t, schema.Validate(content))
}

func withKey(arguments map[string]any, key string) map[string]any {
	keyed := map[string]any{"idempotency_key": key}
	for name, value := range arguments {
		keyed[name] = value
	}
	return keyed
}

// textOf is the first text of a result.
func textOf(result *mcp.CallToolResult) string {
	for _, content := range result.Content {
		if text, ok := content.(mcp.TextContent); ok {
			return text.Text
		}
	}
	return ""
}

var publishedOnce = sync.OnceValues(installPublished)

// publishedFolder is where the servers are installed. Without Node the test is
// skipped, except in CI.
func publishedFolder(t *testing.T) string {
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			missing(t, "the published servers need "+program+", which is not installed")
		}
	}
	folder, err := publishedOnce()
	if err != nil {
		missing(t, "the published servers cannot be installed: "+err.Error())
	}
	return folder
}

func missing(t *testing.T, what string) {
	if os.Getenv("CI") == "true" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// installPublished installs the servers into the user's cache, once for all runs
// of the tests: an unfinished installation never stands under the final name.
func installPublished() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(cache, "mcp-idem-tests", "servers-"+publishedVersion)
	if _, err := os.Stat(folder); err == nil {
		return folder, nil
	}
	if err := os.MkdirAll(filepath.Dir(folder), 0o700); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(filepath.Dir(folder), "install-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	if err := npmInstall(work); err != nil {
		return "", err
	}
	if err := os.Rename(work, folder); err != nil {
		if _, exists := os.Stat(folder); exists != nil { // else another run was faster
			return "", err
		}
	}
	return folder, nil
}

func npmInstall(folder string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	args := []string{"install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error", "--prefix", folder}
	for _, server := range []string{"everything", "memory", "filesystem"} {
		args = append(args, "@modelcontextprotocol/server-"+server+"@"+publishedVersion)
	}
	cmd := exec.CommandContext(ctx, "npm", args...)
	cmd.Dir = folder
	cmd.Stderr = os.Stderr
	return cmd.Run()
}
