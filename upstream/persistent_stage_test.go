package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/upstream"
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
