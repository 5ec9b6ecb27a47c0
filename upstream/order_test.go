//go:build unix

package upstream_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/upstream"
	"github.com/mcp-idem/mcp-idem/upstream/upstreamtest"
)

// A diary is a Handler and an Observer that notes down what happened, in order.
type diary struct {
	mu      sync.Mutex
	entries []string
	pause   func() // before a notification is noted down; may be nil
}

func (d *diary) note(entry string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entries = append(d.entries, entry)
}

// read returns the entries so far.
func (d *diary) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string{}, d.entries...)
}

func (d *diary) Notification(m jsonrpc.Message) {
	if d.pause != nil {
		d.pause()
	}
	d.note(m.Method)
}

func (d *diary) Request(_ upstream.Session, m jsonrpc.Message) { d.note(m.Method) }

func TestAnswerIsToldBeforeWhatWasSentBehindIt(t *testing.T) {
	t.Parallel()
	const calls = 50
	d := &diary{}
	script := `i=0; while read -r line; do i=$((i+1))
printf '{"jsonrpc":"2.0","id":%d,"result":{"n":%d}}\n{"jsonrpc":"2.0","method":"behind"}\n' $i $i; done`
	p, err := upstream.Start(upstream.Command{Name: "sh", Path: "sh", Args: []string{"-c", script}, Env: os.Environ()}, upstream.Options{Handler: d})
	require.NoError(t, err)
	r := &rig{t: t}
	s, err := p.Ready(r.ctx())
	require.NoError(t, err)
	var want []string
	for range calls {
		var told jsonrpc.Message
		call, err := s.SendTo(r.ctx(), toolCall(`"mine"`, "refund", `{}`), upstream.Listener{Answered: func(m jsonrpc.Message) {
			told = m
			d.note("answer")
		}})
		require.NoError(t, err)
		answer, err := call.Wait(r.ctx())
		require.NoError(t, err)
		assert.Equal(t, string(answer.Raw()), string(told.Raw()), "told before Wait returns")
		assert.Equal(t, `"mine"`, string(told.ID))
		want = append(want, "answer", "behind")
	}
	require.NoError(t, p.Close(r.ctx())) // and everything has been read
	assert.Equal(t, want, d.read())
}

func TestLostAndForgottenAnswersAreNotTold(t *testing.T) {
	t.Parallel()
	r := run(t, nil, "--fault", "refund:nth=1,do=gate:answer", "--fault", "refund:nth=2,do=exit")
	s := r.ready()
	never := func(m jsonrpc.Message) { t.Errorf("told of %s", m.Raw()) }
	forgotten, err := s.SendTo(r.ctx(), toolCall("1", "refund", `{}`), upstream.Listener{Answered: never})
	require.NoError(t, err)
	upstreamtest.WaitForFile(t, r.dir, "answer.waiting")
	forgotten.Forget()
	upstreamtest.Open(t, r.dir, "answer")
	assert.Equal(t, string(forgotten.ID()), string(next(t, r.strays).ID))

	lost, err := s.SendTo(r.ctx(), toolCall("2", "refund", `{}`), upstream.Listener{Answered: never})
	require.NoError(t, err)
	r.lost(lost, upstream.UpstreamExited)
}

func TestNothingOfASessionComesAfterItsExit(t *testing.T) {
	t.Parallel()
	d := &diary{}
	restarts := make(chan upstream.Session, 10)
	effects := filepath.Join(t.TempDir(), "effects")
	// While the first message is handed on, the process comes to its end.
	d.pause = sync.OnceFunc(func() {
		pid := upstreamtest.WaitForEffects(t, effects, 1)[0].PID
		assert.Eventually(t, func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }, 10*time.Second, time.Millisecond)
	})
	program, args := upstreamtest.Self("--effects", effects, "--fault", "refund:nth=1,do=progress:3", "--fault", "refund:nth=1,do=exit")
	p, err := upstream.Start(upstream.Command{Name: "x", Path: program, Args: args, Env: upstreamtest.Env()}, upstream.Options{
		BackoffMin: time.Millisecond, Handler: d,
		Observer: upstream.Observer{
			Exited:    func(error, time.Duration) { d.note("exited") },
			Restarted: func(s upstream.Session) { d.note("restarted"); restarts <- s },
		},
	})
	require.NoError(t, err)
	r := &rig{t: t, Process: p}
	s := r.ready()
	m := jsonrpc.Request([]byte("2"), "tools/call", []byte(`{"name":"refund","arguments":{},"_meta":{"progressToken":"p"}}`))
	r.lost(r.send(s, m), upstream.UpstreamExited)
	r.ask(next(t, restarts), toolCall("3", "refund", `{}`))
	require.NoError(t, p.Close(r.ctx()))
	progress := "notifications/progress"
	assert.Equal(t, []string{progress, progress, progress, "exited", "restarted"}, d.read(), "and the end by Close is no exit")
}
