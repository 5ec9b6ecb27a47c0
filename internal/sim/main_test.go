package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcp-idem/mcp-idem/upstream/upstreamtest"
)

// seed is of the run that is another each time.
var seed = flag.Uint64("sim.seed", rand.Uint64(), "seed of the run that has no fixed one")

// TestMain lets the test binary be the scripted server, with a lock or without.
func TestMain(m *testing.M) {
	upstreamtest.Main()
	if len(os.Args) > 1 && os.Args[1] == serverWord {
		os.Exit(serve(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == claimsWord {
		if err := claim(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if built.folder != "" {
			_ = os.RemoveAll(built.folder)
		}
		os.Exit(code)
	}))
}

// built is the program, built for the first test that runs it.
var built struct {
	once            sync.Once
	folder, program string
	err             error
}

func program(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		if built.folder, built.err = os.MkdirTemp("", "mcp-idem-sim-test-"); built.err == nil {
			built.program, built.err = build(context.Background(), built.folder)
		}
	})
	require.NoError(t, built.err)
	return built.program
}

// simulated is a run of a few seconds.
func simulated(t *testing.T, seed uint64, lasts time.Duration, calm bool) report {
	t.Helper()
	if testing.Short() {
		lasts /= 4
	}
	r, err := simulate(t.Context(), options{program: program(t), folder: t.TempDir(), lasts: lasts, seed: seed, calm: calm})
	require.NoError(t, err, "seed %d", seed)
	t.Log(r)
	require.NoError(t, r.err(), "seed %d: what a run has shown, another with -sim.seed may show again", seed)
	return r
}

func TestThePromiseHoldsInBadWeather(t *testing.T) {
	for _, seed := range []uint64{1, 2, *seed} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := simulated(t, seed, 6*time.Second, false)
			assert.NotZero(t, r.gatewayKills, "gateways killed")
			assert.NotZero(t, r.outcomes["COMPLETED"], "calls executed")
			assert.NotZero(t, r.outcomes["COMPLETED replay"], "calls replayed")
			assert.NotZero(t, r.outcomes["REJECTED_DUPLICATE key_reused"], "keys reused")
			assert.Less(t, r.answered, r.calls, "some calls got no answer")
		})
	}
}

// TestNothingIsUnknownInFairWeather: a gateway that says EFFECT_UNKNOWN of everything
// would break no promise.
func TestNothingIsUnknownInFairWeather(t *testing.T) {
	r := simulated(t, 1, 3*time.Second, true)
	assert.Equal(t, r.calls, r.answered)
	assert.Equal(t, r.effects, r.outcomes["COMPLETED"], "each effect was answered")
	assert.Equal(t, r.calls, r.outcomes["COMPLETED"]+r.outcomes["COMPLETED replay"]+r.outcomes["RUNNING"]+r.outcomes["REJECTED_DUPLICATE key_reused"])
	assert.Zero(t, r.words)
}
