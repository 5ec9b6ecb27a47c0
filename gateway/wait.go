package gateway

import (
	"context"
	"fmt"
	"time"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

// progressEvery is how often a caller that waits with a progress token hears that
// it is still being waited for.
const progressEvery = 5 * time.Second

// patience is how long a call waits for the running one of its key: the
// configured wait, or as long as the running call may take where the caller has
// asked for progress and so does not give up meanwhile.
type patience struct {
	j      *journey
	parent context.Context
	ctx    context.Context
	cancel context.CancelFunc
	told   int       // progress notifications sent
	last   time.Time // when the newest was
}

func (j *journey) patience(ctx context.Context) *patience {
	return &patience{j: j, parent: ctx, last: time.Now()}
}

// until waits until the busy operation may stand differently; false means that
// the call has waited long enough.
func (p *patience) until(ledger *dedup.Ledger, busy dedup.Busy) bool {
	if p.ctx == nil {
		limit := p.j.g.options.Wait
		if p.j.call.ProgressToken != nil {
			limit = max(limit, p.j.settings.callTimeout)
		}
		p.ctx, p.cancel = context.WithTimeout(p.parent, limit)
	}
	step, cancel := context.WithTimeout(p.ctx, progressEvery)
	defer cancel()
	if err := ledger.Await(step, busy); err != nil && step.Err() == nil {
		return false // too many wait already, or the ledger cannot be read
	}
	p.progress()
	return p.ctx.Err() == nil
}

func (p *patience) progress() {
	token := p.j.call.ProgressToken
	if token == nil || p.ctx.Err() != nil || time.Since(p.last) < progressEvery {
		return
	}
	p.last = time.Now()
	p.told++
	p.j.from.tell(jsonrpc.Notification("notifications/progress", fmt.Appendf(nil,
		`{"progressToken":%s,"progress":%d,"message":"the same call is still executing"}`, token, p.told)))
}

func (p *patience) stop() {
	if p.cancel != nil {
		p.cancel()
	}
}
