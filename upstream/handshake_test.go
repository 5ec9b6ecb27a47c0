//go:build unix

package upstream_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/upstream"
)

func TestSessionIsNotReadyBeforeTheHandshakeIsComplete(t *testing.T) {
	t.Parallel()
	r := run(t, nil)
	s, err := r.Ready(r.ctx())
	require.NoError(t, err, "without a handshake a live process is enough")
	assert.Contains(t, string(r.ask(s, toolCall("1", "get_balance", `{}`)).Result), "42.50")

	_, err = r.Initialize(r.ctx(), []byte(clientParams))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = r.Ready(ctx)
	assertNotSent(t, err)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	ready := make(chan upstream.Session, 1)
	go func() {
		s, _ := r.Ready(r.ctx())
		ready <- s
	}()
	require.NoError(t, r.Initialized(jsonrpc.Notification("notifications/initialized", nil)))
	assert.Same(t, s, next(t, ready))
}

func TestClientThatGoesOnWithoutTheEndOfTheHandshake(t *testing.T) {
	t.Parallel()
	r := run(t, nil, "--received", "DIR/received", "--fault", "refund:nth=1,do=exit")
	r.Proceed() // nothing to proceed from
	_, err := r.Initialize(r.ctx(), []byte(clientParams))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = r.Ready(ctx)
	assertNotSent(t, err)

	ready := make(chan upstream.Session, 1)
	go func() {
		s, _ := r.Ready(r.ctx())
		ready <- s
	}()
	r.Proceed()
	r.lost(r.send(next(t, ready), toolCall("1", "refund", `{}`)), upstream.UpstreamExited)
	again, err := r.Ready(r.ctx())
	require.NoError(t, err, "it had worked, and is restarted")
	r.ask(again, toolCall("2", "refund", `{}`))
	r.counts(2)
	received, err := os.ReadFile(filepath.Join(r.dir, "received"))
	require.NoError(t, err)
	assert.Equal(t, 2, strings.Count(string(received), `"params":`+legacyClient))
	assert.NotContains(t, string(received), "notifications/initialized")
}

func TestProceedBeforeTheAnswerToInitializeDoesNotMakeAServerOneThatWorks(t *testing.T) {
	t.Parallel()
	r := run(t, nil, "--fault", "initialize:do=exit:3")
	r.Proceed()
	_, err := r.Initialize(r.ctx(), []byte(clientParams))
	require.ErrorContains(t, err, "exited with status 3 before it answered initialize")
	next(t, r.Failed())
}

func TestErrorAnswerToInitializeIsHandedOn(t *testing.T) {
	t.Parallel()
	r := run(t, nil, "--fault", "initialize:do=error:-32602:Unsupported protocol version")
	for range 2 {
		m, err := r.Initialize(r.ctx(), []byte(clientParams))
		require.NoError(t, err)
		assert.Equal(t, `{"code":-32602,"message":"Unsupported protocol version"}`, string(m.Error))
	}
	assert.NoError(t, r.Err())
}

func TestInitializeThatTheClientGivesUpDoesNotFailTheServer(t *testing.T) {
	t.Parallel()
	r := run(t, nil, "--silent")
	gone := errors.New("the client is gone")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, gone)
	defer cancel()
	_, err := r.Initialize(ctx, []byte(clientParams))
	require.ErrorIs(t, err, gone)
	assert.NoError(t, r.Err())
}

func TestCommandThatEchoesItsInputIsNoServer(t *testing.T) {
	t.Parallel()
	handled := &rig{requests: make(chan request, 10), notifications: make(chan jsonrpc.Message, 10)}
	p, err := upstream.Start(upstream.Command{Name: "cat", Path: "cat", Env: os.Environ()}, upstream.Options{Handler: handled})
	require.NoError(t, err)
	_, err = p.Initialize(t.Context(), []byte(clientParams))
	require.EqualError(t, err, `upstream "cat" answered initialize with something that is no answer to it; check that the command is an MCP server`)
	next(t, p.Failed())
	require.NoError(t, p.Close(t.Context()))
	assert.Empty(t, handled.requests)
}
