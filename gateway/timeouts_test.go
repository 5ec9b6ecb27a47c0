package gateway

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestACallsTimeIsRenewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, renew, stop := callTime(t.Context(), 10*time.Second)
		defer stop()
		<-time.After(8 * time.Second)
		assert.NoError(t, ctx.Err())
		renew()
		<-ctx.Done()
		assert.Equal(t, errCallTimeout, context.Cause(ctx))
		assert.Equal(t, 18*time.Second, time.Since(began))
		renew()
		assert.Error(t, ctx.Err(), "what has ended is not renewed")
	})
}

func TestACallThatHasEndedHasNoTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, renew, stop := callTime(t.Context(), time.Second)
		stop()
		renew()
		<-time.After(time.Minute)
		assert.ErrorIs(t, context.Cause(ctx), context.Canceled)
	})
}
