//go:build unix

package upstream_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/upstream"
	"github.com/mcp-idem/mcp-idem/upstream/upstreamtest"
)

func TestQueueOfAServerThatDoesNotReadIsBoundedAndRefusedAtItsEnd(t *testing.T) {
	t.Parallel()
	r := run(t, nil, "--stop-reading-after", "3")
	s := r.ready()
	r.ask(s, toolCall("1", "refund", `{}`))
	upstreamtest.WaitForFile(t, r.dir, "read.waiting")
	begun := r.begin(s, toolCall("2", "refund", `{"x":"`+strings.Repeat("x", 300<<10)+`"}`))

	const senders = 3
	sent := make(chan error, senders)
	send := func() {
		_, err := s.Send(r.ctx(), toolCall("3", "refund", `{}`))
		sent <- err
	}
	go send()
	var full error
	for n := 0; full == nil && n < 1000; n++ {
		full = s.Notify(jsonrpc.Notification("notifications/cancelled", nil))
	}
	assertNotSent(t, full)
	assert.ErrorContains(t, full, "too many messages wait")
	assertNotSent(t, s.Reply(jsonrpc.Result([]byte("1"), []byte("{}"))))
	go send() // these two find no place in the queue
	go send()
	assert.Empty(t, sent)

	kill(t, upstreamtest.WaitForEffects(t, r.effects, 1)[0].PID)
	for range senders {
		assertNotSent(t, next(t, sent))
	}
	r.lost(begun, upstream.UpstreamExited)
	next(t, r.restarts)
	r.counts(1)
}

func TestServerThatClosesItsInput(t *testing.T) {
	t.Parallel()
	r := &rig{t: t, notifications: make(chan jsonrpc.Message, 1)}
	o := r.limits()
	o.Grace, o.Observer = 10*time.Millisecond, upstream.Observer{}
	script := `exec </dev/null; echo '{"jsonrpc":"2.0","method":"notifications/deaf"}'; sleep 60`
	p, err := upstream.Start(upstream.Command{Name: "deaf", Path: "sh", Args: []string{"-c", script}, Env: os.Environ()}, o)
	require.NoError(t, err)
	s, err := p.Ready(r.ctx())
	require.NoError(t, err)
	next(t, r.notifications)
	_, err = s.Send(r.ctx(), toolCall("1", "refund", `{}`))
	assertNotSent(t, err)
	assert.ErrorContains(t, err, `nothing was sent to upstream "deaf": `)
	next(t, p.Failed())
	assert.ErrorContains(t, p.Err(), `upstream "deaf" closed its standard input: `)
	_, err = p.Ready(r.ctx())
	assert.Equal(t, p.Err().Error(), err.Error(), "said once")
	var unreachable *upstream.UnreachableError
	assert.ErrorAs(t, err, &unreachable)
	require.NoError(t, p.Close(r.ctx()))
}

func TestLongMessagesOfTheServersOwnAreReported(t *testing.T) {
	t.Parallel()
	r := &rig{t: t, tooLong: make(chan *jsonrpc.TooLongError, 2), stderr: make(chan string, 3)}
	o := r.limits()
	o.MaxMessageBytes = 100
	script := `read -r line; x=xxxxxxxxxxxxxxxxxxxx; x=$x$x$x$x$x$x$x$x; echo "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"roots/list\",\"params\":{\"x\":\"$x\"}}"
x=$x$x$x$x$x$x$x$x; x=$x$x$x$x$x$x$x$x; echo "$x$x$x" >&2; echo next >&2; cat >/dev/null`
	p, err := upstream.Start(upstream.Command{Name: "long", Path: "sh", Args: []string{"-c", script}, Env: os.Environ()}, o)
	require.NoError(t, err)
	s, err := p.Ready(r.ctx())
	require.NoError(t, err)
	call := r.send(s, toolCall("9", "refund", `{}`))
	assert.Equal(t, "1", string(call.ID()), "as the request of the server has it")
	long := next(t, r.tooLong)
	assert.Equal(t, "roots/list", long.Method)
	assert.Equal(t, "1", string(long.ID))
	assert.Len(t, next(t, r.stderr), upstream.MaxStderrLine)
	assert.Equal(t, "next", next(t, r.stderr))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = call.Wait(ended)
	require.ErrorIs(t, err, context.Canceled, "the call is still open")
	require.NoError(t, p.Close(r.ctx()))
}
