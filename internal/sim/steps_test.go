package main

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/upstream/upstreamtest"
)

// A stage is where a gateway is killed at one step of a call, and another is asked
// afterwards.
type stage struct {
	t      *testing.T
	folder string
}

func newStage(t *testing.T) *stage {
	t.Parallel()
	s := &stage{t: t, folder: t.TempDir()}
	require.NoError(t, os.Mkdir(s.file("living"), 0o700))
	return s
}

func (s *stage) file(name string) string { return filepath.Join(s.folder, name) }

// wrap is a gateway with these flags.
func (s *stage) wrap(flags ...string) *exec.Cmd {
	args := []string{"wrap", "--ledger", s.file("ledger.db"), "--name", "refunds", "--namespace", "sim", "--account", "sim", "--log-format", "json"}
	return command(program(s.t), append(args, flags...)...)
}

// command is a gateway before a server with these flags.
func (s *stage) command(server ...string) *exec.Cmd {
	self, err := os.Executable()
	require.NoError(s.t, err)
	flags := []string{"--", self, serverWord, s.file("living"), "--effects", s.file("effects"), "--gate", s.folder}
	return s.wrap(append(flags, server...)...)
}

// start starts a gateway with a client, and kills it at the end if it lives.
func (s *stage) start(server ...string) *gateway {
	s.t.Helper()
	g, err := startStdio(s.command(server...), io.Discard)
	require.NoError(s.t, err)
	s.t.Cleanup(g.kill)
	return g
}

// call calls in the background. It gets no answer.
func (s *stage) call(g *gateway) {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, err := g.client.call(context.Background(), arguments(1, usualAmount))
		assert.ErrorIs(s.t, err, errLost)
	}()
	s.t.Cleanup(func() { g.kill(); <-gone })
}

// again is what the next gateway says to the same call.
func (s *stage) again() said {
	s.t.Helper()
	result, err := s.start().client.call(s.t.Context(), arguments(1, usualAmount))
	require.NoError(s.t, err)
	answer, err := readSaid(result)
	require.NoError(s.t, err)
	return answer
}

// requireUnknown requires that the next gateway does not know what became of the call,
// and has not sent it again: there are so many effects.
func (s *stage) requireUnknown(effects int) {
	s.t.Helper()
	for range 2 {
		answer := s.again()
		require.Equal(s.t, "EFFECT_UNKNOWN", answer.Outcome)
		require.Equal(s.t, "owner_died", answer.Reason)
		require.Equal(s.t, 1, answer.Attempt)
	}
	s.requireEffects(effects)
}

// requireReplay requires that the next gateway has the answer.
func (s *stage) requireReplay(text string) {
	s.t.Helper()
	answer := s.again()
	require.Equal(s.t, "COMPLETED", answer.Outcome)
	require.True(s.t, answer.WasReplay)
	require.Equal(s.t, text, answer.text)
	s.requireEffects(1)
}

// requireEffects counts the effects when no server is left that might have another.
func (s *stage) requireEffects(n int) {
	s.t.Helper()
	effects, err := upstreamtest.Effects(s.file("effects"))
	require.NoError(s.t, err)
	require.Len(s.t, effects, n)
}

// awaitState waits until the ledger has the operation in a state.
func (s *stage) awaitState(state string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		out, err := command(program(s.t), "ledger", "list", "--ledger", s.file("ledger.db"), "--state", state, "--json").Output()
		return err == nil && strings.Count(string(out), "\n") == 1
	}, patience, 10*time.Millisecond, state)
}

// lockLedger keeps everybody from writing into the ledger, until the function that it
// returns is called.
func (s *stage) lockLedger() (unlock func()) {
	s.t.Helper()
	db, err := sql.Open("sqlite", s.file("ledger.db"))
	require.NoError(s.t, err)
	conn, err := db.Conn(context.Background())
	require.NoError(s.t, err)
	_, err = conn.ExecContext(context.Background(), "PRAGMA busy_timeout = 10000; BEGIN IMMEDIATE")
	require.NoError(s.t, err)
	unlock = sync.OnceFunc(func() {
		_, err := conn.ExecContext(context.Background(), "ROLLBACK")
		assert.NoError(s.t, err)
		assert.NoError(s.t, conn.Close())
		assert.NoError(s.t, db.Close())
	})
	s.t.Cleanup(unlock)
	return unlock
}

// askBehind makes a call that reads, and waits for its answer: the gateway has read
// what was written before it by then.
func (s *stage) askBehind(g *gateway) {
	s.t.Helper()
	m, err := g.client.(*stdioClient).ask(s.t.Context(), "tools/call", []byte(`{"name":"get_balance","arguments":{}}`))
	require.NoError(s.t, err)
	require.Nil(s.t, m.Error)
}

func TestKilledBeforeTheClaim(t *testing.T) {
	s := newStage(t)
	g := s.start()
	unlock := s.lockLedger()
	s.call(g)
	s.askBehind(g)
	g.kill()
	unlock()
	answer := s.again()
	assert.Equal(t, "COMPLETED", answer.Outcome)
	assert.False(t, answer.WasReplay)
	assert.Equal(t, 1, answer.Attempt, "the one that was killed had none")
	s.requireEffects(1)
}

// TestKilledAfterTheClaimBeforeSending has the gateway's one pipe to its server filled
// by a call that the server does not read.
func TestKilledAfterTheClaimBeforeSending(t *testing.T) {
	s := newStage(t)
	const handshake = 2 // messages, and the list of tools that the gateway asks for
	g := s.start("--stop-reading-after", fmt.Sprint(handshake+1), "--received", s.file("received"))
	c := g.client.(*stdioClient)
	filled := make(chan struct{})
	go func() {
		defer close(filled)
		_, err := c.ask(context.Background(), "tools/call", fmt.Appendf(nil, `{"name":"echo_raw","arguments":{"long":%q}}`, strings.Repeat("x", 1<<19)))
		assert.ErrorIs(t, err, errLost)
	}()
	t.Cleanup(func() { g.kill(); <-filled })
	s.call(g)
	s.awaitState("running")
	g.kill()
	received, err := os.ReadFile(s.file("received"))
	require.NoError(t, err)
	assert.NotContains(t, string(received), "order-1", "it was not sent")
	s.requireUnknown(0)
}

func TestKilledAfterSendingBeforeTheEffect(t *testing.T) {
	s := newStage(t)
	g := s.start("--fault", "refund:nth=1,when=before_effect,do=gate:effect")
	s.call(g)
	upstreamtest.WaitForFile(t, s.file("effect.waiting"))
	g.kill()
	s.requireUnknown(0)
}

// TestKilledAfterSendingAndTheEffectComesLater lets a server go on that has outlived
// the gateway: the effect comes when the next gateway has answered.
func TestKilledAfterSendingAndTheEffectComesLater(t *testing.T) {
	s := newStage(t)
	server := upstreamtest.Serve(t, "--effects", s.file("effects"), "--gate", s.folder, "--fault", "refund:nth=1,when=before_effect,do=gate:effect")
	g, err := startStdio(s.wrap("--url", server.URL), io.Discard)
	require.NoError(t, err)
	s.call(g)
	upstreamtest.WaitForFile(t, s.file("effect.waiting"))
	g.kill()
	s.requireUnknown(0)
	upstreamtest.Open(t, s.folder, "effect")
	upstreamtest.WaitForEffects(t, s.file("effects"), 1)
	s.requireUnknown(1)
}

func TestKilledAfterTheEffectBeforeTheAnswer(t *testing.T) {
	s := newStage(t)
	g := s.start("--fault", "refund:nth=1,do=gate:answer")
	s.call(g)
	upstreamtest.WaitForFile(t, s.file("answer.waiting"))
	g.kill()
	s.requireUnknown(1)
}

// TestKilledAfterTheAnswerBeforeTheRecord keeps the gateway from writing into its
// ledger while the answer comes, and makes sure by calls that read, and are answered
// meanwhile, that it had the time to come.
func TestKilledAfterTheAnswerBeforeTheRecord(t *testing.T) {
	s := newStage(t)
	g := s.start("--fault", "refund:nth=1,do=gate:answer", "--fault", "refund:nth=1,do=gate:sending")
	s.call(g)
	upstreamtest.WaitForFile(t, s.file("answer.waiting"))
	unlock := s.lockLedger()
	upstreamtest.Open(t, s.folder, "sending")
	upstreamtest.Open(t, s.folder, "answer")
	upstreamtest.WaitForFile(t, s.file("sending.waiting"))
	for range 20 {
		s.askBehind(g)
	}
	g.kill()
	unlock()
	s.requireUnknown(1)
}

// A tap is a reader that gives nothing until it is opened: a client that does not read.
type tap struct {
	io.Reader
	open chan struct{}
}

// Read waits until the tap is open.
func (t *tap) Read(p []byte) (int, error) {
	<-t.open
	return t.Reader.Read(p)
}

// startDeaf starts a gateway whose client has introduced itself and reads no more.
func (s *stage) startDeaf(server ...string) (g *gateway, writer *jsonrpc.Writer) {
	s.t.Helper()
	cmd := s.command(server...)
	in, err := cmd.StdinPipe()
	require.NoError(s.t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(s.t, err)
	require.NoError(s.t, cmd.Start())
	g = &gateway{cmd: cmd, exited: make(chan struct{})}
	silent := &tap{Reader: out, open: make(chan struct{})}
	g.client = newStdioClient(in, silent, g.exited)
	writer = jsonrpc.NewWriter(in)
	require.NoError(s.t, writer.Write(jsonrpc.Request([]byte("1"), "initialize", []byte(`{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"sim","version":"1"}}`))))
	_, err = bufio.NewReaderSize(out, 16).ReadSlice('\n') // that there is an answer is enough
	require.ErrorIs(s.t, err, bufio.ErrBufferFull)
	go g.wait()
	s.t.Cleanup(g.kill)
	require.NoError(s.t, writer.Write(jsonrpc.Notification("notifications/initialized", nil)))
	return g, writer
}

// TestKilledAfterTheRecordBeforeTheReply has the pipe to the client filled by an
// earlier answer, which the client does not read.
func TestKilledAfterTheRecordBeforeTheReply(t *testing.T) {
	s := newStage(t)
	g, writer := s.startDeaf()
	long := fmt.Appendf(nil, `{"name":"echo_raw","arguments":{"long":%q}}`, strings.Repeat("x", 1<<18))
	require.NoError(t, writer.Write(jsonrpc.Request([]byte("2"), "tools/call", long)))
	upstreamtest.WaitForFile(t, s.file("started.1")) // requests may overtake one another
	require.NoError(t, writer.Write(jsonrpc.Request([]byte("3"), "tools/call", fmt.Appendf(nil, `{"name":%q,"arguments":%s}`, tool, arguments(1, usualAmount)))))
	s.awaitState("completed")
	g.kill()
	s.requireReplay("refunded re_2") // it was the second call
}

func TestKilledInTheMiddleOfTheReply(t *testing.T) {
	s := newStage(t)
	const size = 1 << 18
	g, writer := s.startDeaf("--fault", fmt.Sprintf("refund:nth=1,do=big:%d", size))
	require.NoError(t, writer.Write(jsonrpc.Request([]byte("2"), "tools/call", fmt.Appendf(nil, `{"name":%q,"arguments":%s}`, tool, arguments(1, usualAmount)))))
	s.awaitState("completed")
	g.kill()
	answer := s.again()
	assert.True(t, answer.WasReplay)
	assert.Equal(t, strings.Repeat("x", size), answer.text, "the whole of it")
	s.requireEffects(1)
}

// TestKilledWhileItSweeps kills a gateway that has found the attempt of a dead one, and
// cannot write what became of it: the next one finds it again.
func TestKilledWhileItSweeps(t *testing.T) {
	s := newStage(t)
	g, sweeps := s.start("--fault", "refund:nth=1,do=gate:answer"), s.start()
	s.call(g)
	upstreamtest.WaitForFile(t, s.file("answer.waiting"))
	unlock := s.lockLedger()
	g.kill()
	s.call(sweeps)
	s.askBehind(sweeps)
	sweeps.kill()
	unlock()
	s.requireUnknown(1)
}

func TestTwoGatewaysKilledAtOnce(t *testing.T) {
	s := newStage(t)
	g := s.start("--fault", "refund:nth=1,do=gate:answer")
	waits := s.start()
	s.call(g)
	upstreamtest.WaitForFile(t, s.file("answer.waiting"))
	s.call(waits)
	s.askBehind(waits)
	require.NoError(t, g.cmd.Process.Kill())
	require.NoError(t, waits.cmd.Process.Kill())
	<-g.exited
	<-waits.exited
	s.requireUnknown(1)
}

// TestKilledBehindHTTP is the same to clients that come by HTTP.
func TestKilledBehindHTTP(t *testing.T) {
	for when, effects := range map[string]int{"before_effect": 0, "after_effect": 1} {
		t.Run(when, func(t *testing.T) {
			s := newStage(t)
			cmd := s.command("--fault", "refund:nth=1,when="+when+",do=gate:here")
			cmd.Args = slices.Insert(cmd.Args, 2, "--http", "127.0.0.1:0")
			g, err := startHTTP(cmd, io.Discard)
			require.NoError(t, err)
			t.Cleanup(g.kill)
			s.call(g)
			upstreamtest.WaitForFile(t, s.file("here.waiting"))
			g.kill()
			s.requireUnknown(effects)
		})
	}
}
