package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/upstream/upstreamtest"
)

// A side is how a client or a server speaks.
type side struct{ era, transport string }

const (
	legacyEra = "legacy"
	modernEra = "modern"
	onStdio   = "stdio"
	onHTTP    = "http"
)

var sides = []side{{legacyEra, onStdio}, {legacyEra, onHTTP}, {modernEra, onStdio}, {modernEra, onHTTP}}

func (s side) String() string { return s.era + " " + s.transport }

// pairingTools are what the server of a pairing offers. Some of them misbehave,
// by the faults of pairing.upstream.
const pairingTools = `[
{"name":"echo_raw","inputSchema":{"type":"object","maxProperties":9007199254740993},"annotations":{"readOnlyHint":true}},
{"name":"refund","inputSchema":{"type":"object","properties":{"order":{"type":"string"}},"required":["order"]}},
{"name":"refund_slowly","inputSchema":{"type":"object","properties":{"order":{"type":"string"}}}},
{"name":"refund_late","inputSchema":{"type":"object","properties":{"order":{"type":"string"}}}},
{"name":"refund_silently","inputSchema":{"type":"object","properties":{"order":{"type":"string"}}}}
]`

// pairingScenes are what happens in each pairing, in this order, to one gateway.
// Each has orders of its own, of which the effects are counted at its end: so many
// for each of the orders.
var pairingScenes = []struct {
	name    string
	orders  []string
	effects int
	play    func(scene)
}{
	{"the gateway introduces itself", nil, 0, scene.introduction},
	{"tools are listed with the key that they demand", nil, 0, scene.list},
	{"a reader passes through as it is", nil, 0, scene.read},
	{"a keyed call is executed", []string{"A1"}, 1, scene.first},
	{"a repeated call is replayed", []string{"A1"}, 1, scene.replay},
	{"a key with other arguments is refused", []string{"A1"}, 1, scene.reuse},
	{"the refused arguments were not executed", []string{"A2"}, 0, func(scene) {}},
	{"progress comes with the caller's own token", []string{"P1", "P2"}, 1, scene.progress},
	{"a client that vanishes gets the answer when it comes anew", []string{"V1"}, 1, scene.vanish},
	{"a lost answer is unknown and the call is not sent again", []string{"L1"}, 1, scene.lostAnswer},
	{"a client that comes anew gets the replay", []string{"A1"}, 1, scene.comeAnew},
	{"what was unknown is unknown to a client that comes anew", []string{"L1"}, 1, scene.stillUnknown},
}

// TestPairings has a client of each era, on each transport, do the same before a
// server of each era, on each transport. The gateway, the server and what is between
// them are real; the client speaks raw JSON-RPC.
func TestPairings(t *testing.T) {
	t.Parallel()
	for _, client := range sides {
		for _, server := range sides {
			t.Run(fmt.Sprintf("%s client before %s server", client, server), func(t *testing.T) {
				t.Parallel()
				p := newPairing(t, client, server)
				for _, s := range pairingScenes {
					t.Run(s.name, func(t *testing.T) {
						s.play(scene{p, t})
						for _, order := range s.orders {
							p.count(t, order, s.effects)
						}
					})
				}
				assert.NoError(t, p.client.leave())
			})
		}
	}
}

// A pairing is a gateway between a client and a server.
type pairing struct {
	t        *testing.T
	dir      string
	clientIs side
	serverIs side
	command  []string // of the gateway
	address  string   // of a gateway that serves HTTP
	client   caller
	welcome  jsonrpc.Message // what the client was answered first
}

func newPairing(t *testing.T, client, server side) *pairing {
	p := &pairing{t: t, dir: t.TempDir(), clientIs: client, serverIs: server}
	require.NoError(t, os.WriteFile(p.path("tools.json"), []byte(pairingTools), 0o600))
	p.command = slices.Concat(p.wrap(), p.upstream())
	if client.transport == onHTTP {
		p.address = serveHTTP(t, p.command...)
	}
	p.connect(t)
	return p
}

func (p *pairing) path(name string) string { return filepath.Join(p.dir, name) }

func (p *pairing) wrap() []string {
	command := []string{
		"mcp-idem", "wrap", "--ledger", p.path("ledger.db"), "--account", "one",
		"--name", "pairing " + p.serverIs.String(), "--era", p.serverIs.era, "--trust-annotations", "yes",
	}
	if p.clientIs.transport == onHTTP {
		command = append(command, "--http", "127.0.0.1:0")
	}
	return command
}

// upstream is the end of the gateway's command: the server's, or its address.
func (p *pairing) upstream() []string {
	flags := []string{
		"--era", p.serverIs.era, "--tools", p.path("tools.json"), "--gate", p.dir,
		"--effects", p.path("effects"), "--received", p.path("received"),
		"--fault", "refund_slowly:do=progress:3", "--fault", "refund_slowly:do=gate:told",
		"--fault", "refund_late:nth=1,do=gate:late",
	}
	if p.serverIs.transport == onStdio { // the process dies, since a pipe has nothing else that breaks
		return slices.Concat([]string{"--", "scripted"}, flags, []string{"--fault", "refund_silently:do=kill"})
	}
	return []string{"--url", startScripted(p.t, p.dir, append(flags, "--fault", "refund_silently:do=drop")...)}
}

// connect lets a client come.
func (p *pairing) connect(t *testing.T) {
	if p.clientIs.transport == onHTTP {
		c := newHTTPClient(p.address, p.clientIs.era)
		p.t.Cleanup(c.hangUp)
		p.client = c
	} else {
		cmd := exec.Command(p.command[0], p.command[1:]...)
		cmd.Dir, cmd.Env = p.dir, upstreamtest.Env()
		s, err := startSession(cmd, p.path("gateway.log"))
		require.NoError(t, err)
		p.client = stdioClient{s}
		p.t.Cleanup(func() {
			s.dismiss() // where the client has not left
			if log, err := os.ReadFile(p.path("gateway.log")); err == nil && p.t.Failed() {
				p.t.Logf("%s", log)
			}
		})
	}
	p.welcome = scene{p, t}.greet()
}

// count counts what the server was sent, and what it did, of an order.
func (p *pairing) count(t *testing.T, order string, want int) {
	t.Helper()
	done, err := upstreamtest.Effects(p.path("effects"))
	require.NoError(t, err)
	about := fmt.Appendf(nil, `"order":"%s"`, order)
	effects := 0
	for _, e := range done {
		if bytes.Contains(e.Arguments, about) {
			effects++
		}
	}
	assert.Equal(t, want, effects, "effects of order %s", order)
	assert.Equal(t, want, callsReceived(t, p.path("received"), about), "calls of order %s that were sent", order)
}

// callsReceived counts the calls of tools that a server was sent and that have a text
// in them.
func callsReceived(t *testing.T, file string, text []byte) (n int) {
	t.Helper()
	received, err := os.ReadFile(file)
	require.NoError(t, err)
	for line := range bytes.Lines(received) {
		if bytes.Contains(line, []byte(`"tools/call"`)) && bytes.Contains(line, text) {
			n++
		}
	}
	return n
}
