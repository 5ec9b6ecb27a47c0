//go:build unix

package upstream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/upstream"
	"github.com/mcp-idem/mcp-idem/upstream/upstreamtest"
)

func TestCloseEndsAServerByTheEndOfItsInput(t *testing.T) {
	t.Parallel()
	r := run(t, func(o *upstream.Options) { o.Grace = time.Hour }, "--fault", "refund:do=hang")
	s := r.ready()
	call := r.send(s, toolCall("1", "refund", `{}`))
	pid := upstreamtest.WaitForEffects(t, r.effects, 1)[0].PID
	require.NoError(t, r.Close(r.ctx()))
	assertGone(t, pid)
	r.lost(call, upstream.UpstreamExited)
	_, err := s.Send(r.ctx(), toolCall("2", "refund", `{}`))
	assertNotSent(t, err)
	_, err = r.Ready(r.ctx())
	assertNotSent(t, err)
	require.NoError(t, r.Close(r.ctx()), "again")
	assert.Empty(t, r.exits, "an end that was asked for is no exit to report")
	r.counts(1)
}

func TestCloseKillsWhatIgnoresEverything(t *testing.T) {
	t.Parallel()
	r := run(t, func(o *upstream.Options) { o.Grace = 30 * time.Millisecond }, "--ignore-eof")
	s := r.ready()
	r.ask(s, toolCall("1", "refund", `{}`))
	pid := upstreamtest.WaitForEffects(t, r.effects, 1)[0].PID
	require.NoError(t, r.Close(r.ctx()))
	assertGone(t, pid)
}

func TestCloseIsInAHurryWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	r := run(t, func(o *upstream.Options) { o.Grace = time.Hour }, "--ignore-eof")
	s := r.ready()
	r.ask(s, toolCall("1", "refund", `{}`))
	pid := upstreamtest.WaitForEffects(t, r.effects, 1)[0].PID
	hurry := errors.New("in a hurry")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, hurry)
	defer cancel()
	require.ErrorIs(t, r.Close(ctx), hurry)
	assertGone(t, pid)
}

func TestServerHasAMomentAfterTheRequestToEndEvenInAHurry(t *testing.T) {
	t.Parallel()
	r := &rig{t: t, dir: t.TempDir(), notifications: make(chan jsonrpc.Message, 1)}
	o := r.limits()
	o.Grace, o.Observer = time.Hour, upstream.Observer{}
	script := `trap 'sleep 0.03; echo put away >"$0"; exit' TERM; echo '{"jsonrpc":"2.0","method":"notifications/up"}'; while :; do sleep 0.01; done`
	file := filepath.Join(r.dir, "state")
	p, err := upstream.Start(upstream.Command{Name: "tidy", Path: "sh", Args: []string{"-c", script, file}, Env: os.Environ()}, o)
	require.NoError(t, err)
	next(t, r.notifications)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, p.Close(ctx), context.Canceled)
	state, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "put away\n", string(state))
}

func TestAnswersAreHeardWhileTheServerEnds(t *testing.T) {
	t.Parallel()
	r := run(t, func(o *upstream.Options) { o.Grace = time.Hour }, "--ignore-eof", "--fault", "refund:do=gate:answer")
	s := r.ready()
	call := r.send(s, toolCall("1", "refund", `{}`))
	upstreamtest.WaitForFile(t, r.dir, "answer.waiting")
	closed := make(chan error, 1)
	ctx, hurry := context.WithCancel(t.Context())
	defer hurry()
	go func() { closed <- r.Close(ctx) }()
	for err := error(nil); err == nil; {
		_, err = r.Ready(r.ctx())
	}
	upstreamtest.Open(t, r.dir, "answer")
	_, err := call.Wait(r.ctx())
	require.NoError(t, err)
	hurry()
	require.ErrorIs(t, next(t, closed), context.Canceled)
}

func TestGrandchildInTheGroupIsGoneAfterClose(t *testing.T) {
	t.Parallel()
	r := run(t, nil, "--grandchild", "DIR/grandchild")
	r.ready()
	pid := readPID(t, filepath.Join(r.dir, "grandchild"))
	require.NoError(t, syscall.Kill(pid, 0), "it lives")
	require.NoError(t, r.Close(r.ctx()))
	assertDies(t, pid)
}

func TestGrandchildInTheGroupIsGoneAfterACrash(t *testing.T) {
	t.Parallel()
	r := run(t, nil, "--grandchild", "DIR/grandchild", "--fault", "refund:nth=1,do=exit")
	s := r.ready()
	pid := readPID(t, filepath.Join(r.dir, "grandchild"))
	r.lost(r.send(s, toolCall("1", "refund", `{}`)), upstream.UpstreamExited)
	next(t, r.restarts)
	assertDies(t, pid)
}

func TestGrandchildOutsideTheGroupDoesNotHangUs(t *testing.T) {
	t.Parallel()
	r := run(t, nil, "--grandchild", "DIR/grandchild", "--orphan", "--fault", "refund:nth=1,do=twice", "--fault", "refund:nth=1,do=exit")
	s := r.ready()
	pid := readPID(t, filepath.Join(r.dir, "grandchild"))
	defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }()
	call := r.send(s, toolCall("1", "refund", `{}`))
	_, err := call.Wait(r.ctx())
	require.NoError(t, err, "an answer that was written before the exit")
	next(t, r.restarts)
	require.NoError(t, syscall.Kill(pid, 0), "the grandchild still holds the output open")
	second := readPID(t, filepath.Join(r.dir, "grandchild"))
	defer func() { _ = syscall.Kill(second, syscall.SIGKILL) }()
	require.NoError(t, r.Close(r.ctx()))
}

// assertGone asserts that no process has the pid, not even as a zombie.
func assertGone(t *testing.T, pid int) {
	t.Helper()
	assert.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
}

// assertDies asserts that a grandchild comes to its end. Whoever inherited it
// reaps it in its own time, or never.
func assertDies(t *testing.T, pid int) {
	t.Helper()
	assert.Eventually(t, func() bool {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return bytes.Contains(stat, []byte(") Z ")) || errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	}, 10*time.Second, 2*time.Millisecond)
}
