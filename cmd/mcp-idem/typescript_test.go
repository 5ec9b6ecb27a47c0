package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/gateway"
	"github.com/mcp-idem/mcp-idem/upstream/upstreamtest"
)

// TestTypeScriptClient puts the client of the TypeScript SDK 1.x before the
// gateway. It is the strictest of the clients: it validates structuredContent
// against the outputSchema on errors too, and wants one on every success.
// testdata/typescript has the client, the kinds of schemas and the plays; what
// needs more than calls is below.
func TestTypeScriptClient(t *testing.T) {
	t.Parallel()
	folder := typescriptFolder(t)
	raw, err := os.ReadFile(filepath.Join(folder, "plays.json"))
	require.NoError(t, err)
	var script struct {
		Kinds []schemaKind
		Plays []tsPlay
	}
	require.NoError(t, json.Unmarshal(raw, &script))
	tests := map[string]func(*typescript){
		"takes what is said of a call that is not known":         (*typescript).unknown,
		"takes what is said while the server is down":            (*typescript).unreachable,
		"accepts the arguments that the offered schemas ask for": (*typescript).inputs,
	}
	for _, p := range script.Plays {
		tests[p.Name] = p.play
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(&typescript{t: t, folder: folder, dir: t.TempDir(), kinds: script.Kinds})
		})
	}
}

// A tsPlay is gateways with one ledger, one after the other.
type tsPlay struct {
	Name     string
	Gateways []struct {
		Flags, Faults      []string
		Direct, Schemaless bool // no gateway at all; a server whose tools have no outputSchema
		Rounds             []round
		Effects            int // of each kind of tool
	}
}

func (p tsPlay) play(ts *typescript) {
	for i, g := range p.Gateways {
		stage, file := *ts, fmt.Sprint("eff", i)
		stage.direct, stage.schemaless = g.Direct, g.Schemaless
		c := stage.gateway(file, stage.faults(g.Faults...), g.Flags...)
		for _, r := range g.Rounds {
			c.round(r)
		}
		ts.effects(file, g.Effects*len(ts.kinds))
	}
}

// unknown settles by hand what nobody has answered.
func (ts *typescript) unknown() {
	slow := ts.gateway("slow", ts.faults("do=gate:open"), "--wait", "50ms")
	first := round{Case: "first", Order: "A", Key: "order:A:1", Outcome: gateway.Completed, Shape: "answer"}
	slow.begin(first)
	upstreamtest.WaitForEffects(ts.t, ts.path("slow"), len(ts.kinds))
	slow.round(round{Case: "again", Order: "A", Key: "order:A:1", Outcome: gateway.Running, Shape: "outcome"})
	slow.round(round{Case: "status", Status: true, Key: "order:A:1", Outcome: gateway.Running, Shape: "status"})
	upstreamtest.Open(ts.t, ts.dir, "open")
	slow.end(first)

	c := ts.gateway("lost", ts.faults("do=drop"), "--call-timeout", "500ms", "--late-window", "0")
	for _, order := range []string{"B", "C"} {
		c.round(round{Case: order, Order: order, Key: "order:" + order + ":1", Outcome: gateway.EffectUnknown, Reason: "timeout", Shape: "outcome"})
	}
	c.round(round{Case: "status", Status: true, Key: "order:B:1", Outcome: gateway.EffectUnknown, Reason: "timeout", Shape: "status"})
	for _, k := range ts.kinds {
		ts.resolve(c.answer(k.tool(), "B").Operation)
		ts.resolve(c.answer(k.tool(), "C").Operation, "--result", filepath.Join(ts.folder, "result.json"))
	}
	c.round(round{Case: "settled", Order: "B", Key: "order:B:1", Outcome: gateway.Completed, Reason: "resolved_executed", Replay: true, Shape: "not kept"})
	c.round(round{Case: "with a text", Order: "C", Key: "order:C:1", Outcome: gateway.Completed, Reason: "resolved_executed", Replay: true, Shape: "text"})
	c.round(round{Case: "status then", Status: true, Key: "order:B:1", Outcome: gateway.Completed, Reason: "resolved_executed", Shape: "status"})
	ts.effects("lost", 2*len(ts.kinds))
}

// unreachable has the server die, and takes away what it needs to start again.
func (ts *typescript) unreachable() {
	c := ts.gateway("eff", append(ts.faults(), "--fault", "create_plain:nth=2,do=kill"))
	c.round(round{Case: "fresh", Order: "A", Key: "order:A:1", Outcome: gateway.Completed, Shape: "answer"})
	require.NoError(ts.t, os.Remove(ts.path("eff.tools.json")))
	c.send("create_plain", "killed", `{"order":"B","idempotency_key":"order:B:1"}`, "")
	assert.Equal(ts.t, gateway.EffectUnknown, c.answer("create_plain", "killed").Outcome)

	down := round{Case: "down", Order: "C", Key: "order:C:1", Outcome: gateway.FailedBeforeInput, Reason: "unreachable", Shape: "outcome"}
	c.begin(down) // which waits for the server for a while
	c.round(round{Case: "again", Order: "A", Key: "order:A:1", Outcome: gateway.Completed, Replay: true, Shape: "answer again"})
	c.end(down)
	ts.effects("eff", len(ts.kinds)+1)
}

// inputs has the kinds of schemas for arguments. What can take no key is not offered.
func (ts *typescript) inputs() {
	c := ts.gateway("eff", nil)
	for _, k := range ts.kinds {
		if k.Schema == nil {
			continue
		}
		const key = `{"idempotency_key":"order:1:1",`
		for arguments, want := range map[string]bool{string(k.Content): false, key + string(k.Content[1:]): true, key + `"id":5}`: false} {
			c.send("submit_"+k.Name, arguments, arguments, `,"check":true`)
			if a := c.answer("submit_"+k.Name, arguments); a.Offered || k.Keyed {
				assert.Equal(ts.t, want, a.Accepted, "%s: %s", k.Name, arguments)
			}
		}
	}
}

// A typescript is a folder with a ledger, for gateways with clients before them.
type typescript struct {
	t                  *testing.T
	folder, dir        string // of the client; of the ledger
	kinds              []schemaKind
	direct, schemaless bool // see tsPlay
}

func (ts *typescript) path(name string) string { return filepath.Join(ts.dir, name) }

// gateway starts a client, a gateway and the scripted server.
func (ts *typescript) gateway(effects string, faults []string, flags ...string) *tsClient {
	server := ts.upstream(effects, faults)
	if ts.direct {
		return ts.start(server)
	}
	command := []string{"mcp-idem", "wrap", "--ledger", ts.path("ledger.db"), "--name", "shop", "--account", "one", "--log-level", "error"}
	return ts.start(slices.Concat(command, flags, []string{"--"}, server))
}

// faults has the tools answer with content that fits, and adds faults to each; one
// with CONTENT is for those that have some.
func (ts *typescript) faults(more ...string) (flags []string) {
	fits := `do=result:{"content":[{"type":"text","text":"done"}],"structuredContent":CONTENT}`
	for _, k := range ts.kinds {
		for _, spec := range append([]string{fits}, more...) {
			if k.Content != nil && !ts.schemaless || !strings.Contains(spec, "CONTENT") {
				flags = append(flags, "--fault", k.tool()+":"+strings.ReplaceAll(spec, "CONTENT", string(k.Content)))
			}
		}
	}
	return flags
}

// upstream is the scripted server's command. Of the three tools of a kind one has it
// for its inputSchema, and the other two, of which one reads, for their outputSchema.
func (ts *typescript) upstream(effects string, faults []string) []string {
	var tools []string
	for _, k := range ts.kinds {
		rest := `,"inputSchema":{"type":"object","properties":{"order":{"type":"string"}}}`
		if k.Schema != nil && !ts.schemaless {
			rest += `,"outputSchema":` + string(k.Schema)
			tools = append(tools, fmt.Sprintf(`{"name":"get_%s"%s}`, k.Name, rest), fmt.Sprintf(`{"name":"submit_%s","inputSchema":%s}`, k.Name, k.Schema))
		}
		tools = append(tools, fmt.Sprintf(`{"name":"%s"%s}`, k.tool(), rest))
	}
	file := ts.path(effects + ".tools.json")
	require.NoError(ts.t, os.WriteFile(file, []byte("["+strings.Join(tools, ",")+"]"), 0o600))
	return append([]string{"scripted", "--effects", ts.path(effects), "--gate", ts.dir, "--tools", file}, faults...)
}

func (ts *typescript) effects(file string, want int) {
	done, err := upstreamtest.Effects(ts.path(file))
	require.NoError(ts.t, err)
	assert.Len(ts.t, done, want, "effects")
}

// resolve says that an operation was executed.
func (ts *typescript) resolve(operation string, flags ...string) {
	args := append([]string{"ledger", "resolve", operation, "--ledger", ts.path("ledger.db"), "--executed", "--by", "ada", "--note", "asked the shop"}, flags...)
	out, err := exec.Command("mcp-idem", args...).CombinedOutput()
	require.NoError(ts.t, err, "%s", out)
}

// start starts the client, and through it the command of a server.
func (ts *typescript) start(server []string) *tsClient {
	ctx, cancel := context.WithTimeout(context.Background(), 6*patience)
	cmd := exec.CommandContext(ctx, "node", append([]string{filepath.Join(ts.folder, "client.mjs")}, server...)...)
	cmd.Env, cmd.Stderr = upstreamtest.Env(), ts.t.Output()
	stdin, err := cmd.StdinPipe()
	require.NoError(ts.t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(ts.t, err)
	require.NoError(ts.t, cmd.Start())
	ts.t.Cleanup(func() {
		defer cancel()
		assert.NoError(ts.t, stdin.Close())
		assert.NoError(ts.t, cmd.Wait())
	})
	c := &tsClient{typescript: ts, stdin: stdin, stdout: bufio.NewScanner(stdout), answered: map[string]tsAnswer{}}
	c.answer("", "tools/list")
	return c
}

// A schemaKind is one way to write a schema, with a content that fits. The SDK
// takes none whose root does not say that it is of type object.
type schemaKind struct {
	Name            string
	Schema, Content json.RawMessage // nil for none
	Told, Keyed     bool            // a replay must tell the outcome; a tool with such arguments must be offered
}

func (k schemaKind) tool() string { return "create_" + k.Name }

// A shape is what a client sees of a result apart from its outcome: isError, that
// there is a structuredContent, and that the outcome stands in it.
type shape [3]bool

// shapes are the rows of the table of what results look like. Room says that the
// offered schema lets the outcome stand in the structuredContent.
func (k schemaKind) shapes(room bool) map[string]shape {
	has, free := k.Content != nil, k.Schema == nil
	return map[string]shape{
		"answer": {false, has, false}, "answer again": {false, has, k.Told || room}, "bare answer": {},
		"error": {true, has, false}, "error again": {true, has, room}, "bare error": {true, false, false},
		"outcome": {true, free, free}, "status": {false, true, true},
		"not kept": {!free, free, free}, "text": {!free, false, false},
	}
}

// A round is one call of each kind of tool, or one question for each after the
// status of its key, and what is to be said.
type round struct {
	Case, Order, Key       string // no key is none
	Status, Task           bool
	Outcome, Reason, Shape string
	Replay                 bool
	Throws                 string // what the SDK throws where there is a schema
}

// A tsAnswer is what the client says of a call; see its README.
type tsAnswer struct {
	Tool, Case, Threw, Outcome, Reason, Operation                   string
	Replay, IsError, Structured, Annotated, Room, Offered, Accepted bool
}

// A tsClient is a running client.mjs.
type tsClient struct {
	*typescript
	stdin    io.Writer
	stdout   *bufio.Scanner
	answered map[string]tsAnswer // by tool and case
}

func (c *tsClient) send(tool, name, arguments, more string) {
	_, err := fmt.Fprintf(c.stdin, "{\"tool\":%q,\"case\":%q,\"arguments\":%s%s}\n", tool, name, arguments, more)
	require.NoError(c.t, err)
}

// receive reads until a call is answered.
func (c *tsClient) receive(tool, name string) tsAnswer {
	for {
		if a, ok := c.answered[tool+" "+name]; ok {
			return a
		}
		require.True(c.t, c.stdout.Scan(), "the client has ended without a word on %s: %s", tool, name)
		var a tsAnswer
		require.NoError(c.t, json.Unmarshal(c.stdout.Bytes(), &a))
		c.answered[a.Tool+" "+a.Case] = a
	}
}

// answer receives what the SDK must take.
func (c *tsClient) answer(tool, name string) tsAnswer {
	a := c.receive(tool, name)
	assert.Empty(c.t, a.Threw, "the client throws at %s: %s", tool, name)
	return a
}

func (c *tsClient) round(r round) {
	c.begin(r)
	c.end(r)
}

func (c *tsClient) begin(r round) {
	for _, k := range c.kinds {
		tool, name := r.about(k)
		arguments := fmt.Sprintf(`{"order":%q,"idempotency_key":%q}`, r.Order, r.Key)
		if r.Status {
			arguments = fmt.Sprintf(`{"tool":%q,"idempotency_key":%q}`, k.tool(), r.Key)
		}
		arguments = strings.Replace(arguments, `,"idempotency_key":""`, "", 1) // no key is none
		c.send(tool, name, arguments, fmt.Sprintf(`,"task":%t`, r.Task))
	}
}

// end compares what the client sees of the results with what it should.
func (c *tsClient) end(r round) {
	for _, k := range c.kinds {
		a := c.receive(r.about(k))
		if r.Throws != "" && k.Schema != nil {
			assert.Contains(c.t, a.Threw, r.Throws, "%s: %s", a.Tool, a.Case)
			continue
		}
		if a = c.answer(r.about(k)); a.Threw != "" || r.Throws != "" {
			continue // the test has failed, or there is no schema to break
		}
		require.Contains(c.t, k.shapes(a.Room), r.Shape)
		want := []any{r.Outcome, r.Reason, r.Replay, k.shapes(a.Room)[r.Shape]}
		assert.Equal(c.t, want, []any{a.Outcome, a.Reason, a.Replay, shape{a.IsError, a.Structured, a.Annotated}}, "%s: %s", a.Tool, a.Case)
	}
}

// about returns the tool to call about a kind, and the name of the call.
func (r round) about(k schemaKind) (tool, name string) {
	if r.Status {
		return gateway.StatusTool, r.Case + " of " + k.tool()
	}
	return k.tool(), r.Case
}

// typescriptFolder installs the client. Without Node the test is skipped.
func typescriptFolder(t *testing.T) string {
	folder := t.TempDir()
	require.NoError(t, os.CopyFS(folder, os.DirFS(filepath.Join("..", "..", "testdata", "typescript"))))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund", "--loglevel", "error")
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil {
		missing(t, fmt.Sprintf("the TypeScript client cannot be installed: %v\n%s", err, out))
	}
	return folder
}
