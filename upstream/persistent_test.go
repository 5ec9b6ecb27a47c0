package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/upstream"
	"github.com/mcp-idem/mcp-idem/upstream/upstreamtest"
)

var (
	errBroken    = errors.New("it is broken")
	errImpatient = errors.New("the client is impatient")
	greeting     = jsonrpc.Notification("notifications/initialized", nil)
)

// A part is what the server does that one dial makes.
type part struct {
	absent  bool          // there is none: the dial fails
	takes   time.Duration // for the handshake
	err     error         // with which the handshake fails
	refuses bool          // the handshake is answered with an error
	babbles bool          // it is answered with what is no answer
	lingers bool          // Close returns when its context ends
}

// An actor is a Server that plays a part.
type actor struct {
	part
	s                     *stage
	number                int
	greeted, failed, gone chan struct{}
	err                   error
	once                  sync.Once
}

// A cue is the session of an actor.
type cue struct {
	upstream.Session
	number int
}

// A stage notes in one order what happens to its actors, and what is told of them.
type stage struct {
	*upstream.Persistent
	t     *testing.T
	parts []part
	greet bool // at the introduction
	calls sync.WaitGroup

	mu     sync.Mutex
	noted  []string
	actors []*actor
	dials  []time.Time
	waits  []time.Duration
}

// play runs a test on a stage of its own, in the time of a bubble. The first dial makes
// the first part, and the last part is made for ever.
func play(t *testing.T, test func(t *testing.T, s *stage), parts ...part) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{t: t, parts: parts, greet: true}
		s.Persistent = upstream.Persist("stage", s.dial, upstream.Options{
			Grace: time.Second, BackoffMin: time.Second, BackoffMax: 8 * time.Second, Observer: upstream.Observer{
				Exited: func(err error, wait time.Duration) {
					s.note("exited: %v", err)
					s.waits = append(s.waits, wait)
				},
				Restarted: func(session upstream.Session) { s.note("restarted %d", session.(*cue).number) },
			},
		}, func(result []byte) {
			if s.note("introduced %s", result); s.greet {
				assert.NoError(t, s.Initialized(greeting))
			}
		})
		test(t, s)
		require.NoError(t, s.Close(t.Context()))
		s.calls.Wait()
	})
}

func (s *stage) dial(upstream.Options) (upstream.Server, error) {
	s.note("dial")
	s.dials = append(s.dials, time.Now())
	a := &actor{
		part: s.parts[min(len(s.actors), len(s.parts)-1)], s: s, number: len(s.actors) + 1,
		greeted: make(chan struct{}), failed: make(chan struct{}), gone: make(chan struct{}),
	}
	s.actors = append(s.actors, a)
	if a.absent {
		return nil, errBroken
	}
	return a, nil
}

func (s *stage) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noted = append(s.noted, fmt.Sprintf(format, args...))
}

// heard returns what was noted since the last time, once everybody waits.
func (s *stage) heard() []string {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	noted := s.noted
	s.noted = nil
	return noted
}

// happened asserts what was noted since the last time.
func (s *stage) happened(want ...string) {
	s.t.Helper()
	assert.Equal(s.t, want, s.heard())
}

// within returns a context of so long.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), d, errImpatient)
	t.Cleanup(cancel)
	return ctx
}

// after lets time go by.
func after(d time.Duration) { <-time.After(d) }

// initialize asserts what comes of Initialize: a result, or the text of an error.
func (s *stage) initialize(ctx context.Context, params, want string) {
	s.t.Helper()
	m, err := s.Initialize(ctx, []byte(params))
	if err != nil {
		assert.EqualError(s.t, err, want)
		return
	}
	assert.Equal(s.t, want, string(m.Result)+string(m.Error))
}

// ready asserts of which actor the session is that is ready, however long it takes.
func (s *stage) ready(number int) {
	s.t.Helper()
	session, err := s.Ready(s.t.Context())
	require.NoError(s.t, err)
	assert.Equal(s.t, number, session.(*cue).number)
}

func (a *actor) Initialize(ctx context.Context, params []byte) (jsonrpc.Message, error) {
	a.s.note("initialize %d %s", a.number, params)
	select {
	case <-time.After(a.takes):
	case <-ctx.Done():
		return jsonrpc.Message{}, context.Cause(ctx)
	}
	if a.refuses || string(params) == "bad" {
		return jsonrpc.ErrorReply([]byte("0"), &jsonrpc.Error{Code: -32001, Message: "log in"}), nil
	}
	if a.babbles {
		return jsonrpc.Message{}, nil
	}
	return jsonrpc.Result([]byte("0"), fmt.Append(nil, a.number)), a.part.err
}

func (a *actor) Initialized(m jsonrpc.Message) error {
	a.s.note("told %d %s", a.number, m.Method)
	a.once.Do(func() { close(a.greeted) })
	return nil
}

func (a *actor) Proceed() {
	a.s.note("proceed %d", a.number)
	a.once.Do(func() { close(a.greeted) })
}

func (a *actor) Ready(ctx context.Context) (upstream.Session, error) {
	select {
	case <-a.greeted:
		return &cue{number: a.number}, nil
	case <-a.failed:
		return nil, &upstream.UnreachableError{Name: "actor", Err: a.err}
	case <-a.gone:
		return nil, &upstream.UnreachableError{Name: "actor", Err: errors.New("it is closed")}
	case <-ctx.Done():
		return nil, &upstream.UnreachableError{Name: "actor", Err: context.Cause(ctx)}
	}
}

func (a *actor) fail() {
	a.err = errBroken
	close(a.failed)
}

func (a *actor) Failed() <-chan struct{} { return a.failed }
func (a *actor) Err() error              { return a.err }

func (a *actor) Close(ctx context.Context) error {
	if a.lingers {
		<-ctx.Done()
	}
	close(a.gone) // a second time would panic
	a.s.note("closed %d", a.number)
	return nil
}

const (
	told    = "notifications/initialized"
	refusal = `{"code":-32001,"message":"log in"}`
	babbled = `upstream "stage" answered initialize with something that is no answer to it`
	refused = `upstream "stage" refused the handshake: log in (JSON-RPC error -32001)`
)

func TestServerThatComesAtOnceIsLikeAnyOther(t *testing.T) {
	t.Parallel()
	play(t, func(t *testing.T, s *stage) {
		after(time.Hour)
		s.happened()
		s.initialize(t.Context(), "a", "1")
		require.NoError(t, s.Initialized(greeting))
		s.ready(1)
		after(time.Hour)
		s.happened("dial", "initialize 1 a", "told 1 "+told)
		require.NoError(t, s.Trouble())
		require.NoError(t, s.Err())
		assert.Nil(t, s.Failed())
	}, part{})
}

func TestServerIsDialledAgainUntilItComes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		part
		want    string // of Initialize
		trouble string
	}{
		"there is none":  {part{absent: true}, "it is broken", "it is broken"},
		"it fails":       {part{err: errBroken}, "it is broken", "it is broken"},
		"it refuses":     {part{refuses: true}, refusal, refused},
		"it babbles":     {part{babbles: true}, "", babbled},
		"it hardly ends": {part{refuses: true, lingers: true}, refusal, refused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, func(t *testing.T, s *stage) {
				s.initialize(t.Context(), "a", c.want)
				require.EqualError(t, s.Trouble(), c.trouble)
				s.ready(3)
				require.NoError(t, s.Trouble())
				assert.LessOrEqual(t, s.dials[1].Sub(s.dials[0])-s.waits[0], 2*time.Second, "the graces of the first")
				var want []string
				for number := range 2 {
					want = append(want, "dial")
					if !c.absent {
						want = append(want, fmt.Sprintf("initialize %d a", number+1), fmt.Sprintf("closed %d", number+1))
					}
					want = append(want, "exited: "+c.trouble)
				}
				s.happened(append(want, "dial", "initialize 3 a", "introduced 3", "told 3 "+told, "restarted 3")...)
				after(time.Hour)
				s.happened()
			}, c.part, c.part, part{})
		})
	}
}

func TestPausesBetweenDialsGrow(t *testing.T) {
	t.Parallel()
	play(t, func(t *testing.T, s *stage) {
		s.initialize(t.Context(), "a", "it is broken")
		s.ready(7)
		for i, most := range []time.Duration{1, 2, 4, 8, 8, 8} {
			assert.Equal(t, s.waits[i], s.dials[i+1].Sub(s.dials[i]))
			assert.LessOrEqual(t, s.waits[i], most*time.Second)
			assert.GreaterOrEqual(t, s.waits[i], most*time.Second/2)
		}
		after(2 * time.Minute)
		s.actors[6].fail()
		synctest.Wait()
		assert.LessOrEqual(t, s.waits[6], time.Second, "it has worked for long")
	}, part{absent: true}, part{absent: true}, part{absent: true}, part{absent: true}, part{absent: true}, part{absent: true}, part{})
}

func TestStartThatOutlastsItsCallerIsReportedOnce(t *testing.T) {
	t.Parallel()
	play(t, func(t *testing.T, s *stage) {
		_, err := s.Initialize(within(t, time.Second), []byte("a"))
		require.EqualError(t, err, `upstream "stage" cannot be reached: the client is impatient`)
		require.ErrorIs(t, err, errImpatient)
		s.ready(1)
		after(time.Hour)
		s.happened("dial", "initialize 1 a", "introduced 1", "told 1 "+told, "restarted 1")
	}, part{takes: time.Minute})
}

func TestWhatTheClientHasSaidIsSaidToEachServerThatComes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		say  func(*stage)
		want string
	}{
		"initialized": {func(s *stage) { assert.NoError(s.t, s.Initialized(greeting)) }, "told %d " + told},
		"proceed":     {func(s *stage) { s.Proceed() }, "proceed %d"},
		"both": {func(s *stage) {
			s.Proceed()
			assert.NoError(s.t, s.Initialized(greeting))
		}, "told %d " + told},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, func(t *testing.T, s *stage) {
				s.greet = false
				s.initialize(t.Context(), "a", "it is broken")
				c.say(s)
				s.ready(2)
				s.happened("dial", "exited: it is broken", "dial", "initialize 2 a", fmt.Sprintf(c.want, 2), "introduced 2", "restarted 2")
				s.actors[1].fail()
				after(time.Minute)
				s.happened("closed 2", "exited: it is broken", "dial", "initialize 3 a", fmt.Sprintf(c.want, 3), "introduced 3", "restarted 3")
			}, part{absent: true}, part{})
		})
	}
}

func TestServerIsNotReadyBeforeTheClientHasGoneOn(t *testing.T) {
	t.Parallel()
	play(t, func(t *testing.T, s *stage) {
		s.greet = false
		s.Proceed() // from nothing
		s.initialize(t.Context(), "a", "it is broken")
		_, err := s.Ready(within(t, time.Hour))
		require.EqualError(t, err, `upstream "actor" cannot be reached: the client is impatient`)
		s.happened("dial", "exited: it is broken", "dial", "initialize 2 a", "introduced 2")
		s.Proceed()
		s.happened("proceed 2", "restarted 2")
	}, part{absent: true}, part{})
}

func TestOneStartHasOneHandshake(t *testing.T) {
	t.Parallel()
	play(t, func(t *testing.T, s *stage) {
		for _, params := range []string{"a", "b", "c"} {
			s.calls.Go(func() { s.initialize(t.Context(), params, "1") })
			synctest.Wait()
		}
		s.initialize(within(t, time.Second), "d", `upstream "stage" cannot be reached: the client is impatient`)
		after(time.Hour)
		s.happened("dial", "initialize 1 a")
		s.actors[0].fail()
		after(time.Hour)
		s.happened("closed 1", "exited: it is broken", "dial", "initialize 2 d", "introduced 2", "told 2 "+told, "restarted 2")
	}, part{takes: time.Minute})
}

func TestStartThatALaterCallWaitsForIsNotIntroduced(t *testing.T) {
	t.Parallel()
	play(t, func(t *testing.T, s *stage) {
		s.initialize(t.Context(), "a", "it is broken")
		after(10 * time.Second)
		s.happened("dial", "exited: it is broken", "dial", "initialize 2 a")
		s.initialize(t.Context(), "b", "2")
		s.happened()
		require.NoError(t, s.Initialized(greeting))
		s.happened("told 2 "+told, "restarted 2")
	}, part{absent: true}, part{takes: time.Minute})
}

func TestInitializeBetweenTwoStartsSaysWhatFailed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		part
		first, then string
	}{
		"the dial":      {part{absent: true}, "it is broken", "it is broken"},
		"the handshake": {part{err: errBroken}, "it is broken", "it is broken"},
		"refused":       {part{refuses: true}, refusal, refusal},
		"the server":    {part{}, "1", "it is broken"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, func(t *testing.T, s *stage) {
				s.initialize(t.Context(), "a", c.first)
				if c.first == "1" {
					s.actors[0].fail()
				}
				synctest.Wait()
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				for range 20 {
					s.initialize(ctx, "b", c.then) // needs no time, and is known
				}
				s.ready(2)
				assert.Subset(t, s.heard(), []string{"initialize 2 b", "introduced 2"})
			}, c.part, part{})
		})
	}
}

func TestInitializeIsHandedToAServerThatIsThere(t *testing.T) {
	t.Parallel()
	play(t, func(t *testing.T, s *stage) {
		s.initialize(t.Context(), "a", "1")
		s.initialize(t.Context(), "b", "1")
		s.initialize(t.Context(), "bad", refusal)
		s.happened("dial", "initialize 1 a", "initialize 1 b", "initialize 1 bad")
		s.actors[0].fail()
		s.ready(2)
		s.happened("closed 1", "exited: it is broken", "dial", "initialize 2 b", "introduced 2", "told 2 "+told, "restarted 2")
	}, part{})
}

func TestReadyWaitsThroughOutagesAndSaysWhy(t *testing.T) {
	t.Parallel()
	play(t, func(t *testing.T, s *stage) {
		_, err := s.Ready(within(t, time.Second))
		require.EqualError(t, err, `upstream "stage" cannot be reached: the client is impatient`)
		s.initialize(t.Context(), "a", "1")
		ready := make(chan struct{})
		go func() {
			defer close(ready)
			s.ready(3)
		}()
		synctest.Wait()
		s.actors[0].fail()
		after(time.Second)
		_, err = s.Ready(within(t, time.Second))
		require.EqualError(t, err, `upstream "stage" cannot be reached: the client is impatient: it is broken`)
		require.ErrorAs(t, err, new(*upstream.UnreachableError))
		require.ErrorIs(t, err, errImpatient)
		require.ErrorIs(t, err, errBroken)
		<-ready
	}, part{}, part{err: errBroken, takes: time.Minute}, part{})
}

func TestPersistentCanBeClosedAtAnyTime(t *testing.T) {
	t.Parallel()
	closed := `upstream "stage" cannot be reached: it was told to end`
	for name, c := range map[string]struct {
		parts []part
		until func(*stage)
		ends  []string
	}{
		"before initialize":     {[]part{{}}, func(*stage) {}, nil},
		"during the handshake":  {[]part{{takes: time.Hour}}, func(s *stage) { s.calls.Go(func() { s.initialize(s.t.Context(), "a", closed) }) }, []string{"closed 1"}},
		"during a later one":    {[]part{{absent: true}, {takes: time.Hour}}, func(s *stage) { s.initialize(s.t.Context(), "a", "it is broken"); after(time.Minute) }, []string{"closed 2"}},
		"between two starts":    {[]part{{absent: true}}, func(s *stage) { s.initialize(s.t.Context(), "a", "it is broken") }, nil},
		"before initialized":    {[]part{{}}, func(s *stage) { s.initialize(s.t.Context(), "a", "1") }, []string{"closed 1"}},
		"before a later one":    {[]part{{absent: true}, {}}, func(s *stage) { s.greet = false; s.initialize(s.t.Context(), "a", "it is broken"); after(time.Minute) }, []string{"closed 2"}},
		"while a server is up":  {[]part{{absent: true}, {}}, func(s *stage) { s.initialize(s.t.Context(), "a", "it is broken"); s.ready(2) }, []string{"closed 2"}},
		"while one is let down": {[]part{{refuses: true, lingers: true}}, func(s *stage) { s.initialize(s.t.Context(), "a", refusal) }, []string{"closed 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, func(t *testing.T, s *stage) {
				c.until(s)
				waiting := make(chan error, 1)
				go func() {
					_, err := s.Ready(t.Context())
					waiting <- err
				}()
				s.heard()
				require.NoError(t, s.Close(t.Context()))
				if err := <-waiting; name != "while a server is up" {
					require.EqualError(t, err, closed)
				}
				after(time.Hour)
				s.happened(c.ends...)
				s.initialize(t.Context(), "b", closed)
				_, err := s.Ready(t.Context())
				require.EqualError(t, err, closed)
				s.happened()
			}, c.parts...)
		})
	}
}

func TestCloseIsInAHurryWhenItsContextHasEnded(t *testing.T) {
	t.Parallel()
	play(t, func(t *testing.T, s *stage) {
		s.initialize(t.Context(), "a", "1")
		began := time.Now()
		require.ErrorIs(t, s.Close(within(t, time.Millisecond)), errImpatient)
		assert.Equal(t, time.Millisecond, time.Since(began))
		s.happened("dial", "initialize 1 a", "closed 1")
	}, part{lingers: true})
}

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
