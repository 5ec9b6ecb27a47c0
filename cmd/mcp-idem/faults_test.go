package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/upstream/upstreamtest"
)

// What callers are told, with the reason.
const (
	executed    = "COMPLETED null"
	refusedCall = "FAILED_BEFORE_INPUT refused"
	badAnswer   = "EFFECT_UNKNOWN bad_answer"
	brokenWire  = "EFFECT_UNKNOWN connection_lost"
	timedOut    = "EFFECT_UNKNOWN timeout"
	ambiguous   = "EFFECT_UNKNOWN ambiguous_error"
)

var bothEras = []string{legacyEra, modernEra}

// wireFaults are what can go wrong between the gateway and a server behind a URL, and
// what comes of it: what the caller is told, and then told when it sends the same key
// again, how often the call was sent in all, and how many effects it had. Unless a
// fault says otherwise it strikes once, after the effect.
var wireFaults = []struct {
	name         string
	eras         []string
	faults       []string // of the tool
	flags        []string // of wrap
	told, again  string
	sent, effect int
}{
	{"reset", bothEras, []string{"nth=1,do=reset"}, nil, brokenWire, brokenWire, 1, 1},
	{"reset before the effect", bothEras, []string{"nth=1,when=before_effect,do=reset"}, nil, brokenWire, brokenWire, 1, 0},
	{"connection closed", bothEras, []string{"nth=1,do=drop"}, nil, brokenWire, brokenWire, 1, 1},
	{"307", bothEras, []string{"nth=1,do=redirect:307"}, nil, badAnswer, badAnswer, 1, 1},
	{"308", bothEras, []string{"nth=1,do=redirect:308"}, nil, badAnswer, badAnswer, 1, 1},
	{"401", bothEras, []string{"nth=1,when=before_effect,do=status:401"}, nil, refusedCall, executed, 2, 1},
	{"401 with strict codes", bothEras, []string{"nth=1,when=before_effect,do=status:401"}, []string{"--strict-codes"}, badAnswer, badAnswer, 1, 0},
	{"404", bothEras, []string{"nth=1,do=status:404"}, nil, badAnswer, badAnswer, 1, 1},
	{"404 without a body", bothEras, []string{"nth=1,do=status:404:"}, nil, badAnswer, badAnswer, 1, 1},
	{"429", bothEras, []string{"nth=1,when=before_effect,do=status:429"}, nil, refusedCall, executed, 2, 1},
	{"429 that tells of a timeout", bothEras, []string{`nth=1,do=status:429:{"error":"the upstream timed out"}`}, nil, badAnswer, badAnswer, 1, 1},
	{"502 with a JSON body", bothEras, []string{"nth=1,do=status:502"}, nil, badAnswer, badAnswer, 1, 1},
	{"503 with the answer", bothEras, []string{"nth=1,do=rpc_status:503"}, nil, executed, executed, 1, 1},
	{"503 with an error of the server", bothEras, []string{"nth=1,do=rpc_status:503", "nth=1,do=error:-32603:Internal error"}, nil,
		ambiguous, ambiguous, 1, 1},
	{"503 with an error that precedes execution", bothEras,
		[]string{"nth=1,when=before_effect,do=rpc_status:503", "nth=1,when=before_effect,do=error:-32601:Method not found"}, nil, refusedCall, executed, 2, 1},
	{"empty object", bothEras, []string{"nth=1,do=empty"}, nil, badAnswer, badAnswer, 1, 1},
	{"text in place of JSON", bothEras, []string{"nth=1,do=garbage"}, nil, badAnswer, badAnswer, 1, 1},
	{"wrong id", bothEras, []string{"nth=1,do=wrong_id"}, nil, badAnswer, badAnswer, 1, 1},
	{"wrong id in a stream", bothEras, []string{"nth=1,do=sse", "nth=1,do=wrong_id"}, nil, brokenWire, brokenWire, 1, 1},
	{"two answers", bothEras, []string{"nth=1,do=twice"}, nil, executed, executed, 1, 1},
	{"stream cut", bothEras, []string{"nth=1,do=sse", "nth=1,do=cut:40"}, nil, brokenWire, brokenWire, 1, 1},
	{"body cut", bothEras, []string{"nth=1,do=cut:40"}, nil, brokenWire, brokenWire, 1, 1},
	{"stream without an answer", bothEras, []string{"nth=1,do=end"}, nil, brokenWire, brokenWire, 1, 1},
	{"stream without end", bothEras, []string{"nth=1,do=endless"}, []string{"--call-timeout", "300ms", "--late-window", "0"}, timedOut, timedOut, 1, 1},
	{"stream without end behind the answer", bothEras, []string{"nth=1,do=stay_open"}, nil, executed, executed, 1, 1},
	{"slow header", bothEras, []string{"nth=1,do=slow_headers:200ms"}, nil, executed, executed, 1, 1},
	{"slow body", bothEras, []string{"nth=1,do=slow_body:200ms"}, nil, executed, executed, 1, 1},
	{"20 MB", []string{legacyEra}, []string{"nth=1,do=big:20000000"}, nil, executed, executed, 1, 1},
	{"70 MB", []string{legacyEra}, []string{"nth=1,do=big:70000000"}, nil, badAnswer, badAnswer, 1, 1},
}

func TestWireFaultsBeforeAServerBehindAURL(t *testing.T) {
	t.Parallel()
	for _, f := range wireFaults {
		for _, era := range f.eras {
			t.Run(f.name+" of a "+era+" server", func(t *testing.T) {
				t.Parallel()
				r := newFaultRig(t, era, f.flags, f.faults...)
				r.calls(f.told, false)
				r.calls(f.again, f.told == executed)
				r.counts(f.sent, f.effect)
			})
		}
	}
}

// Which connection a call is sent on is net/http's to choose. So calls are made, each
// of another order, until one of them was sent on a connection that had been used, for
// that is where net/http would send it again.
func TestCallIsNotSentAgainWhereAReusedConnectionBreaks(t *testing.T) {
	t.Parallel()
	for _, era := range bothEras {
		t.Run(era+" server", func(t *testing.T) {
			t.Parallel()
			r := newFaultRig(t, era, nil, "conn=reused,do=reset")
			calls, told := 0, executed
			for told == executed {
				calls++
				require.Less(t, calls, 50, "no connection was used twice")
				told, _ = r.call(fmt.Sprintf("refund:A%d:1", calls))
			}
			assert.Equal(t, brokenWire, told)
			r.counts(calls, calls)
			r.callsKey(fmt.Sprintf("refund:A%d:1", calls), brokenWire, false)
			r.counts(calls, calls)
		})
	}
}

// A server that has forgotten the session of a client answers 404 to whatever comes,
// and so does one that has lost it after the effect.
func TestSessionThatTheServerHasForgotten(t *testing.T) {
	t.Parallel()
	t.Run("is begun anew before the call where that is noticed", func(t *testing.T) {
		t.Parallel()
		r := newFaultRig(t, legacyEra, nil)
		r.forget()
		r.await("initialize", 2)
		r.await("notifications/initialized", 2)
		r.calls(executed, false)
		r.counts(1, 1)
	})
	t.Run("is unknown where the call finds it out", func(t *testing.T) {
		t.Parallel()
		r := newFaultRig(t, legacyEra, nil, "GET:do=status:405") // it has no stream to hear the end of
		r.forget()
		r.calls(badAnswer, false)
		r.await("initialize", 2)
		r.calls(badAnswer, false)
		r.counts(1, 0)
		r.callsKey("another:A2:1", executed, false)
		r.counts(2, 1)
	})
	t.Run("is begun anew after a 404 that followed the effect", func(t *testing.T) {
		t.Parallel()
		r := newFaultRig(t, legacyEra, nil, "nth=1,do=status:404")
		r.calls(badAnswer, false)
		r.await("initialize", 2)
		r.callsKey("another:A2:1", executed, false)
		r.counts(2, 2)
	})
}

// A faultRig is a client of the legacy era on stdio, before a gateway, before a
// scripted server over HTTP.
type faultRig struct {
	t       *testing.T
	dir     string
	session *session
}

// newFaultRig starts all three. A fault that names no target is one of refund.
func newFaultRig(t *testing.T, era string, flags []string, faults ...string) *faultRig {
	r := &faultRig{t: t, dir: t.TempDir()}
	server := []string{"--era", era, "--effects", r.path("effects"), "--received", r.path("received"), "--fault", "get_balance:do=forget"}
	for _, f := range faults {
		if !strings.HasPrefix(f, "GET:") {
			f = "refund:" + f
		}
		server = append(server, "--fault", f)
	}
	// With either of these headers net/http would send a POST again by itself.
	command := []string{"wrap", "--ledger", r.path("ledger.db"), "--name", "faults " + era, "--era", era, "--trust-annotations", "yes",
		"--header", "Idempotency-Key: one", "--header", "X-Idempotency-Key: one", "--url", startScripted(t, r.dir, server...)}
	cmd := exec.Command("mcp-idem", slices.Concat(command, flags)...)
	cmd.Dir, cmd.Env = r.dir, upstreamtest.Env()
	var err error
	r.session, err = startSession(cmd, r.path("gateway.log"))
	require.NoError(t, err)
	t.Cleanup(r.session.dismiss)
	require.NoError(t, r.session.handshake())
	return r
}

func (r *faultRig) path(name string) string { return filepath.Join(r.dir, name) }

func (r *faultRig) calls(want string, replay bool) {
	r.t.Helper()
	r.callsKey("refund:A1:1", want, replay)
}

// callsKey compares what the caller is told of a key.
func (r *faultRig) callsKey(key, want string, replay bool) {
	r.t.Helper()
	told, replayed := r.call(key)
	assert.Equal(r.t, want, told)
	assert.Equal(r.t, replay, replayed, "a replay")
}

// call refunds an order that is called as the key, and returns what the caller is
// told.
func (r *faultRig) call(key string) (told string, replay bool) {
	r.t.Helper()
	p, err := r.session.request("tools/call", callParams("refund", fmt.Sprintf(`{"order":%[1]q,"idempotency_key":%[1]q}`, key), ""))
	require.NoError(r.t, err)
	m, err := p.wait()
	require.NoError(r.t, err)
	said, err := readOutcome(m)
	require.NoError(r.t, err)
	return said.member("outcome") + " " + said.member("reason"), said.member("was_replay") == "true"
}

// counts compares how often calls were sent, and how many effects there were.
func (r *faultRig) counts(sent, effects int) {
	r.t.Helper()
	assert.Equal(r.t, sent, callsReceived(r.t, r.path("received"), []byte(`"refund"`)), "calls that were sent")
	done, err := upstreamtest.Effects(r.path("effects"))
	require.NoError(r.t, err)
	assert.Len(r.t, done, effects, "effects")
}

// forget has the server forget its sessions, and close the streams of them.
func (r *faultRig) forget() {
	r.t.Helper()
	p, err := r.session.request("tools/call", callParams("get_balance", `{}`, ""))
	require.NoError(r.t, err)
	m, err := p.wait()
	require.NoError(r.t, err)
	require.NotNil(r.t, m.Result, "%s", m.Raw())
}

// await waits until the server has been sent a method so many times.
func (r *faultRig) await(method string, n int) {
	r.t.Helper()
	require.NoError(r.t, repeat(fmt.Sprintf("%s to be sent %d times", method, n), func() bool {
		received, err := os.ReadFile(r.path("received"))
		return err == nil && bytes.Count(received, []byte(`"`+method+`"`)) >= n
	}))
}
