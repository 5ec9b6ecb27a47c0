//go:build unix

package upstream_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/upstream"
	"github.com/mcp-idem/mcp-idem/upstream/upstreamtest"
)

func TestStartErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	require.NoError(t, os.WriteFile(plain, []byte("hello"), 0o600))
	broken := filepath.Join(dir, "broken")
	require.NoError(t, os.WriteFile(broken, []byte("\x00\x01"), 0o700))
	for name, test := range map[string]struct {
		command upstream.Command
		says    string
	}{
		"not on the PATH":        {upstream.Command{Path: "no-such-command", Env: os.Environ()}, `no command "no-such-command" on the PATH; install it`},
		"not on the PATH of Env": {upstream.Command{Path: "sh"}, `no command "sh" on the PATH`},
		"no such file":           {upstream.Command{Path: filepath.Join(dir, "none")}, "does not exist; check the path"},
		"not executable":         {upstream.Command{Path: plain}, "may not be executed"},
		"not a program":          {upstream.Command{Path: broken}, "neither a program for this machine nor a script"},
		"no such folder":         {upstream.Command{Path: "sh", Env: os.Environ(), Dir: filepath.Join(dir, "none")}, "is not a folder that exists"},
		"a file as the folder":   {upstream.Command{Path: "sh", Env: os.Environ(), Dir: plain}, "is not a folder that exists"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.command.Name = "mail"
			_, err := upstream.Start(test.command, upstream.Options{})
			var start *upstream.StartError
			require.ErrorAs(t, err, &start)
			assert.Contains(t, err.Error(), test.says)
			assert.Contains(t, err.Error(), `upstream "mail" cannot be started: `)
			assert.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestCommandIsFoundOnThePathOfItsEnvironment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program, args := upstreamtest.Self()
	require.NoError(t, os.Symlink(program, filepath.Join(dir, "only-here")))
	p, err := upstream.Start(upstream.Command{Name: "x", Path: "only-here", Args: args,
		Env: []string{"PATH=/nowhere", "PATH=relative:/nowhere:" + dir}}, upstream.Options{})
	require.NoError(t, err)
	m, err := p.Initialize(t.Context(), []byte(clientParams))
	require.NoError(t, err)
	assert.NotNil(t, m.Result)
	require.NoError(t, p.Close(t.Context()))
}

func TestEnvironmentIsTheGivenOneOnly(t *testing.T) {
	t.Parallel()
	lines := make(chan string, 100)
	p, err := upstream.Start(upstream.Command{Name: "env", Path: "/bin/sh", Args: []string{"-c", "env >&2; pwd >&2"},
		Env: []string{"ONLY=this"}, Dir: "/"}, upstream.Options{
		Observer: upstream.Observer{Stderr: func(line []byte) { lines <- string(line) }},
	})
	require.NoError(t, err)
	<-p.Failed()
	require.NoError(t, p.Close(t.Context()))
	close(lines)
	var all []string
	for line := range lines {
		all = append(all, line)
	}
	assert.Contains(t, all, "ONLY=this")
	assert.Contains(t, all, "/")
	for _, line := range all {
		assert.False(t, strings.HasPrefix(line, "HOME="), line)
	}
}

func TestFirstStartFailsForGood(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		flags []string
		says  string
	}{
		"exits at once":         {[]string{"--exit-before-initialize", "--stderr", "no \x1btoken given"}, `exited with status 1 before it answered initialize; the last line of its standard error is "no \x1btoken given"`},
		"exits on initialize":   {[]string{"--fault", "initialize:do=exit:3"}, "exited with status 3 before it answered initialize"},
		"is killed":             {[]string{"--fault", "initialize:do=kill"}, "was ended by a signal (killed) before it answered initialize"},
		"says nothing":          {[]string{"--silent"}, "did not answer initialize within 200ms; check that"},
		"result is no object":   {[]string{"--fault", `initialize:do=result:[]`}, "answered initialize with something that is no answer to it"},
		"answer is no JSON-RPC": {[]string{"--fault", "initialize:do=broken"}, "answered initialize with something that is no answer to it"},
		"closes its output":     {[]string{"--fault", "initialize:do=close_stdout"}, "closed its standard output before it answered initialize"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := run(t, func(o *upstream.Options) {
				if o.StartTimeout = 20 * time.Second; name == "says nothing" {
					o.StartTimeout = 200 * time.Millisecond
				}
			}, test.flags...)
			_, err := r.Initialize(r.ctx(), []byte(clientParams))
			var start *upstream.StartError
			require.ErrorAs(t, err, &start)
			assert.Equal(t, `upstream "scripted" `+start.Reason, start.Error())
			assert.Contains(t, start.Reason, test.says)

			next(t, r.Failed())
			assert.Equal(t, error(start), r.Err())
			_, err = r.Ready(r.ctx())
			assertNotSent(t, err)
			require.ErrorIs(t, err, start)
			_, err = r.Initialize(r.ctx(), []byte(clientParams))
			require.ErrorIs(t, err, start)
			assert.Empty(t, r.restarts)
		})
	}
}

func TestExitBetweenTheAnswerAndTheEndOfTheHandshakeFailsForGood(t *testing.T) {
	t.Parallel()
	script := `read -r line; echo '{"jsonrpc":"2.0","id":1,"result":{}}'; exit 4`
	p, err := upstream.Start(upstream.Command{Name: "sh", Path: "sh", Args: []string{"-c", script}, Env: os.Environ()}, upstream.Options{Era: upstream.EraLegacy})
	require.NoError(t, err)
	_, err = p.Initialize(t.Context(), []byte(clientParams))
	require.NoError(t, err, "the answer was in the pipe")
	next(t, p.Failed())
	assert.EqualError(t, p.Err(), `upstream "sh" exited with status 4 before the handshake was complete`)
	require.NoError(t, p.Close(t.Context()))
}

func TestPingIsAnsweredAndWithoutAHandlerNothingElse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := `echo '{"jsonrpc":"2.0","id":"p","method":"ping"}'; read -r a; echo "$a" >` + dir + `/a
echo '{"jsonrpc":"2.0","id":8,"method":"roots/list"}'; read -r b; echo "$b" >` + dir + `/b
echo '{"jsonrpc":"2.0","method":"notifications/x"}'
echo '{"jsonrpc":"2.0","id":9,"method":"roots/list","params":7}'; read -r c; echo "$c" >` + dir + `/c; touch ` + dir + `/done; cat >/dev/null`
	p, err := upstream.Start(upstream.Command{Name: "sh", Path: "sh", Args: []string{"-c", script}, Env: os.Environ()}, upstream.Options{})
	require.NoError(t, err)
	upstreamtest.WaitForFile(t, dir, "done")
	require.NoError(t, p.Close(t.Context()))
	for file, want := range map[string]string{
		"a": `{"jsonrpc":"2.0","id":"p","result":{}}`,
		"b": `{"jsonrpc":"2.0","id":8,"error":{"code":-32601,"message":"Method not found: roots/list"}}`,
		"c": `{"jsonrpc":"2.0","id":9,"error":{"code":-32600,"message":"Invalid Request: \"params\" must be an object or an array"}}`,
	} {
		got, err := os.ReadFile(filepath.Join(dir, file))
		require.NoError(t, err)
		assert.Equal(t, want, strings.TrimSpace(string(got)))
	}
}

func TestKilledServerIsRestartedAndTheCallIsNotSentAgain(t *testing.T) {
	t.Parallel()
	r := run(t, nil, "--received", "DIR/received", "--fault", "refund:nth=1,do=gate:never")
	s := r.ready()
	call := r.send(s, toolCall("1", "refund", `{"order":"o"}`))
	upstreamtest.WaitForFile(t, r.dir, "never.waiting")
	kill(t, upstreamtest.WaitForEffects(t, r.effects, 1)[0].PID)

	lost := r.lost(call, upstream.UpstreamExited)
	assert.Contains(t, lost.Error(), "ended by a signal (killed)")
	next(t, upstream.Done(s))
	_, err := s.Send(r.ctx(), toolCall("2", "refund", `{}`))
	assertNotSent(t, err)
	assert.Error(t, s.Notify(jsonrpc.Notification("notifications/cancelled", nil)))

	assert.ErrorContains(t, next(t, r.exits), "killed")
	again, err := r.Ready(r.ctx())
	require.NoError(t, err)
	assert.NotSame(t, s, again)
	assert.Same(t, again, next(t, r.restarts))
	assert.Contains(t, string(r.ask(again, toolCall("3", "refund", `{}`)).Result), "re_2")
	r.counts(2)

	received, err := os.ReadFile(filepath.Join(r.dir, "received"))
	require.NoError(t, err)
	assert.Equal(t, 2, strings.Count(string(received), `"params":`+legacyClient), "the handshake is repeated, with the same bytes")
	assert.Equal(t, 2, strings.Count(string(received), "notifications/initialized"))
	assert.Equal(t, 2, strings.Count(string(received), "tools/call"))
}

func TestAnswerThatWasInThePipeIsDelivered(t *testing.T) {
	t.Parallel()
	r := run(t, nil, "--fault", "refund:do=twice", "--fault", "refund:do=exit:0")
	s := r.ready()
	answer := r.ask(s, toolCall("1", "refund", `{}`)) // sent, then exit
	assert.Contains(t, string(answer.Result), "re_1")
	next(t, upstream.Done(s))
	r.counts(1)
}

func TestServerThatClosesItsOutputIsEndedAndRestarted(t *testing.T) {
	t.Parallel()
	r := run(t, func(o *upstream.Options) { o.Grace = 50 * time.Millisecond },
		"--ignore-eof", "--fault", "refund:nth=1,do=close_stdout")
	s := r.ready()
	lost := r.lost(r.send(s, toolCall("1", "refund", `{}`)), upstream.ConnectionLost)
	assert.Contains(t, lost.Error(), "closed its standard output")
	r.ask(next(t, r.restarts), toolCall("2", "refund", `{}`))
	r.counts(2)
}

func TestRestartGoesOnUntilItSucceeds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program, args := upstreamtest.Self("--effects", filepath.Join(dir, "effects"), "--fault", "refund:do=exit:0")
	link := filepath.Join(dir, "server")
	require.NoError(t, os.Symlink(program, link))
	r := &rig{t: t, eras: make(chan upstream.Era, 10), exits: make(chan error, 1000), restarts: make(chan upstream.Session, 10), strays: make(chan jsonrpc.Message, 1)}
	p, err := upstream.Start(upstream.Command{Name: "x", Path: link, Args: args, Env: upstreamtest.Env()}, r.limits())
	require.NoError(t, err)
	r.Process = p
	s := r.ready()

	require.NoError(t, os.Remove(link))
	r.lost(r.send(s, toolCall("1", "refund", `{}`)), upstream.UpstreamExited)
	assert.ErrorContains(t, next(t, r.exits), "exited with status 0")
	for range 3 {
		assert.ErrorContains(t, next(t, r.exits), "does not exist")
	}
	// now something that exits in the middle of the handshake
	require.NoError(t, os.Symlink("/bin/false", link))
	for err = next(t, r.exits); !strings.Contains(err.Error(), "status 1"); err = next(t, r.exits) {
		require.ErrorContains(t, err, "does not exist")
	}
	// and something that refuses the handshake
	refuses := "#!/bin/sh\nexec '" + program + "' \"$@\" --fault initialize:do=error:-32603:not-now\n"
	require.NoError(t, os.WriteFile(link+".new", []byte(refuses), 0o700))
	require.NoError(t, os.Rename(link+".new", link))
	for err = next(t, r.exits); !strings.Contains(err.Error(), "not-now"); err = next(t, r.exits) {
	}
	require.NoError(t, os.Symlink(program, link+".new"))
	require.NoError(t, os.Rename(link+".new", link))
	again, err := p.Ready(r.ctx())
	require.NoError(t, err)
	r.ask(again, toolCall("2", "echo_raw", `{}`))
	assert.NoError(t, p.Err())
	require.NoError(t, p.Close(t.Context()))
}

func TestReadyWhileRestartingWaitsForItsContext(t *testing.T) {
	t.Parallel()
	r := run(t, func(o *upstream.Options) { o.BackoffMin, o.BackoffMax = time.Hour, time.Hour }, "--fault", "refund:do=exit")
	s := r.ready()
	r.lost(r.send(s, toolCall("1", "refund", `{}`)), upstream.UpstreamExited)
	next(t, r.exits)
	patience := errors.New("out of patience")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, patience)
	defer cancel()
	_, err := r.Ready(ctx)
	assertNotSent(t, err)
	require.ErrorIs(t, err, patience)

	waiting := make(chan error, 1)
	go func() {
		_, err := r.Ready(r.ctx())
		waiting <- err
	}()
	require.NoError(t, r.Close(r.ctx()))
	assertNotSent(t, next(t, waiting))
}

func kill(t *testing.T, pid int) {
	t.Helper()
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
}

func readPID(t *testing.T, file string) int {
	t.Helper()
	upstreamtest.WaitForFile(t, file)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	return pid
}
