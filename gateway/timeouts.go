package gateway

import (
	"context"
	"errors"
	"time"
)

var errCallTimeout = errors.New("no answer within the call's time")

// callTime returns a context that ends with errCallTimeout when renew has not
// been called for d, or with its parent. stop frees it.
func callTime(parent context.Context, d time.Duration) (ctx context.Context, renew, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	timer := time.AfterFunc(d, func() { cancel(errCallTimeout) })
	return ctx, func() {
			if ctx.Err() == nil {
				timer.Reset(d)
			}
		}, func() {
			timer.Stop()
			cancel(nil)
		}
}
