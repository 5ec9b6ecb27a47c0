//go:build unix

package upstream_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/upstream"
	"github.com/mcp-idem/mcp-idem/upstream/upstreamtest"
)

// received are the messages that the server has read, of one method, from all its
// lives.
func (r *rig) received(method string) (some []jsonrpc.Message) {
	r.t.Helper()
	all, err := os.ReadFile(filepath.Join(r.dir, "received"))
	require.NoError(r.t, err)
	for line := range strings.Lines(string(all)) {
		m, err := jsonrpc.Parse([]byte(strings.TrimSuffix(line, "\n")))
		require.NoError(r.t, err)
		if m.Method == method {
			some = append(some, m)
		}
	}
	return some
}

// runAuto is run for a server whose era is not known. edit may be nil.
func runAuto(t *testing.T, edit func(*upstream.Options), flags ...string) *rig {
	return run(t, func(o *upstream.Options) {
		o.Era = upstream.EraAuto
		if edit != nil {
			edit(o)
		}
	}, append(flags, "--received", "DIR/received")...)
}

func TestEraOfAProcessIsFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		flags      string
		era, known upstream.Era
		found      upstream.Era // nothing where it was known
		asked      int          // how often server/discover was
		opened     int          // how often initialize was
	}{
		{"a modern server", "--era modern", "", "", upstream.EraModern, 1, 0},
		{"a modern server, known", "--era modern", "", upstream.EraModern, "", 1, 0},
		{"a modern server that was legacy", "--era modern", "", upstream.EraLegacy, upstream.EraModern, 1, 1},
		{"a legacy server", "", "", "", upstream.EraLegacy, 1, 1},
		{"a legacy server, known", "", "", upstream.EraLegacy, "", 0, 1},
		{"a legacy server that was modern", "", "", upstream.EraModern, upstream.EraLegacy, 1, 1},
		{"a server of both", "--era both", "", "", upstream.EraModern, 1, 0},
		{"a server of both, pinned to legacy", "--era both", upstream.EraLegacy, "", upstream.EraLegacy, 0, 1},
		{"a server of both, pinned to modern", "--era both", upstream.EraModern, "", upstream.EraModern, 1, 0},
		{"invalid params", "--fault server/discover:do=error:-32602:x", "", "", upstream.EraLegacy, 1, 1},
		{"a result that is none", "--fault server/discover:do=result:{}", "", "", upstream.EraLegacy, 1, 1},
		{"no JSON-RPC", "--fault server/discover:do=broken", "", "", upstream.EraLegacy, 1, 1},
		{"no answer", "--fault server/discover:do=hang", "", "", upstream.EraLegacy, 1, 1},
		{"it ends", "--fault server/discover:do=exit:1", "", "", upstream.EraLegacy, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := runAuto(t, func(o *upstream.Options) { o.Era, o.Known, o.Grace = c.era, c.known, 50*time.Millisecond }, strings.Fields(c.flags)...)
			answer := r.ask(r.ready(), toolCall("1", "refund", `{}`))
			assert.Contains(t, string(answer.Result), "re_1")
			assert.Len(t, r.received("server/discover"), c.asked)
			assert.Len(t, r.received("initialize"), c.opened)
			if c.found == "" {
				assert.Empty(t, r.eras)
			} else {
				assert.Equal(t, c.found, next(t, r.eras))
			}
			assert.Empty(t, r.restarts, "a first start is none")
		})
	}
}

func TestProcessThatClosesItsOutputAtTheProbeGetsASecondChance(t *testing.T) {
	t.Parallel()
	r := runAuto(t, func(o *upstream.Options) { o.Grace = 50 * time.Millisecond }, "--fault", "server/discover:do=close_stdout")
	answer := r.ask(r.ready(), toolCall("1", "refund", `{}`))
	assert.Contains(t, string(answer.Result), "re_1")
	assert.Equal(t, upstream.EraLegacy, next(t, r.eras))
	assert.Len(t, r.received("server/discover"), 1)
	assert.Empty(t, r.restarts)
}

func TestModernServerThatIsSlowToStartIsFoundToBeModern(t *testing.T) {
	t.Parallel()
	r := runAuto(t, nil, "--era", "modern", "--fault", "server/discover:when=before_read,do=delay:2s")
	answer := r.ask(r.ready(), toolCall("1", "refund", `{}`))
	assert.Contains(t, string(answer.Result), "re_1")
	assert.Equal(t, upstream.EraModern, next(t, r.eras))
	assert.Len(t, r.received("initialize"), 1)
}

func TestErrorAnswerToAFirstHandshakeIsTheServersOwn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		era   upstream.Era
		known upstream.Era
		flags []string
		text  string
	}{
		{"auto", "", "", []string{"--fault", "initialize:do=error:-32602:too old"}, "too old"},
		{"auto, known", "", upstream.EraLegacy, []string{"--fault", "initialize:do=error:-32602:too old"}, "too old"},
		{"modern", upstream.EraModern, "", nil, "Method not found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := runAuto(t, func(o *upstream.Options) { o.Era, o.Known = c.era, c.known }, c.flags...)
			for range 2 {
				m, err := r.Initialize(r.ctx(), []byte(clientParams))
				require.NoError(t, err)
				assert.Contains(t, string(m.Error), c.text)
			}
			assert.NoError(t, r.Err())
			assert.Empty(t, r.eras)
		})
	}
}

func TestFirstHandshakeThatFailsInAnyEraSaysWhy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		era   upstream.Era
		flags []string
		text  string
	}{
		{"it ends at both", "", []string{"--fault", "server/discover:do=exit:1", "--fault", "initialize:do=exit:3"}, "exited with status 3 before it answered initialize"},
		{"it ends at initialize", "", []string{"--fault", "initialize:do=exit:3"}, "exited with status 3 before it answered initialize"},
		{"it ends at once", "", []string{"--exit-before-initialize"}, "exited with status 1 before it answered initialize"},
		{"it ends, and is modern", upstream.EraModern, []string{"--fault", "server/discover:do=exit:3"}, "exited with status 3 before it answered server/discover"},
		{"no answer", "", []string{"--silent"}, "did not answer initialize within 200ms"},
		{"no answer, and it is modern", upstream.EraModern, []string{"--silent"}, "did not answer server/discover within 200ms"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := runAuto(t, func(o *upstream.Options) {
				if o.Era = c.era; strings.HasPrefix(c.name, "no answer") {
					o.StartTimeout = 200 * time.Millisecond
				}
			}, c.flags...)
			_, err := r.Initialize(r.ctx(), []byte(clientParams))
			var start *upstream.StartError
			require.ErrorAs(t, err, &start)
			assert.Contains(t, start.Reason, c.text)
			next(t, r.Failed())
			assert.Equal(t, error(start), r.Err())
		})
	}
}

func TestRestartRepeatsTheHandshakeOfItsEra(t *testing.T) {
	t.Parallel()
	r := runAuto(t, nil, "--era", "modern", "--fault", "refund:nth=1,do=exit")
	r.lost(r.send(r.ready(), toolCall("1", "refund", `{}`)), upstream.UpstreamExited)
	r.ask(next(t, r.restarts), toolCall("2", "refund", `{}`))
	r.counts(2)
	assert.Len(t, r.received("server/discover"), 2)
	assert.Empty(t, r.received("initialize"))
	assert.Empty(t, r.received("notifications/initialized"))
	assert.Len(t, r.eras, 1)
}

func TestServerThatIsAnotherAfterARestartIsFoundAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program, args := upstreamtest.Self("--effects", filepath.Join(dir, "effects"), "--fault", "refund:nth=1,do=exit", "--era", "modern")
	script := filepath.Join(dir, "server")
	write := func(flags string) {
		require.NoError(t, os.WriteFile(script+".new", []byte("#!/bin/sh\nexec '"+program+"' \"$@\" "+flags+"\n"), 0o700))
		require.NoError(t, os.Rename(script+".new", script))
	}
	write("")
	r := &rig{t: t, eras: make(chan upstream.Era, 10), exits: make(chan error, 1000), restarts: make(chan upstream.Session, 10)}
	o := r.limits()
	o.Era = upstream.EraAuto
	p, err := upstream.Start(upstream.Command{Name: "x", Path: script, Args: args, Env: upstreamtest.Env()}, o)
	require.NoError(t, err)
	r.Process = p
	s := r.ready()
	assert.Equal(t, upstream.EraModern, next(t, r.eras))

	write("--era legacy --fault server/discover:do=exit:7")
	r.lost(r.send(s, toolCall("1", "refund", `{}`)), upstream.UpstreamExited)
	r.ask(next(t, r.restarts), toolCall("2", "refund", `{}`))
	assert.Equal(t, upstream.EraLegacy, next(t, r.eras))
	require.NoError(t, p.Close(r.ctx()))
}

func TestWhatEachEraIsToldOfTheClientsCapabilities(t *testing.T) {
	t.Parallel()
	const params = `{"protocolVersion":"2025-11-25","capabilities":{"x":{}},"clientInfo":{"name":"t","version":"1"},"_meta":{"io.modelcontextprotocol/clientCapabilities":{"x":{},"elicitation":{}}}}`
	for _, era := range []upstream.Era{upstream.EraLegacy, upstream.EraModern} {
		t.Run(string(era), func(t *testing.T) {
			t.Parallel()
			r := runAuto(t, nil, "--era", string(era))
			m, err := r.Initialize(r.ctx(), []byte(params))
			require.NoError(t, err)
			require.NotNil(t, m.Result)
			assert.Contains(t, string(m.Result), `"protocolVersion":"2025-`)
			if era == upstream.EraModern {
				assert.Contains(t, string(r.received("server/discover")[0].Params), `"io.modelcontextprotocol/clientCapabilities":{"x":{},"elicitation":{}}`)
				return
			}
			assert.Equal(t, `{"protocolVersion":"2025-11-25","capabilities":{"x":{}},"clientInfo":{"name":"t","version":"1"}}`, string(r.received("initialize")[0].Params))
		})
	}
}

func TestModernProcessIsSpokenWithInItsOwnWay(t *testing.T) {
	t.Parallel()
	r := runAuto(t, nil, "--era", "modern", "--fault", "refund:do=log:hello", "--fault", "refund:do=request:sampling/createMessage:{}")
	s := r.ready()
	assert.Equal(t, "{}", string(r.ask(s, jsonrpc.Request([]byte("1"), "ping", nil)).Result))
	assert.Equal(t, "{}", string(r.ask(s, jsonrpc.Request([]byte("2"), "logging/setLevel", []byte(`{"level":"debug"}`))).Result))
	answer := r.ask(s, jsonrpc.Request([]byte(`"x"`), "tools/call", []byte(`{"name":"refund","arguments":{"n":9007199254740993},"_meta":{"a":1.0}}`)))
	assert.Equal(t, `"x"`, string(answer.ID))
	require.NotNil(t, answer.Result, "%s", answer.Raw())

	const preamble = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}`
	assert.Equal(t, `{"_meta":{`+preamble+`}}`, string(r.received("server/discover")[0].Params))
	assert.Equal(t, `{"name":"refund","arguments":{"n":9007199254740993},"_meta":{"a":1.0,`+preamble+`,"io.modelcontextprotocol/logLevel":"debug"}}`,
		string(r.received("tools/call")[0].Params))
	for _, never := range []string{"initialize", "ping", "logging/setLevel", "notifications/initialized"} {
		assert.Empty(t, r.received(never), never)
	}
	assert.Equal(t, "notifications/message", next(t, r.notifications).Method)
	assert.Contains(t, next(t, r.junk), "sampling/createMessage", "this era has no requests of servers")
	assert.Empty(t, r.requests)
}

func TestCancellationIsHandedToAModernProcess(t *testing.T) {
	t.Parallel()
	r := runAuto(t, nil, "--era", "modern", "--fault", "refund:do=hang")
	s := r.ready()
	call := r.send(s, toolCall("1", "refund", `{}`))
	require.NoError(t, s.Notify(jsonrpc.Notification("notifications/cancelled", []byte(`{"requestId":`+string(call.ID())+`}`))))
	require.NoError(t, s.Notify(jsonrpc.Notification("notifications/roots/list_changed", nil)))
	r.ask(s, toolCall("2", "get_balance", `{}`))
	assert.Equal(t, `{"requestId":`+string(call.ID())+`}`, string(r.received("notifications/cancelled")[0].Params))
	assert.Empty(t, r.received("notifications/roots/list_changed"))
	call.Forget()
}

func TestHandshakeThatIsMadeAgainIsWhatCounts(t *testing.T) {
	t.Parallel()
	r := runAuto(t, nil, "--era", "modern", "--notify-list-changed")
	r.ready()
	assert.Equal(t, "notifications/tools/list_changed", next(t, r.notifications).Method)
	_, err := r.Initialize(r.ctx(), []byte(`{"protocolVersion":"2025-11-25","capabilities":{"again":{}}}`))
	require.NoError(t, err)
	require.NoError(t, r.Initialized(jsonrpc.Notification("notifications/initialized", nil)))
	s, err := r.Ready(r.ctx())
	require.NoError(t, err)
	assert.Equal(t, "notifications/tools/list_changed", next(t, r.notifications).Method, "it is listened for anew")
	r.ask(s, toolCall("1", "get_balance", `{}`))
	assert.Contains(t, string(r.received("tools/call")[0].Params), `"io.modelcontextprotocol/clientCapabilities":{"again":{}}`)
}
