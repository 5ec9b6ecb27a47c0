package gateway

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

var errCallTimeout = errors.New("no answer within the call's time")

// timeouts are the running calls' limits, which the upstream's progress renews.
// The zero value is ready to use.
type timeouts struct {
	mu      sync.Mutex
	byToken map[string]func()
}

// start returns a context that ends with errCallTimeout when nothing has been
// heard of the call for d, or with its parent. stop frees it.
func (t *timeouts) start(parent context.Context, d time.Duration, token []byte) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	timer := time.AfterFunc(d, func() { cancel(errCallTimeout) })
	if token == nil {
		return ctx, func() { timer.Stop(); cancel(nil) }
	}
	key := jsonrpc.IDKey(token)
	t.mu.Lock()
	if t.byToken == nil {
		t.byToken = map[string]func(){}
	}
	t.byToken[key] = func() { timer.Reset(d) }
	t.mu.Unlock()
	return ctx, func() {
		t.mu.Lock()
		delete(t.byToken, key)
		t.mu.Unlock()
		timer.Stop()
		cancel(nil)
	}
}

// renew gives the call of a progress token its whole time again.
func (t *timeouts) renew(token []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if renew := t.byToken[jsonrpc.IDKey(token)]; renew != nil {
		renew()
	}
}
