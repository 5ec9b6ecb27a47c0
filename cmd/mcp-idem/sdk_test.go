package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/gateway"
	"github.com/mcp-idem/mcp-idem/upstream/upstreamtest"
)

// sdks are the clients that are put before the gateway. What an SDK's client can
// speak, it speaks here.
var sdks = []struct {
	name string
	eras []string
}{
	{"typescript1", []string{"legacy"}},
	{"typescript2", []string{"legacy", "auto", "modern"}},
	{"go", []string{"legacy", "modern"}},
}

// TestSDKClients has the clients of the official SDKs do what clients do, over
// stdio and over HTTP. testdata/sdk has the clients.
func TestSDKClients(t *testing.T) {
	t.Parallel()
	kit := sdkPrograms(t)
	for _, sdk := range sdks {
		for _, era := range sdk.eras {
			for _, transport := range []string{"stdio", "http"} {
				t.Run(sdk.name+" "+era+" over "+transport, func(t *testing.T) {
					t.Parallel()
					newSDKPlay(t, kit).journey(sdk.name, era, transport)
				})
			}
		}
	}
}

// TestSDKClientLosesAnAnswer has an answer come as 404, after the call was
// executed. Clients take that for the end of their session, initialize anew and
// send the call again.
func TestSDKClientLosesAnAnswer(t *testing.T) {
	t.Parallel()
	kit := sdkPrograms(t)
	for _, sdk := range sdks {
		for _, era := range sdk.eras {
			t.Run(sdk.name+" "+era, func(t *testing.T) {
				t.Parallel()
				newSDKPlay(t, kit).loseAnAnswer(sdk.name, era)
			})
		}
	}
}

// TestInspector drives the command line of the inspector. Each of its calls is a
// client of its own, so that a replay comes to another session.
func TestInspector(t *testing.T) {
	t.Parallel()
	kit := sdkPrograms(t)
	for _, era := range []string{"legacy", "modern"} {
		for _, transport := range []string{"stdio", "http"} {
			t.Run(era+" over "+transport, func(t *testing.T) {
				t.Parallel()
				newSDKPlay(t, kit).inspect(era, transport)
			})
		}
	}
}

// An sdkPlay is a folder with a ledger and an upstream's effects.
type sdkPlay struct {
	t   *testing.T
	kit sdkKit
	dir string
}

func newSDKPlay(t *testing.T, kit sdkKit) *sdkPlay { return &sdkPlay{t: t, kit: kit, dir: t.TempDir()} }

// client is the command of a client. What it imports is found beside it.
func (p *sdkPlay) client(sdk, era string, target []string) []string {
	if sdk == "go" {
		return append([]string{p.kit.goClient, era}, target...)
	}
	text, err := os.ReadFile(filepath.Join(p.kit.files, "client.mjs"))
	require.NoError(p.t, err)
	require.NoError(p.t, os.WriteFile(p.path("client.mjs"), text, 0o600))
	require.NoError(p.t, os.Symlink(p.kit.modules, p.path("node_modules")))
	return append([]string{p.kit.node, p.path("client.mjs"), sdk, era}, target...)
}

func (p *sdkPlay) path(name string) string { return filepath.Join(p.dir, name) }

// wrapped is the gateway's command, with a scripted upstream behind it.
func (p *sdkPlay) wrapped(flags, faults []string) []string {
	command := []string{"mcp-idem", "wrap", "--ledger", p.path("ledger.db"), "--name", "shop", "--account", "one"}
	upstream := []string{"--", "scripted", "--effects", p.path("eff"), "--received", p.path("received"), "--gate", p.dir}
	return slices.Concat(command, flags, upstream, faults)
}

// target starts a gateway where it is to be reached over HTTP, and returns what a
// client is told: the gateway's address, or its command.
func (p *sdkPlay) target(transport string, faults ...string) []string {
	if transport == "stdio" {
		return p.wrapped([]string{"--log-level", "error"}, faults)
	}
	return []string{serveHTTP(p.t, p.wrapped([]string{"--http", "127.0.0.1:0"}, faults)...)}
}

// effects are the upstream's.
func (p *sdkPlay) effects(want int) {
	done, err := upstreamtest.Effects(p.path("eff"))
	require.NoError(p.t, err)
	assert.Len(p.t, done, want, "effects")
}

const (
	refundOne   = `{"order":"1","amount":5,"idempotency_key":"refund:order-1:1"}`
	refundTwo   = `{"order":"2","amount":5,"idempotency_key":"refund:order-2:1"}`
	refundThree = `{"order":"3","amount":5,"idempotency_key":"refund:order-3:1"}`
)

// journey is what a client does.
func (p *sdkPlay) journey(sdk, era, transport string) {
	c := p.connect(sdk, era, p.target(transport,
		"--fault", "refund:nth=2,do=progress:3", "--fault", "refund:nth=2,do=gate:heard",
		"--fault", "refund:nth=3,do=gate:open", "--fault", "get_balance:nth=2,do=gate:never"))
	c.lists()

	assert.Equal(p.t, sdkAnswer{Text: "42.50"}, c.call("read", "get_balance", `{}`))
	first := sdkAnswer{Text: "refunded re_2", Outcome: string(gateway.Completed)}
	assert.Equal(p.t, first, c.call("first", "refund", refundOne))
	first.Replay = true
	assert.Equal(p.t, first, c.replayed("again", "refund", refundOne))
	p.effects(1)

	c.send(`{"do":"call","name":"told","tool":"refund","arguments":%s,"progress":true}`, refundTwo)
	c.hears("told", 3) // before the answer: what comes with it the SDKs may drop
	upstreamtest.Open(p.t, p.dir, "heard")
	assert.Equal(p.t, string(gateway.Completed), c.answer("told").Outcome)
	p.effects(2)

	p.cancelKeyed(c)
	p.cancelReader(c)
}

// cancelKeyed cancels a keyed call while it runs. It runs on, and a repetition
// gets its answer.
func (p *sdkPlay) cancelKeyed(c *sdkClient) {
	c.send(`{"do":"call","name":"cancelled","tool":"refund","arguments":%s}`, refundThree)
	upstreamtest.WaitForFile(p.t, p.dir, "open.waiting")
	c.send(`{"do":"cancel","name":"cancel","of":"cancelled"}`)
	c.answer("cancel")
	assert.NotEmpty(p.t, c.receive("cancelled").Threw, "the client has given up")
	upstreamtest.Open(p.t, p.dir, "open")
	again := c.replayed("after all", "refund", refundThree)
	assert.Equal(p.t, string(gateway.Completed), again.Outcome)
	assert.True(p.t, again.Replay)
	p.effects(3)
}

// cancelReader cancels a call without a key: the upstream is told.
func (p *sdkPlay) cancelReader(c *sdkClient) {
	c.send(`{"do":"call","name":"unwanted","tool":"get_balance","arguments":{}}`)
	upstreamtest.WaitForFile(p.t, p.dir, "never.waiting")
	c.send(`{"do":"cancel","name":"cancel too","of":"unwanted"}`)
	c.answer("cancel too")
	assert.NotEmpty(p.t, c.receive("unwanted").Threw, "the client has given up")
	require.NoError(p.t, repeat("the upstream to be told of the cancellation", func() bool {
		said, err := os.ReadFile(p.path("received"))
		return err == nil && bytes.Contains(said, []byte("notifications/cancelled"))
	}))
}

// loseAnAnswer answers the first refund with 404 once it was made.
func (p *sdkPlay) loseAnAnswer(sdk, era string) {
	gateway := p.target("http")[0]
	c := p.connect(sdk, era, []string{p.losing(gateway)})
	c.send(`{"do":"call","name":"lost","tool":"refund","arguments":%s}`, refundOne)
	lost := c.receive("lost")
	p.effects(1)

	if lost.Threw != "" { // else the SDK has sent it again by itself
		c.send(`{"do":"reconnect","name":"reconnect"}`)
		c.answer("reconnect")
		lost = c.replayed("again", "refund", refundOne)
	}
	assert.Equal(p.t, sdkAnswer{Text: "refunded re_1", Outcome: "COMPLETED", Replay: true}, lost)
	p.effects(1)
}

// losing is the address of a proxy before the gateway that loses the answer to the
// first refund: it says 404, in the way of servers that have lost their sessions.
func (p *sdkPlay) losing(address string) string {
	target, err := url.Parse(address)
	require.NoError(p.t, err)
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: target.Scheme, Host: target.Host}) },
		FlushInterval: -1, // what is said on a stream goes on at once
	}
	var lost atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client is gone
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if bytes.Contains(body, []byte(`"refund:order-1:1"`)) && lost.CompareAndSwap(false, true) {
			proxy.ServeHTTP(httptest.NewRecorder(), r)
			http.Error(w, "Session not found", http.StatusNotFound)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	p.t.Cleanup(server.Close)
	return server.URL + target.Path
}

// inspected is what is looked at of a result that the inspector prints.
type inspected struct {
	Tools             []struct{ Name string }
	StructuredContent struct{ Balance float64 }
	Meta              map[string]struct {
		Outcome string
		Replay  bool `json:"was_replay"`
	} `json:"_meta"`
}

// inspect calls the same as a journey, one process for each call.
func (p *sdkPlay) inspect(era, transport string) {
	target := p.target(transport)
	inspect := func(flags ...string) inspected {
		var printed struct{ Result inspected }
		line := p.inspector(era, target, flags)
		require.NoError(p.t, json.Unmarshal(line, &printed), "%s", line)
		return printed.Result
	}
	call := func(tool, arguments string) []string {
		return []string{"--method", "tools/call", "--tool-name", tool, "--tool-args-json", arguments}
	}
	assert.NotEmpty(p.t, inspect("--method", "tools/list").Tools)
	assert.InDelta(p.t, 42.5, inspect(call("get_balance", "{}")...).StructuredContent.Balance, 0)
	for _, replay := range []bool{false, true} {
		told := inspect(call("refund", refundOne)...).Meta["mcp-idem/outcome"]
		assert.Equal(p.t, string(gateway.Completed), told.Outcome)
		assert.Equal(p.t, replay, told.Replay)
	}
	p.effects(1)
}

// inspector runs the inspector's command line, and returns what it prints: a
// line with the method's result.
func (p *sdkPlay) inspector(era string, target, flags []string) []byte {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	launcher := filepath.Join(p.kit.modules, "@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js")
	command := slices.Concat([]string{launcher, "--cli", "--format", "json", "--quiet", "--protocol-era", era}, flags)
	if len(target) == 1 {
		command = append(command, "--transport", "http", "--server-url", target[0])
	} else {
		command = slices.Concat(command, []string{"--"}, target)
	}
	cmd := exec.CommandContext(ctx, p.kit.node, command...)
	cmd.Env = append(upstreamtest.Env(), "HOME="+p.dir, "XDG_STATE_HOME="+p.dir)
	cmd.WaitDelay = time.Second
	var said bytes.Buffer
	cmd.Stderr = &said
	printed, err := cmd.Output()
	require.NoError(p.t, err, "%s\n%s", printed, &said)
	return printed
}
