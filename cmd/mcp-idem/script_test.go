package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/upstream/upstreamtest"
)

// TestScripts runs testdata/script, whose README says what the commands do.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("..", "..", "testdata", "script"),
		Setup: func(env *testscript.Env) error {
			env.Setenv("MCP_IDEM_LEDGER", filepath.Join(env.WorkDir, "ledger.db"))
			env.Setenv("MCP_IDEM_LATE_START", patience.String())
			env.Setenv("GORACE", "atexit_sleep_ms=0") // the race detector would sleep for a second
			p := &play{environment: env.Vars, sessions: map[string]*session{}, running: map[string]*pending{}}
			env.Values[playKey{}] = p
			env.Defer(p.endAll)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"mcp": drive, "outcome": outcome, "save": save, "result": result,
			"effects": effects, "await": await, "touch": touch, "fill": fill, "refusal": refusal, "sqlite": execute,
			"until": until,
		},
		Condition: func(name string) (bool, error) {
			if name != "root" {
				return false, fmt.Errorf("there is no condition %q", name)
			}
			return os.Geteuid() == 0, nil
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

type playKey struct{}

// A play is what one script has going on.
type play struct {
	ts          *testscript.TestScript
	environment []string // of gateways
	sessions    map[string]*session
	running     map[string]*pending // started calls, by session and name
	last        jsonrpc.Message     // the newest response that was printed
}

func playOf(ts *testscript.TestScript) *play {
	p := ts.Value(playKey{}).(*play)
	p.ts = ts
	return p
}

// endAll leaves no gateway behind where a script fails, or forgets one.
func (p *play) endAll() {
	for _, s := range p.sessions {
		s.dismiss()
	}
}

// verbs are the subcommands of mcp, with how many arguments they take at least
// and at most behind the session's name; -1 is any number.
var verbs = map[string]struct {
	least, most int
	do          func(p *play, neg bool, name string, args []string) error
}{
	"open": {1, -1, (*play).open}, "launch": {1, -1, (*play).launch}, "greet": {0, 0, (*play).greet},
	"call": {2, 3, (*play).call}, "request": {1, 2, (*play).request}, "burst": {3, 3, (*play).burst},
	"start": {3, 4, (*play).start}, "wait": {1, 1, (*play).wait}, "cancel": {1, 1, (*play).cancel},
	"send": {1, 1, (*play).send}, "sendfile": {1, 1, (*play).sendFile}, "recv": {0, 1, (*play).receive},
	"eof": {0, 0, (*play).endOfInput}, "hangup": {0, 0, (*play).hangUp}, "signal": {1, 1, (*play).signal}, "insist": {1, 1, (*play).insist}, "exit": {0, 1, (*play).exit},
	"kill": {0, 0, (*play).kill}, "close": {0, 0, (*play).close},
}

func drive(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: mcp VERB SESSION [ARG...]")
	}
	verb, ok := verbs[args[0]]
	rest := args[2:]
	if !ok || len(rest) < verb.least || verb.most >= 0 && len(rest) > verb.most {
		ts.Fatalf("mcp %s: no such verb, or not with %d arguments", args[0], len(rest))
	}
	if err := verb.do(playOf(ts), neg, args[1], rest); err != nil {
		ts.Fatalf("mcp %s %s: %v", args[0], args[1], err)
	}
}

// session finds a session by its name.
func (p *play) session(name string) *session {
	s := p.sessions[name]
	if s == nil {
		p.ts.Fatalf("there is no session %q", name)
	}
	return s
}

func (p *play) launch(_ bool, name string, args []string) error {
	if before := p.sessions[name]; before != nil {
		before.kill()
	}
	program, err := exec.LookPath("mcp-idem")
	if err != nil {
		return err
	}
	cmd := exec.Command(program, args...)
	cmd.Dir = p.ts.MkAbs(".")
	cmd.Env = p.variables()
	s, err := startSession(cmd, p.ts.MkAbs(name+".log"))
	if err == nil {
		p.sessions[name] = s
	}
	return err
}

// changeable are the variables that a script may set for the gateways that it
// starts.
var changeable = []string{"MCP_IDEM_LEDGER", "MCP_IDEM_CALL_TIMEOUT", "MCP_IDEM_KEYS", "MCP_IDEM_NATIVE_KEY", "XDG_STATE_HOME"}

// variables are the environment of a gateway: the script's own at its beginning,
// with what it has changed since. Of two values of one name the later counts.
func (p *play) variables() []string {
	vars := slices.Clone(p.environment)
	for _, name := range changeable {
		if value := p.ts.Getenv(name); value != "" || name == "MCP_IDEM_LEDGER" {
			vars = append(vars, name+"="+value)
		}
	}
	return vars
}

func (p *play) open(neg bool, name string, args []string) error {
	if err := p.launch(neg, name, args); err != nil {
		return err
	}
	return p.greet(neg, name, nil)
}

func (p *play) greet(_ bool, name string, _ []string) error { return p.session(name).handshake() }

func (p *play) request(neg bool, name string, args []string) error {
	var params []byte
	if len(args) > 1 {
		params = []byte(args[1])
	}
	asked, err := p.session(name).request(args[0], params)
	if err != nil {
		return err
	}
	return p.show(neg, asked)
}

func (p *play) ask(name string, args []string) (*pending, error) {
	meta := ""
	if len(args) > 2 {
		meta = args[2]
	}
	return p.session(name).request("tools/call", callParams(args[0], args[1], meta))
}

func (p *play) call(neg bool, name string, args []string) error {
	asked, err := p.ask(name, args)
	if err != nil {
		return err
	}
	return p.show(neg, asked)
}

func (p *play) start(_ bool, name string, args []string) error {
	asked, err := p.ask(name, args[1:])
	p.running[name+" "+args[0]] = asked
	return err
}

func (p *play) wait(neg bool, name string, args []string) error {
	asked := p.running[name+" "+args[0]]
	if asked == nil {
		return fmt.Errorf("there is no call %q", args[0])
	}
	return p.show(neg, asked)
}

// show waits for a response and prints it: the result, or with neg the error.
func (p *play) show(neg bool, asked *pending) error {
	m, err := asked.wait()
	if err != nil {
		return err
	}
	p.last = m
	switch {
	case neg && m.Error == nil:
		return fmt.Errorf("an error was expected, and the result is %s", m.Result)
	case !neg && m.Error != nil:
		return fmt.Errorf("a result was expected, and the error is %s", m.Error)
	case neg:
		return p.print(m.Error)
	}
	return p.print(m.Result)
}

func (p *play) print(line []byte) error {
	_, err := p.ts.Stdout().Write(jsonrpc.Line(line))
	return err
}

func (p *play) cancel(_ bool, name string, args []string) error {
	asked := p.running[name+" "+args[0]]
	if asked == nil {
		return fmt.Errorf("there is no call %q", args[0])
	}
	return p.session(name).writer.Write(jsonrpc.Notification("notifications/cancelled",
		fmt.Appendf(nil, `{"requestId":%s,"reason":"the script says so"}`, asked.id)))
}

func (p *play) send(_ bool, name string, args []string) error {
	_, err := p.session(name).stdin.Write([]byte(args[0] + "\n"))
	return err
}

func (p *play) sendFile(_ bool, name string, args []string) error {
	_, err := p.session(name).stdin.Write([]byte(p.ts.ReadFile(args[0])))
	return err
}

func (p *play) receive(_ bool, name string, args []string) error {
	pattern := ""
	if len(args) > 0 {
		pattern = args[0]
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	m, err := p.session(name).receive(re.Match)
	if err != nil {
		return err
	}
	return p.print(m.Raw())
}

func (p *play) endOfInput(_ bool, name string, _ []string) error {
	return p.session(name).stdin.Close()
}

func (p *play) hangUp(neg bool, name string, _ []string) error {
	return errors.Join(p.endOfInput(neg, name, nil), p.session(name).stdout.Close())
}

func (p *play) signal(_ bool, name string, args []string) error {
	signal, ok := signals[args[0]]
	if !ok {
		return fmt.Errorf("there is no signal %q", args[0])
	}
	return p.session(name).cmd.Process.Signal(signal)
}

func (p *play) exit(_ bool, name string, args []string) error {
	want := 0
	if len(args) > 0 {
		var err error
		if want, err = strconv.Atoi(args[0]); err != nil {
			return err
		}
	}
	got, err := p.session(name).exit()
	if err == nil && got != want {
		err = fmt.Errorf("exit status %d, not %d", got, want)
	}
	return err
}

func (p *play) kill(_ bool, name string, _ []string) error {
	s := p.session(name)
	s.kill()
	_, err := s.exit()
	return err
}

func (p *play) close(neg bool, name string, _ []string) error {
	if err := p.endOfInput(neg, name, nil); err != nil {
		return err
	}
	return p.exit(neg, name, nil)
}

// effects asserts how many effects an upstream had.
func effects(ts *testscript.TestScript, neg bool, args []string) {
	file := "eff"
	if len(args) > 1 {
		file = args[1]
	}
	done, err := upstreamtest.Effects(ts.MkAbs(file))
	ts.Check(err)
	if neg || len(args) < 1 || args[0] != strconv.Itoa(len(done)) {
		for _, e := range done {
			ts.Logf("%s %s (call %d, process %d)", e.Tool, e.Arguments, e.Call, e.PID)
		}
		ts.Fatalf("there were %d effects", len(done))
	}
}

// await waits for a file, or with a pattern for a line in it that matches.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: await FILE [PATTERN]")
	}
	pattern, err := regexp.Compile(strings.Join(args[1:], ""))
	ts.Check(err)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	end := time.After(patience)
	for {
		if data, err := os.ReadFile(ts.MkAbs(args[0])); err == nil && pattern.Match(data) {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			ts.Fatalf("waited in vain for %s %s", args[0], pattern)
		}
	}
}

// touch makes empty files.
func touch(ts *testscript.TestScript, neg bool, args []string) {
	for _, file := range args {
		ts.Check(os.WriteFile(ts.MkAbs(file), nil, 0o600))
	}
}
