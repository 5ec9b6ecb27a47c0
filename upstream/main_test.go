package upstream_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/upstream"
	"github.com/mcp-idem/mcp-idem/upstream/upstreamtest"
)

func TestMain(m *testing.M) {
	upstreamtest.Main()
	serveSDK()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if left := children(); len(left) > 0 {
			fmt.Fprintf(os.Stderr, "child processes are left: %s\n", left)
			code = 1
		}
		os.Exit(code)
	}))
}

// children returns the pids of the processes, zombies included, whose parent is
// this one, on systems that tell.
func children() []byte {
	var all []byte
	files, _ := filepath.Glob("/proc/self/task/*/children")
	for _, file := range files {
		pids, _ := os.ReadFile(file)
		all = append(all, pids...)
	}
	return bytes.TrimSpace(all)
}

// A rig is a scripted server under a Process, and what it reported.
type rig struct {
	*upstream.Process
	t             *testing.T
	dir, effects  string
	notifications chan jsonrpc.Message
	requests      chan request
	stderr, junk  chan string
	strays        chan jsonrpc.Message
	tooLong       chan *jsonrpc.TooLongError
	exits         chan error
	restarts      chan upstream.Session
	eras          chan upstream.Era
}

type request struct {
	session upstream.Session
	message jsonrpc.Message
}

// Notification and Request make the rig the upstream's Handler.
func (r *rig) Notification(m jsonrpc.Message) { r.notifications <- m }

func (r *rig) Request(s upstream.Session, m jsonrpc.Message) { r.requests <- request{s, m} }

// limits are short enough for tests, and may be changed by edit.
func (r *rig) limits() upstream.Options {
	return upstream.Options{
		StartTimeout: 20 * time.Second, Grace: 5 * time.Second, WriteTimeout: 20 * time.Second,
		BackoffMin: time.Millisecond, BackoffMax: 20 * time.Millisecond,
		Era: upstream.EraLegacy, Handler: r,
		Observer: upstream.Observer{
			Stderr:    func(line []byte) { r.stderr <- string(line) },
			Junk:      func(line []byte) { r.junk <- string(line) },
			TooLong:   func(e *jsonrpc.TooLongError) { r.tooLong <- e },
			Stray:     func(m jsonrpc.Message) { r.strays <- m },
			Exited:    func(err error, _ time.Duration) { r.exits <- err },
			Restarted: func(s upstream.Session) { r.restarts <- s },
			EraFound:  func(e upstream.Era) { r.eras <- e },
		},
	}
}

// run starts the scripted server, without a handshake, and ends it with the
// test. The word DIR in a flag stands for the rig's own folder.
func run(t *testing.T, edit func(*upstream.Options), flags ...string) *rig {
	t.Helper()
	const many = 1000
	r := &rig{
		t: t, dir: t.TempDir(),
		notifications: make(chan jsonrpc.Message, many), requests: make(chan request, many),
		stderr: make(chan string, many), junk: make(chan string, many), strays: make(chan jsonrpc.Message, many),
		tooLong: make(chan *jsonrpc.TooLongError, many), exits: make(chan error, many),
		restarts: make(chan upstream.Session, many), eras: make(chan upstream.Era, many),
	}
	r.effects = filepath.Join(r.dir, "effects")
	o := r.limits()
	if edit != nil {
		edit(&o)
	}
	program, args := upstreamtest.Self("--effects", r.effects, "--gate", r.dir)
	for _, flag := range flags {
		args = append(args, string(bytes.ReplaceAll([]byte(flag), []byte("DIR"), []byte(r.dir))))
	}
	p, err := upstream.Start(upstream.Command{Name: "scripted", Path: program, Args: args, Env: upstreamtest.Env()}, o)
	require.NoError(t, err)
	r.Process = p
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		assert.NoError(t, p.Close(ctx))
	})
	return r
}

const legacyClient = `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"},"x":9007199254740993}`

// clientParams are those of a client of the modern era, of which a legacy server
// gets to see legacyClient.
const clientParams = `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"},"x":9007199254740993,"_meta":{"io.modelcontextprotocol/clientCapabilities":{}}}`

// ready does the handshake and returns the session.
func (r *rig) ready() upstream.Session {
	r.t.Helper()
	m, err := r.Initialize(r.ctx(), []byte(clientParams))
	require.NoError(r.t, err)
	require.NotNil(r.t, m.Result)
	require.NoError(r.t, r.Initialized(jsonrpc.Notification("notifications/initialized", nil)))
	s, err := r.Ready(r.ctx())
	require.NoError(r.t, err)
	return s
}

// ctx bounds a step of a test.
func (r *rig) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	r.t.Cleanup(cancel)
	return ctx
}

func toolCall(id, tool, arguments string) jsonrpc.Message {
	return jsonrpc.Request([]byte(id), "tools/call", fmt.Appendf(nil, `{"name":%q,"arguments":%s}`, tool, arguments))
}

// send sends a call that must leave.
func (r *rig) send(s upstream.Session, m jsonrpc.Message) *upstream.Call {
	r.t.Helper()
	call, err := s.Send(r.ctx(), m)
	require.NoError(r.t, err)
	return call
}

// ask sends a call and returns its answer.
func (r *rig) ask(s upstream.Session, m jsonrpc.Message) jsonrpc.Message {
	r.t.Helper()
	answer, err := r.send(s, m).Wait(r.ctx())
	require.NoError(r.t, err)
	return answer
}

// lost waits for a call that must be lost.
func (r *rig) lost(call *upstream.Call, cause upstream.LossCause) *upstream.LostError {
	r.t.Helper()
	_, err := call.Wait(r.ctx())
	var lost *upstream.LostError
	require.ErrorAs(r.t, err, &lost)
	require.Equal(r.t, cause, lost.Cause, "%v", err)
	return lost
}

// counts asserts how often the tools had an effect.
func (r *rig) counts(effects int) {
	r.t.Helper()
	got, err := upstreamtest.Effects(r.effects)
	require.NoError(r.t, err)
	assert.Len(r.t, got, effects)
}

// next takes what was reported next.
func next[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case value := <-c:
		return value
	case <-time.After(20 * time.Second):
		buffer := make([]byte, 1<<20)
		t.Fatalf("nothing was reported\n%s", buffer[:runtime.Stack(buffer, true)])
		panic("unreachable")
	}
}
