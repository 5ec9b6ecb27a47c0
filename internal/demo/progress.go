package demo

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

// plainSteps is how many lines the progress of a run has where no bar can be
// drawn.
const plainSteps = 10

// barEvery is how often a bar is drawn at most.
const barEvery = 50 * time.Millisecond

// A progress shows how many orders of a run are done: as a bar on a terminal, as
// a line for every tenth elsewhere. It is safe for concurrent use.
type progress struct {
	out   io.Writer
	name  string
	total int
	bar   *progressbar.ProgressBar // nil: lines

	mu   sync.Mutex
	done int
}

func newProgress(out io.Writer, terminal bool, name string, total int) *progress {
	p := &progress{out: out, name: name, total: total}
	if terminal {
		p.bar = progressbar.NewOptions(total, progressbar.OptionSetWriter(out), progressbar.OptionSetDescription(fmt.Sprintf("%-9s", name)),
			progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(false), progressbar.OptionSetRenderBlankState(true), progressbar.OptionSetWidth(40), progressbar.OptionThrottle(barEvery))
	}
	return p
}

// oneMore counts an order that is done. What cannot be shown is no failure.
func (p *progress) oneMore() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	switch {
	case p.bar != nil:
		_ = p.bar.Add(1)
	case p.done*plainSteps/p.total > (p.done-1)*plainSteps/p.total:
		_, _ = fmt.Fprintf(p.out, "%s: %d of %d\n", p.name, p.done, p.total)
	}
}

// end leaves the line of the bar.
func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Exit()
		_, _ = fmt.Fprintln(p.out)
	}
}
