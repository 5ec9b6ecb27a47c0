package sqlite

import (
	"sync"
	"time"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// maxTallyRest is how long a count waits for a commit to go with.
const maxTallyRest = 2 * time.Second

// A tallyLine is what one number counts.
type tallyLine struct {
	day, upstream, tool string
	kind                dedup.TallyKind
}

type counts struct {
	lines   map[tallyLine]int
	replays map[dedup.OperationID]int
}

func newCounts() counts {
	return counts{lines: map[tallyLine]int{}, replays: map[dedup.OperationID]int{}}
}

func (c counts) empty() bool { return len(c.lines) == 0 && len(c.replays) == 0 }

// tallies are the counts that are not written yet.
type tallies struct {
	waiting chan struct{} // holds one value when there may be something to write

	mu      sync.Mutex
	pending counts
}

func newTallies() *tallies {
	return &tallies{waiting: make(chan struct{}, 1), pending: newCounts()}
}

func (t *tallies) add(tally dedup.Tally, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending.lines[tallyLine{now.Format(time.DateOnly), tally.Upstream, tally.Tool, tally.Kind}]++
	if tally.Kind == dedup.TallyReplay && !tally.Operation.IsZero() {
		t.pending.replays[tally.Operation]++
	}
	select {
	case t.waiting <- struct{}{}:
	default:
	}
}

// take hands the counts over to be written. Nothing is added to them any more, even
// where there are none.
func (t *tallies) take() counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pending.empty() {
		return counts{}
	}
	taken := t.pending
	t.pending = newCounts()
	return taken
}

// giveBack takes counts that could not be written.
func (t *tallies) giveBack(c counts) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for line, n := range c.lines {
		t.pending.lines[line] += n
	}
	for id, n := range c.replays {
		t.pending.replays[id] += n
	}
}
