package demo

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTally_CountsEffectsByOrder(t *testing.T) {
	t.Parallel()
	of := func(orders ...string) (refunds []refund) {
		for _, order := range orders {
			refunds = append(refunds, refund{Order: order})
		}
		return refunds
	}
	for name, c := range map[string]struct {
		refunds []refund
		calls   int
		want    tally
	}{
		"one for each":                    {of("order-2", "order-1"), 2, tally{calls: 2, effects: 2}},
		"none":                            {nil, 2, tally{calls: 2, missing: 2}},
		"one twice":                       {of("order-1", "order-1", "order-2"), 2, tally{calls: 2, effects: 3, duplicates: 1}},
		"one thrice":                      {of("order-1", "order-1", "order-1"), 1, tally{calls: 1, effects: 3, duplicates: 2}},
		"one twice, which hides no other": {of("order-1", "order-1"), 2, tally{calls: 2, effects: 2, duplicates: 1, missing: 1}},
		"one that nobody wanted":          {of("order-1", "order-9"), 1, tally{calls: 1, effects: 2}},
		"lost answers":                    {[]refund{{Order: "order-1", AnswerLost: true}, {Order: "order-1"}}, 1, tally{calls: 1, effects: 2, duplicates: 1, lost: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, c.want, tallyOf(c.refunds, c.calls))
		})
	}
}

func TestVerdict_FailsUnlessEachCallHasOneEffect(t *testing.T) {
	t.Parallel()
	assert.NoError(t, finding{tally: tally{calls: 2, effects: 2, lost: 1}}.verdict())
	for name, got := range map[string]tally{
		"a duplicate":                      {calls: 2, effects: 3, duplicates: 1},
		"a missing one":                    {calls: 2, effects: 1, missing: 1},
		"both, whose sum looks right":      {calls: 2, effects: 2, duplicates: 1, missing: 1},
		"an effect that nobody asked for":  {calls: 2, effects: 3},
		"two duplicates and a missing one": {calls: 2, effects: 3, duplicates: 2, missing: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Error(t, finding{tally: got}.verdict())
		})
	}
	assert.ErrorContains(t, finding{tally: tally{calls: 2, effects: 3, duplicates: 2, missing: 1}}.verdict(), "2 duplicates and 1 missing refund")
}

func TestPrintFindings_ShowsBothRuns(t *testing.T) {
	t.Parallel()
	c := &counts{}
	c.unknown.Store(9)
	c.executed.Store(7)
	c.notExecuted.Store(2)
	c.replays.Store(8)
	var out bytes.Buffer
	require.NoError(t, printFindings(&out,
		finding{tally: tally{calls: 10, effects: 14, duplicates: 4, lost: 4}, took: 1500 * time.Millisecond},
		finding{tally: tally{calls: 10, effects: 10, lost: 3}, counts: c, kills: 5, took: 2 * time.Second}))
	assert.Equal(t, `
                           straight   protected
calls                      10         10
effects                    14         10
duplicates                 4          0
missing                    0          0
lost answers               4          3
gateway kills              -          5
EFFECT_UNKNOWN seen        -          9
resolved as executed       -          7
resolved as not executed   -          2
replays                    -          8
time                       1.5 s      2.0 s

Sent straight and repeated until answered, 10 calls had 14 effects; through mcp-idem, with 3 lost answers and 5 kills, 10 calls had 10 effects.
`, out.String())
	assert.ErrorIs(t, printFindings(brokenPipe{}, finding{}, finding{counts: c}), errBroken)
}

var errBroken = errors.New("broken pipe")

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errBroken }

func TestProgress_WritesALineForEveryTenth(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		total int
		want  string
	}{
		"one":     {1, "x: 1 of 1\n"},
		"three":   {3, "x: 1 of 3\nx: 2 of 3\nx: 3 of 3\n"},
		"a score": {20, "x: 2 of 20\nx: 4 of 20\nx: 6 of 20\nx: 8 of 20\nx: 10 of 20\nx: 12 of 20\nx: 14 of 20\nx: 16 of 20\nx: 18 of 20\nx: 20 of 20\n"},
		"eleven":  {11, "x: 2 of 11\nx: 3 of 11\nx: 4 of 11\nx: 5 of 11\nx: 6 of 11\nx: 7 of 11\nx: 8 of 11\nx: 9 of 11\nx: 10 of 11\nx: 11 of 11\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			p := newProgress(&out, false, "x", c.total)
			for range c.total {
				p.oneMore()
			}
			p.end()
			assert.Equal(t, c.want, out.String())
		})
	}
}

func TestProgress_DrawsABarOnATerminal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := newProgress(&out, true, "straight", 2)
	p.oneMore()
	p.oneMore()
	p.end()
	assert.Contains(t, out.String(), "straight")
	assert.Contains(t, out.String(), "100%")
	assert.Equal(t, byte('\n'), out.Bytes()[out.Len()-1], "the table begins on a line of its own")
}

func TestMoments_LieWithinTheRun(t *testing.T) {
	t.Parallel()
	for _, calls := range []int{1, 2, 3, 5, 6, 7, 60, 1000} {
		for seed := range uint64(50) {
			moments := momentsOf(seed, calls)
			assert.Equal(t, moments, momentsOf(seed, calls), "the same seed, the same moments")
			assert.Len(t, moments, min(maxKills, calls-1))
			last := 0
			for _, m := range moments {
				assert.Greater(t, m, last)
				assert.Less(t, m, calls, "after the last call nobody would notice")
				last = m
			}
		}
	}
	assert.NotEqual(t, momentsOf(1, 1000), momentsOf(2, 1000))
}

func TestKiller_KillsAtItsMoments(t *testing.T) {
	t.Parallel()
	var at []int
	k := &killer{moments: []int{2, 5}}
	k.kill = func() bool {
		at = append(at, k.completed)
		return k.completed != 2 // there is nobody to kill at first
	}
	for range 8 {
		k.oneMore()
	}
	assert.Equal(t, []int{2, 3, 5}, at)
	assert.Equal(t, 2, k.kills)
}
