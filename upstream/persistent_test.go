package upstream_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/upstream"
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
