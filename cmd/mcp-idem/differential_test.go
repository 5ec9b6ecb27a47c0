package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/upstream/upstreamtest"
)

// ownCapabilities are those of the clients in the differential test.
const ownCapabilities = `{"roots":{"listChanged":true},"sampling":{},"elicitation":{"form":{},"url":{}},` +
	`"tasks":{"requests":{"sampling":{"createMessage":{}},"elicitation":{"create":{}}}}}`

// A lab has the published servers, directly and behind a gateway, and what they work
// on.
type lab struct {
	t      *testing.T
	root   string // the folder of the files
	config string
	mode   labMode
	alone  map[string]*sync.Mutex // by server
}

// A labMode is how clients and the gateway come together.
type labMode struct {
	name    string
	http    bool
	process string // shared or per_session
	shared  bool   // clients share the servers
}

var labModes = []labMode{
	{name: "stdio, a process for each client"},
	{name: "HTTP, servers of the session", http: true, process: "per_session"},
	{name: "HTTP, shared servers", http: true, process: "shared", shared: true},
}

// TestThroughServeAllIsAsItIsDirectly has two clients at a time use each method of the
// protocol before three published servers behind one gateway, and compares all that
// they are told with what the servers tell a client of their own. What differs is in
// asDirect, and there alone.
func TestThroughServeAllIsAsItIsDirectly(t *testing.T) {
	t.Parallel()
	publishedFolder(t)
	for _, mode := range labModes {
		t.Run(mode.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, mode)
			direct := map[string]map[string]record{"ada": l.directly("ada"), "bob": l.directly("bob")}
			address := ""
			if mode.http {
				address = serveHTTP(t, "mcp-idem", "serve", "--http=127.0.0.1:0", l.config)
			}
			var both sync.WaitGroup
			for tag, parts := range map[string][]part{
				"ada": {everythingSteps, filesSteps, memorySteps}, "bob": {memorySteps, everythingSteps, filesSteps},
			} {
				w := l.connect(tag, address)
				both.Go(func() { l.compare(w, tag, parts, direct[tag]) })
			}
			both.Wait()
		})
	}
}

func newLab(t *testing.T, mode labMode) *lab {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	l := &lab{t: t, mode: mode, root: filepath.Join(dir, "root"), config: filepath.Join(dir, "servers.yaml"), alone: map[string]*sync.Mutex{}}
	require.NoError(t, os.Mkdir(l.root, 0o700))
	var text strings.Builder
	text.WriteString("mcpServers:\n")
	for _, p := range []part{everythingSteps, filesSteps, memorySteps} {
		l.alone[p.server] = &sync.Mutex{}
		command, err := json.Marshal(l.command(p.server)[1:])
		require.NoError(t, err)
		fmt.Fprintf(&text, "  %s: { command: node, args: %s, env: { MEMORY_FILE_PATH: \"${GRAPH:-%s}\" }, idempotency: { tools: { \"*\": { near_duplicate: off } } } }\n", p.server, command, filepath.Join(dir, "graph.json"))
	}
	text.WriteString("idempotency: { ledger: ./ledger.db, log_format: json")
	if mode.process != "" {
		text.WriteString(", process: " + mode.process)
	}
	text.WriteString(" }\n")
	require.NoError(t, os.WriteFile(l.config, []byte(text.String()), 0o600))
	return l
}

// command is the command line of a server.
func (l *lab) command(server string) []string {
	folder := map[string]string{"everything": "everything", "files": "filesystem", "memory": "memory"}[server]
	command := []string{"node", filepath.Join(publishedFolder(l.t), "node_modules", "@modelcontextprotocol", "server-"+folder, "dist", "index.js")}
	if server == "files" {
		command = append(command, l.root)
	}
	return command
}

// answers are what the clients answer to servers.
func (l *lab) answers() map[string]string {
	return map[string]string{
		"roots/list":             `{"roots":[{"uri":"file://` + l.root + `","name":"files"}]}`,
		"sampling/createMessage": `{"role":"assistant","content":{"type":"text","text":"me, 9007199254740993"},"model":"none","stopReason":"endTurn"}`,
		"elicitation/create":     `{"action":"accept","content":{"name":"Ada","check":true}}`,
	}
}

// A record is what a client was told in each step, as lines.
type record map[string][]string

// directly plays the parts before servers of the client's own.
func (l *lab) directly(tag string) map[string]record {
	records := map[string]record{}
	for _, p := range []part{everythingSteps, filesSteps, memorySteps} {
		command := l.command(p.server)
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Env = append(platformEnvironment(), "MEMORY_FILE_PATH="+filepath.Join(l.t.TempDir(), "graph.json"))
		w := witnessOf(l.t, cmd, l.answers())
		a := &actor{lab: l, t: l.t, w: w, tag: tag}
		welcome := w.greet(l.t, ownCapabilities)
		a.settle(firstWords[p.server]...)
		records[p.server] = a.play(p)
		records[p.server]["welcome"] = []string{string(welcome.Result)}
		if p.server == "everything" {
			a.cancel()
		}
		for _, method := range listMethods {
			records[p.server][method] = []string{string(w.request(l.t, method, "{}").Result)}
		}
		w.wire.(*pipeWire).kill() // timers keep a server of these alive when its input has ended
		w.saying.Wait()
		require.NoError(l.t, os.RemoveAll(filepath.Join(l.root, tag)))
	}
	return records
}

// platformEnvironment is what servers under serve get of the environment.
func platformEnvironment() (env []string) {
	for _, name := range []string{"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"} {
		if value, set := os.LookupEnv(name); set {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// firstWords is what servers say after the handshake, besides that their lists have
// changed.
var firstWords = map[string][]string{"everything": {"roots/list", logged}, "files": {"roots/list"}, "memory": nil}

var listMethods = []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"}

// connect lets a client come to the gateway.
func (l *lab) connect(tag, address string) *witness {
	if address != "" {
		return witnessAt(address, l.answers())
	}
	program, err := exec.LookPath("mcp-idem")
	require.NoError(l.t, err)
	cmd := exec.Command(program, "serve", l.config)
	cmd.Env = append(upstreamtest.Env(), "GRAPH="+filepath.Join(l.t.TempDir(), "graph.json"))
	return witnessOf(l.t, cmd, l.answers())
}

// compare plays the parts before the gateway, and compares.
func (l *lab) compare(w *witness, tag string, parts []part, direct map[string]record) {
	a := &actor{lab: l, t: l.t, w: w, tag: tag, gateway: true}
	welcome := w.greet(l.t, ownCapabilities)
	if !l.mode.shared {
		a.settle(slices.Concat(firstWords["everything"], firstWords["files"])...)
	}
	a.heard = w.mark()
	l.compareWelcome(welcome, direct)
	for _, p := range parts {
		got := a.play(p)
		for _, s := range p.steps {
			if s.own && l.mode.shared {
				continue
			}
			want := direct[p.server][s.name]
			if d, ok := differs[s.name]; ok {
				assert.NotEqual(l.t, []string{d.line}, want, "%s: it does not differ", s.name)
				want = []string{d.line}
			}
			if line, ok := differsShared[s.name]; ok && l.mode.shared {
				want = []string{line}
			}
			assert.Equal(l.t, want, got[s.name], "%s: %s: %s", tag, p.server, s.name)
		}
	}
	l.compareLists(a, direct)
	a.cancel()
	w.leave(l.t)
}

// An actor is a client in the differential test.
type actor struct {
	*lab
	t       *testing.T
	w       *witness
	tag     string
	gateway bool // the client is before it
	heard   int  // of what the witness has heard
	task    string
	keys    int
}

// settle waits for what comes of the handshake.
func (a *actor) settle(methods ...string) {
	heard := a.w.since(a.t, 0, "what servers say at first", func(heard []jsonrpc.Message) bool { return holds(heard, methods) })
	a.heard = len(heard)
}

// holds reports whether there is a message of each of the methods.
func holds(heard []jsonrpc.Message, methods []string) bool {
	for _, method := range methods {
		wanted := len(slices.DeleteFunc(slices.Clone(methods), func(m string) bool { return m != method }))
		for _, m := range heard {
			if m.Method == method {
				wanted--
			}
		}
		if wanted > 0 {
			return false
		}
	}
	return true
}

// play plays a part, and returns what came of it.
func (a *actor) play(p part) record {
	got := record{}
	locked := false
	lock := func(want bool) {
		if want != locked && a.gateway && a.mode.http {
			if locked = want; want {
				a.alone[p.server].Lock()
			} else {
				a.alone[p.server].Unlock()
			}
		}
	}
	for _, s := range p.steps {
		if lock(s.alone); !s.own || !a.gateway || !a.mode.shared {
			got[s.name] = a.step(p.server, s)
		}
	}
	lock(false)
	return got
}

// step makes one step.
func (a *actor) step(server string, s step) (lines []string) {
	id := a.w.ask(a.t, s.method, a.filled(server, s.params))
	heard := a.w.since(a.t, a.heard, s.name, func(heard []jsonrpc.Message) bool {
		_, ok := answerTo(heard, id)
		return ok && holds(heard, slices.DeleteFunc(slices.Clone(s.beside), a.isForAll))
	})
	a.heard += len(heard)
	for _, m := range heard {
		if !a.isForAll(m.Method) {
			lines = append(lines, a.line(server, m))
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// isForAll reports whether what servers say by the method is said to nobody in
// particular: who shares a server hears of the others' lists too, of log messages only
// what is sure to be its own, and of tasks when it asks.
func (a *actor) isForAll(method string) bool {
	return a.mode.shared && (method == logged || method == "notifications/tasks/status" || strings.HasSuffix(method, "/list_changed"))
}

// filled are the params of a step.
func (a *actor) filled(server, params string) string {
	prefix, key := "", ""
	if a.gateway {
		a.keys++
		prefix, key = server+"__", fmt.Sprintf(`,"idempotency_key":"step:%s-%s:%d"`, a.tag, server, a.keys)
	}
	return strings.NewReplacer("@", prefix, "KEY", key, "ROOT", a.root, "TAG", a.tag, "TASK", a.task).Replace(params)
}

var taskID = regexp.MustCompile(`"taskId":"([^"]+)"`)

// line is a message without what differs between two runs.
func (a *actor) line(server string, m jsonrpc.Message) string {
	text := ""
	switch {
	case m.Method != "":
		text = m.Method + " " + string(m.Params)
	case m.Error != nil:
		text = "error " + string(m.Error)
	default:
		if found := taskID.FindSubmatch(m.Result); found != nil {
			a.task = string(found[1])
		}
		text = "result " + string(withoutOutcome(m.Result))
	}
	if a.gateway {
		text = strings.ReplaceAll(text, server+"__", "")
	}
	for _, v := range varying {
		text = v.pattern.ReplaceAllString(text, v.word)
	}
	return text
}

// varying is what servers say otherwise each time.
var varying = []struct {
	pattern *regexp.Regexp
	word    string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z`), "TIME"},
	{regexp.MustCompile(`\d{1,2}:\d\d:\d\d [AP]M`), "TIME"},
	{regexp.MustCompile(`[A-Z][a-z]{2} [A-Z][a-z]{2} \d\d \d{4} [\d:]+ GMT[^\\"]*`), "TIME"},
	{regexp.MustCompile(`("uri":"demo://resource/dynamic/blob/1",.*"blob":)"[^"]+"`), `$1"BLOB"`},
	{regexp.MustCompile(`[0-9a-f]{32}`), "TASK"},
	{regexp.MustCompile(`"(Gathering sources|Analyzing content|Synthesizing findings|Generating report)\.\.\."`), `"STAGE"`},
	{regexp.MustCompile(`"level":"[a-z]+","data":"[A-Z][a-z]+[- ]level[- ]message`), `"level":"LEVEL","data":"MESSAGE`},
	{regexp.MustCompile(`[^"\\]*/graph\.json`), "GRAPH"},
	{regexp.MustCompile(`"elicitationId":"[0-9a-f-]{36}"`), `"elicitationId":"ID"`},
	{regexp.MustCompile(`("tasks":.*),"_meta":\{\}\}$`), `$1}`}, // lists are put together, and what is said beside them is not
}
