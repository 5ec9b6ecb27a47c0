package dedup

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var noon = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

const lastEvidence = Abandoned

// everyEntry yields an entry for each state, row that led there, doubt and
// openness that can be told apart by the table.
func everyEntry(yield func(Entry) bool) {
	for state := State(0); state <= Released; state++ {
		for row := Row(0); row <= 20; row++ {
			for _, doubt := range []Row{0, 16, 17} {
				for round := range 2 {
					e := Entry{State: state, Row: row, Doubt: doubt, Round: round, Attempt: 1, ClaimedAt: noon.Add(-time.Hour)}
					open := e
					open.OpenUntil = noon
					if !yield(e) || state == Unknown && !yield(open) {
						return
					}
				}
			}
		}
	}
}

func describe(e Entry, evidence Evidence) string {
	return fmt.Sprintf("evidence %d in %s by row %d, doubt %d, round %d, open %t", evidence, e.State, e.Row, e.Doubt, e.Round, e.Open())
}

// fitting are all moves that the evidence justifies, without the order of the
// table.
func fitting(e Entry, evidence Evidence) (fits []Move) {
	for _, m := range Moves {
		if m.From == e.State && m.Evidence == evidence && (len(m.After) == 0 || slices.Contains(m.After, e.Row)) &&
			(len(m.Doubt) == 0 || slices.Contains(m.Doubt, e.Doubt)) && (!m.Closed || !e.Open()) && (!m.FirstRound || e.Round == 0) {
			fits = append(fits, m)
		}
	}
	return fits
}

func TestNoTwoMovesFitOneEntryAndEvidence(t *testing.T) {
	t.Parallel()
	for e := range everyEntry {
		for evidence := range lastEvidence + 2 {
			fits := fitting(e, evidence)
			require.LessOrEqual(t, len(fits), 1, describe(e, evidence))
			m, ok := moveFor(e, evidence)
			require.Equal(t, len(fits) == 1, ok, describe(e, evidence))
			if ok {
				require.Equal(t, fits[0], m, describe(e, evidence))
			} else {
				require.Equal(t, Move{}, m, describe(e, evidence))
			}
		}
	}
}

func TestEveryEvidenceMovesSomething(t *testing.T) {
	t.Parallel()
	used := map[Evidence]bool{}
	for _, m := range Moves {
		used[m.Evidence] = true
	}
	for evidence := Claimed; evidence <= lastEvidence; evidence++ {
		assert.True(t, used[evidence], "evidence %d", evidence)
	}
	assert.False(t, used[0], "the zero value justifies nothing")
	assert.Len(t, used, int(lastEvidence))
}

// The answer of an attempt that may be the whole truth settles it from Running:
// nothing that can be learned of a running attempt is left without a move.
func TestARunningAttemptCanAlwaysBeSettled(t *testing.T) {
	t.Parallel()
	learned := []Evidence{
		ProvenUnsent, RefusedByConvention, NeedsURL, AnsweredResult, AnsweredErrorResult, AmbiguousResult,
		NothingHappened, AnsweredErrorReply, AmbiguousReply, NoAnswer, OwnerDead, Abandoned, InputRequired,
	}
	for _, doubt := range []Row{0, 16, 17} {
		for _, row := range []Row{max(1, doubt), 11} {
			for _, evidence := range learned {
				m, ok := moveFor(Entry{State: Running, Row: row, Doubt: doubt}, evidence)
				require.True(t, ok, "evidence %d, row %d, doubt %d", evidence, row, doubt)
				require.NotEqual(t, Running, m.To)
			}
		}
	}
}

func TestNothingLeavesCompleted(t *testing.T) {
	t.Parallel()
	for e := range everyEntry {
		for evidence := range lastEvidence + 2 {
			if m, ok := moveFor(e, evidence); ok {
				require.NotEqual(t, Completed, m.From, describe(e, evidence))
			}
		}
	}
}

func TestReleasedIsLeftOnlyByAClaimOrAnAlarmingAnswer(t *testing.T) {
	t.Parallel()
	for e := range everyEntry {
		if e.State != Released {
			continue
		}
		for evidence := range lastEvidence + 2 {
			m, ok := moveFor(e, evidence)
			believed := e.Row == 14 || e.Row == 15 // a check or a person had said so
			switch {
			case evidence == Claimed:
				require.Equal(t, Running, m.To)
			case believed && evidence.Answers():
				require.Equal(t, Completed, m.To)
				require.Equal(t, Row(18), m.Row)
			default:
				require.False(t, ok, describe(e, evidence))
			}
		}
	}
}

// Where an earlier attempt may have executed, proof about the newest one frees no
// key: only a check of the effect itself or a person's word does.
func TestDoubtNeverEndsInReleasedButByACheckOrAPerson(t *testing.T) {
	t.Parallel()
	for e := range everyEntry {
		for evidence := range lastEvidence + 2 {
			m, ok := moveFor(e, evidence)
			if !ok || m.To != Released {
				continue
			}
			if evidence == CheckNotExecuted || evidence == PersonNotExecuted {
				require.Equal(t, Unknown, m.From)
				require.False(t, e.Open(), describe(e, evidence))
				continue
			}
			require.Zero(t, e.Doubt, describe(e, evidence))
			require.Contains(t, []Evidence{ProvenUnsent, RefusedByConvention, NeedsURL, NothingHappened}, evidence)
		}
	}
}

// The error that answers a call sent again with the upstream's own key may be
// about the first one's effect.
func TestAnErrorAfterAResendWithKeySettlesNothing(t *testing.T) {
	t.Parallel()
	for _, evidence := range []Evidence{AnsweredErrorResult, AnsweredErrorReply} {
		m, ok := moveFor(Entry{State: Running, Row: 16, Doubt: 16}, evidence)
		require.True(t, ok)
		assert.Equal(t, Unknown, m.To)
		_, ok = moveFor(Entry{State: Unknown, Row: 8, Doubt: 16}, evidence)
		assert.False(t, ok)
		for _, doubt := range []Row{0, 17} {
			m, ok = moveFor(Entry{State: Running, Row: 1, Doubt: doubt}, evidence)
			require.True(t, ok)
			assert.Equal(t, Completed, m.To)
		}
	}
	m, ok := moveFor(Entry{State: Running, Row: 16, Doubt: 16}, AnsweredResult)
	require.True(t, ok)
	assert.Equal(t, Completed, m.To, "a result is a result")
}

// Evidence that is only that time has passed, or that somebody is gone, never
// makes an operation executable, and never settles it.
func TestTimeIsNoEvidence(t *testing.T) {
	t.Parallel()
	for e := range everyEntry {
		for _, evidence := range []Evidence{NoAnswer, OwnerDead, InputExpired, Abandoned} {
			if m, ok := moveFor(e, evidence); ok {
				require.Equal(t, Unknown, m.To, describe(e, evidence))
				require.False(t, m.NewAttempt, describe(e, evidence))
			}
		}
	}
}

func TestANewAttemptBeginsOnlyByLeave(t *testing.T) {
	t.Parallel()
	for e := range everyEntry {
		for evidence := range lastEvidence + 2 {
			m, ok := moveFor(e, evidence)
			if !ok {
				continue
			}
			begins := evidence == Claimed || evidence == ResentWithKey || evidence == SafeToRepeat
			require.Equal(t, begins, m.NewAttempt, describe(e, evidence))
			if begins && m.From == Unknown {
				require.False(t, e.Open(), "not while the answer may still arrive: %s", describe(e, evidence))
			}
			if begins || evidence == InputContinued {
				require.Equal(t, Running, m.To, describe(e, evidence))
			} else {
				require.NotEqual(t, Running, m.To, describe(e, evidence))
			}
		}
	}
}

// The lines of docs/guarantees.md, each with what leads in and out.
func TestRowsStandAsDocumented(t *testing.T) {
	t.Parallel()
	for _, m := range Moves {
		want, known := map[Row][]string{
			1: {"none>running", "released>running"}, 2: {"running>released"}, 3: {"running>released"}, 4: {"running>released"},
			5: {"running>completed"}, 6: {"running>completed", "running>unknown", "running>released"}, 7: {"running>completed", "running>unknown"},
			8: {"running>unknown"}, 9: {"running>unknown"}, 10: {"running>awaiting_input"}, 11: {"awaiting_input>running", "running>awaiting_input"},
			12: {"unknown>released", "unknown>completed"}, 13: {"unknown>completed"}, 14: {"unknown>released"},
			15: {"unknown>completed", "unknown>released", "awaiting_input>unknown"}, 16: {"unknown>running", "running>unknown"},
			17: {"unknown>running"}, 18: {"released>completed"}, 20: {"running>unknown"},
		}[m.Row]
		require.True(t, known, "row %d", m.Row)
		assert.Contains(t, want, m.From.String()+">"+m.To.String(), "row %d", m.Row)
	}
}

func TestAnswersAreWhatSettles(t *testing.T) {
	t.Parallel()
	for evidence := range lastEvidence + 2 {
		want := evidence == AnsweredResult || evidence == AnsweredErrorResult || evidence == AnsweredErrorReply
		assert.Equal(t, want, evidence.Answers(), "evidence %d", evidence)
	}
}

func TestMoveKeepsTimesAttemptsAndDoubt(t *testing.T) {
	t.Parallel()
	before := noon.Add(-time.Hour)
	for name, c := range map[string]struct {
		from     Entry
		evidence Evidence
		want     Entry
	}{
		"a first claim is attempt 1": {
			Entry{}, Claimed, Entry{State: Running, Row: 1, Attempt: 1, ClaimedAt: noon},
		},
		"an answer settles now": {
			Entry{State: Running, Row: 1, Attempt: 1, ClaimedAt: before}, AnsweredResult,
			Entry{State: Completed, Row: 5, Attempt: 1, ClaimedAt: before, SettledAt: noon},
		},
		"a claim after a release has no doubt": {
			Entry{State: Released, Row: 15, Attempt: 2, Doubt: 17, ClaimedAt: before, SettledAt: before}, Claimed,
			Entry{State: Running, Row: 1, Attempt: 3, ClaimedAt: noon},
		},
		"a re-send is in doubt by its row": {
			Entry{State: Unknown, Row: 8, Attempt: 1, ClaimedAt: before, SettledAt: before}, SafeToRepeat,
			Entry{State: Running, Row: 17, Attempt: 2, Round: 1, Doubt: 17, ClaimedAt: noon},
		},
		"a second re-send takes its own row": {
			Entry{State: Unknown, Row: 8, Attempt: 2, Doubt: 17, ClaimedAt: before, SettledAt: before}, ResentWithKey,
			Entry{State: Running, Row: 16, Attempt: 3, Round: 1, Doubt: 16, ClaimedAt: noon},
		},
		"doubt stays with its attempt": {
			Entry{State: Running, Row: 16, Attempt: 2, Doubt: 16, ClaimedAt: before}, ProvenUnsent,
			Entry{State: Unknown, Row: 16, Attempt: 2, Doubt: 16, ClaimedAt: before, SettledAt: noon},
		},
		"a question settles nothing": {
			Entry{State: Running, Row: 1, Attempt: 1, ClaimedAt: before}, InputRequired,
			Entry{State: AwaitingInput, Row: 10, Attempt: 1, ClaimedAt: before},
		},
		"input goes on with the same attempt": {
			Entry{State: AwaitingInput, Row: 10, Attempt: 1, ClaimedAt: before, InputUntil: noon}, InputContinued,
			Entry{State: Running, Row: 11, Attempt: 1, Round: 1, ClaimedAt: before, InputUntil: noon},
		},
		"input that did not get through leaves the question": {
			Entry{State: Running, Row: 11, Attempt: 1, Round: 1, ClaimedAt: before, InputUntil: noon}, ProvenUnsent,
			Entry{State: AwaitingInput, Row: 11, Attempt: 1, Round: 1, ClaimedAt: before, InputUntil: noon},
		},
		"an answer to input ends the questions": {
			Entry{State: Running, Row: 11, Attempt: 1, Round: 2, ClaimedAt: before, InputUntil: noon}, AnsweredResult,
			Entry{State: Completed, Row: 5, Attempt: 1, Round: 2, ClaimedAt: before, SettledAt: noon},
		},
		"input that nobody gave leaves nobody knowing": {
			Entry{State: AwaitingInput, Row: 10, Attempt: 1, ClaimedAt: before, InputUntil: noon}, InputExpired,
			Entry{State: Unknown, Row: 15, Attempt: 1, ClaimedAt: before, SettledAt: noon},
		},
		"a late answer closes": {
			Entry{State: Unknown, Row: 8, Attempt: 1, ClaimedAt: before, SettledAt: before, OpenUntil: noon}, AnsweredResult,
			Entry{State: Completed, Row: 12, Attempt: 1, ClaimedAt: before, SettledAt: noon},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := move(c.from, c.evidence, noon)
			require.NoError(t, err)
			assert.Equal(t, c.want, got.Entry)
			assert.Equal(t, Event{Row: c.want.Row, Attempt: c.want.Attempt, State: c.want.State}, got.Event)
		})
	}
	_, err := move(Entry{State: Completed}, AnsweredResult, noon)
	require.ErrorIs(t, err, errNoMove)
}

func TestStatesReadBack(t *testing.T) {
	t.Parallel()
	for state := Running; state <= Released; state++ {
		got, err := ParseState(state.String())
		require.NoError(t, err)
		assert.Equal(t, state, got)
	}
	for _, bad := range []string{"", "none", "RUNNING", "done"} {
		_, err := ParseState(bad)
		require.Error(t, err, bad)
	}
	assert.Equal(t, "state(6)", State(6).String())
}

func TestChecksAndPersonsSettleTheUnknown(t *testing.T) {
	t.Parallel()
	closed, open := Entry{State: Unknown, Row: 8}, Entry{State: Unknown, Row: 8, OpenUntil: noon}
	for evidence, c := range map[Evidence]struct {
		row       Row
		to        State
		whileOpen bool
	}{
		CheckExecuted:     {13, Completed, false},
		CheckNotExecuted:  {14, Released, false},
		PersonExecuted:    {15, Completed, true},
		PersonNotExecuted: {15, Released, false},
	} {
		m, ok := moveFor(closed, evidence)
		require.True(t, ok, "evidence %d", evidence)
		assert.Equal(t, c.row, m.Row)
		assert.Equal(t, c.to, m.To)
		_, ok = moveFor(open, evidence)
		assert.Equal(t, c.whileOpen, ok, "evidence %d while the answer may still arrive", evidence)
	}
}
