package dedup

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What the upstream did before it asked, nobody knows: proof that a continuation was
// not executed frees no key.
func TestProofAboutAContinuationLeadsBackToTheQuestion(t *testing.T) {
	t.Parallel()
	for _, doubt := range []Row{0, 16, 17} {
		for _, evidence := range []Evidence{ProvenUnsent, RefusedByConvention, NeedsURL} {
			m, ok := moveFor(Entry{State: Running, Row: 11, Doubt: doubt, Round: 1}, evidence)
			require.True(t, ok)
			assert.Equal(t, AwaitingInput, m.To)
			_, ok = moveFor(Entry{State: Unknown, Row: 8, Doubt: doubt, Round: 1, OpenUntil: noon}, evidence)
			assert.False(t, ok, "the late one proves nothing of the operation")
		}
	}
}

func TestRoundsAreFoundByTheirStateAndAnswers(t *testing.T) {
	t.Parallel()
	round := func(state, answers byte) Round { return Round{State: Digest{state}, Answers: Digest{answers}} }
	bare := func(state byte) Round { return Round{State: Digest{state}, Bare: true} }
	said := func(state, answers byte) Continuation { return Continuation{Digest{state}, Digest{answers}} }
	for name, c := range map[string]struct {
		rounds []Round
		said   Continuation
		waits  bool
		want   int // -1: none
	}{
		"nothing was asked":                               {nil, said(1, 1), false, -1},
		"another state":                                   {[]Round{round(1, 0)}, said(2, 1), true, -1},
		"no state, where one came":                        {[]Round{round(1, 0)}, said(0, 1), true, -1},
		"the one of its state":                            {[]Round{round(1, 7), round(2, 7), round(3, 0)}, said(2, 8), true, 1},
		"the newest of its state, not yet answered":       {[]Round{round(1, 7), round(1, 0)}, said(1, 8), true, 1},
		"the one that was answered so":                    {[]Round{round(1, 7), round(1, 8), round(1, 0)}, said(1, 7), true, 0},
		"the later of two that were answered so":          {[]Round{round(1, 7), round(1, 7), round(1, 0)}, said(1, 7), true, 1},
		"the newest was answered so":                      {[]Round{round(1, 7), round(1, 8)}, said(1, 8), false, 1},
		"the newest was answered so, but came to nothing": {[]Round{round(1, 7), round(1, 8)}, said(1, 8), true, 1},
		"answered so before the newest came to nothing":   {[]Round{round(1, 8), round(1, 8)}, said(1, 8), true, 0},
		"without a state":                                 {[]Round{round(0, 7), round(0, 0)}, said(0, 7), true, 0},
		"called again as often as it is asked for":        {[]Round{bare(1), bare(1)}, said(1, 0), true, 1},
		"called again while that runs":                    {[]Round{bare(1), bare(1)}, said(1, 0), false, 1},
	} {
		at, ok := roundOf(c.rounds, c.said, c.waits)
		assert.Equal(t, c.want, at, name)
		assert.Equal(t, c.want >= 0, ok, name)
	}
}
