package upstream_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/upstream"
	"github.com/mcp-idem/mcp-idem/upstream/upstreamtest"
)

// A revenant is a Persistent of real servers, and what it reported.
type revenant struct {
	*upstream.Persistent
	*rig
	introduced chan string
}

// persist makes a Persistent that is closed with the test. Its Dialer is told which
// dial it is. The handshakes that it introduces are completed.
func persist(t *testing.T, dial func(r *rig, number int, o upstream.Options) (upstream.Server, error)) *revenant {
	t.Helper()
	dir := t.TempDir()
	r := &revenant{introduced: make(chan string, 10), rig: &rig{
		t: t, dir: dir, effects: filepath.Join(dir, "effects"), stderr: make(chan string, 1000),
		exits: make(chan error, 1000), restarts: make(chan upstream.Session, 10), eras: make(chan upstream.Era, 10),
	}}
	number := 0
	r.Persistent = upstream.Persist("late", func(o upstream.Options) (upstream.Server, error) {
		number++
		return dial(r.rig, number, o)
	}, r.limits(), func(result []byte) {
		r.introduced <- string(result)
		assert.NoError(t, r.Persistent.Initialized(greeting))
	})
	t.Cleanup(func() { assert.NoError(t, r.Persistent.Close(r.ctx())) })
	return r
}

// scripted starts the scripted server by the given path, empty for its own.
func scripted(r *rig, path string, o upstream.Options, flags ...string) (upstream.Server, error) {
	program, args := upstreamtest.Self(append([]string{"--effects", r.effects}, flags...)...)
	if path == "" {
		path = program
	}
	return upstream.Start(upstream.Command{Name: "late", Path: path, Args: args, Env: upstreamtest.Env()}, o)
}

// comes asserts that the server comes, and is restarted like any other from then on.
func (r *revenant) comes() {
	r.t.Helper()
	assert.Contains(r.t, next(r.t, r.introduced), `"serverInfo"`)
	s := next(r.t, r.restarts)
	ready, err := r.Persistent.Ready(r.ctx())
	require.NoError(r.t, err)
	assert.Same(r.t, s, ready)
	r.lost(r.send(s, toolCall("1", "refund", `{}`)), upstream.UpstreamExited)
	r.ask(next(r.t, r.restarts), toolCall("2", "refund", `{}`))
	assert.Empty(r.t, r.introduced)
	r.counts(2)
}

func TestCommandThatIsInstalledLater(t *testing.T) {
	t.Parallel()
	r := persist(t, func(r *rig, _ int, o upstream.Options) (upstream.Server, error) {
		return scripted(r, filepath.Join(r.dir, "server"), o, "--fault", "refund:nth=1,do=exit")
	})
	_, err := r.Persistent.Initialize(r.ctx(), []byte(clientParams))
	require.ErrorAs(t, err, new(*upstream.StartError))
	require.ErrorIs(t, err, os.ErrNotExist)
	assert.Equal(t, err, next(t, r.exits))
	program, _ := upstreamtest.Self()
	require.NoError(t, os.Symlink(program, filepath.Join(r.dir, "server")))
	r.comes()
}

func TestServerWhoseFirstStartsFail(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flags []string
		want  string
	}{
		"it ends at once":       {[]string{"--exit-before-initialize"}, "exited with status 1 before it answered initialize"},
		"it ends at initialize": {[]string{"--fault", "initialize:do=exit:3"}, "exited with status 3 before it answered initialize"},
		"it refuses":            {[]string{"--fault", "initialize:do=error:-32001:log in"}, "refused the handshake: log in (JSON-RPC error -32001)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := persist(t, func(r *rig, number int, o upstream.Options) (upstream.Server, error) {
				if number <= 2 {
					return scripted(r, "", o, c.flags...)
				}
				return scripted(r, "", o, "--fault", "refund:nth=1,do=exit")
			})
			m, err := r.Persistent.Initialize(r.ctx(), []byte(clientParams))
			if m.Error == nil {
				require.ErrorContains(t, err, c.want)
			} else {
				assert.JSONEq(t, refusal, string(m.Error))
			}
			require.ErrorContains(t, next(t, r.exits), c.want)
			require.ErrorContains(t, next(t, r.exits), c.want)
			r.comes()
		})
	}
}

func TestServerThatEndsBeforeItsHandshakeIsComplete(t *testing.T) {
	t.Parallel()
	r := persist(t, func(r *rig, number int, o upstream.Options) (upstream.Server, error) {
		if number == 1 {
			return scripted(r, "", o, "--fault", "initialize:do=twice", "--fault", "initialize:do=exit:3")
		}
		return scripted(r, "", o, "--fault", "refund:nth=1,do=exit")
	})
	m, err := r.Persistent.Initialize(r.ctx(), []byte(clientParams))
	require.NoError(t, err)
	require.NotNil(t, m.Result)
	require.ErrorContains(t, next(t, r.exits), "exited with status 3 before the handshake was complete")
	r.comes()
}

func TestRemoteWhosePortOpensLater(t *testing.T) {
	t.Parallel()
	there := upstreamtest.Serve(t)
	there.Kill()
	r := persist(t, func(_ *rig, _ int, o upstream.Options) (upstream.Server, error) {
		return upstream.Dial(upstream.Endpoint{Name: "late", URL: there.URL}, o)
	})
	_, err := r.Persistent.Initialize(r.ctx(), []byte(clientParams))
	require.ErrorContains(t, err, `upstream "late" cannot be reached`)
	assert.Equal(t, err, next(t, r.exits))
	there.Restart()
	assert.Contains(t, next(t, r.introduced), `"serverInfo"`)
	assert.Contains(t, string(r.ask(next(t, r.restarts), toolCall("1", "refund", `{}`)).Result), "re_1")
	require.NoError(t, r.Trouble())
}
