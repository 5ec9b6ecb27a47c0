package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
)

// A client is a program in which MCP servers can be registered.
type client struct {
	name, pkg, program        string
	env                       []string
	local, remote, credential []string // the arguments that register; see fill
	list                      func(context.Context, place) (map[string]bool, error)
}

var clients = []client{
	{name: "claude-code", pkg: "@anthropic-ai/claude-code", program: "claude", list: mcpList, env: []string{"DISABLE_AUTOUPDATER=1"},
		local:      []string{"mcp", "add", "NAME", "--", "COMMAND", "ARGS"},
		remote:     []string{"mcp", "add", "--transport", "http", "NAME", "URL"},
		credential: []string{"--header", "Authorization: Bearer ${MCP_TOKEN}"}},
	{name: "codex", pkg: "@openai/codex", program: "codex", list: codexList,
		local:      []string{"mcp", "add", "NAME", "--", "COMMAND", "ARGS"},
		remote:     []string{"mcp", "add", "NAME", "--url", "URL"},
		credential: []string{"--bearer-token-env-var", "MCP_TOKEN"}},
	{name: "copilot", pkg: "@github/copilot", program: "copilot", list: copilotList, env: []string{"COPILOT_OFFLINE=true", "COPILOT_MODEL=gpt-4.1"},
		local:      []string{"mcp", "add", "NAME", "--", "COMMAND", "ARGS"},
		remote:     []string{"mcp", "add", "--transport", "http", "NAME", "URL"},
		credential: []string{"--header", "Authorization: Bearer ${MCP_TOKEN}"}},
	{name: "gemini", pkg: "@google/gemini-cli", program: "gemini", list: mcpList,
		local:      []string{"mcp", "add", "-s", "user", "NAME", "COMMAND", "--", "ARGS"},
		remote:     []string{"mcp", "add", "-s", "user", "-t", "http", "NAME", "URL"},
		credential: []string{"-H", "Authorization: Bearer ${MCP_TOKEN}"}},
	{name: "opencode", pkg: "opencode-ai", program: "opencode", list: mcpList,
		local:      []string{"mcp", "add", "NAME", "--", "COMMAND", "ARGS"},
		remote:     []string{"mcp", "add", "NAME", "--url", "URL"},
		credential: []string{"--header", "Authorization=Bearer {env:MCP_TOKEN}"}},
}

// mcpList is for clients whose mcp list connects to the servers.
func mcpList(ctx context.Context, p place) (map[string]bool, error) {
	said, err := p.ask(ctx, "mcp", "list")
	return ticked(said), err
}

var (
	colours = regexp.MustCompile("\x1b\\[[0-9;]*m")
	tick    = regexp.MustCompile(`(?m)^\W*✓ (\w+)|^(\w+): .* ✔ Connected`)
)

// ticked finds the names on lines with a tick: before the name, or behind the command.
func ticked(said string) map[string]bool {
	names := map[string]bool{}
	for _, m := range tick.FindAllStringSubmatch(colours.ReplaceAllString(said, ""), -1) {
		names[m[1]+m[2]] = true
	}
	return names
}

// codexList asks Codex's app server: codex mcp list only reads the file.
func codexList(ctx context.Context, p place) (connected map[string]bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := p.command(ctx, "app-server")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	_, err = fmt.Fprintln(stdin, `{"id":1,"method":"initialize","params":{"clientInfo":{"name":"mcp-idem","version":"1"}}}
{"method":"initialized"}
{"id":2,"method":"mcpServerStatus/list","params":{}}`)
	if err == nil {
		connected, err = withTools(stdout)
	}
	return connected, errors.Join(err, stdin.Close(), cmd.Wait())
}

// withTools reads what the app server says up to its list, and returns the servers of
// it that have tools.
func withTools(said io.Reader) (map[string]bool, error) {
	for lines := bufio.NewReader(said); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return nil, fmt.Errorf("no list of servers: %w", err)
		}
		var answer struct {
			ID     any
			Result struct {
				Data []struct {
					Name  string
					Tools map[string]any
				}
			}
		}
		if json.Unmarshal(line, &answer) != nil || answer.ID != 2.0 {
			continue
		}
		connected := map[string]bool{}
		for _, s := range answer.Result.Data {
			connected[s.Name] = len(s.Tools) > 0
		}
		return connected, nil
	}
}

// copilotList has Copilot ask a model that is none, and sees whose tools it offers:
// copilot mcp list only reads the file.
func copilotList(ctx context.Context, p place) (map[string]bool, error) {
	var mu sync.Mutex
	connected := map[string]bool{}
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		for _, name := range offered(r.Body) {
			connected[name] = true
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"done"},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
	}))
	p.env = append(p.env, "COPILOT_PROVIDER_BASE_URL="+model.URL+"/v1")
	said, err := p.ask(ctx, "-p", "hello", "--allow-all-tools", "--trust-folder")
	model.Close() // waits for the handlers
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, said)
	}
	return connected, err
}

// offered returns the servers of the tools in a request for a completion: a tool is
// called by its server's name, a hyphen and its own.
func offered(request io.Reader) (names []string) {
	var ask struct {
		Tools []struct{ Function struct{ Name string } }
	}
	if json.NewDecoder(request).Decode(&ask) != nil {
		return nil // it asks for something else
	}
	for _, t := range ask.Tools {
		if name, _, ok := strings.Cut(t.Function.Name, "-"); ok {
			names = append(names, name)
		}
	}
	return names
}
