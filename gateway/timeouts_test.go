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

func TestNothingIsCutBeforeTheLongestCallMayEnd(t *testing.T) {
	t.Parallel()
	o := Options{CallTimeout: time.Minute, Tools: []ToolRule{{Pattern: "slow", CallTimeout: time.Hour}, {Pattern: "fast", CallTimeout: time.Second}}}
	o.fill()
	assert.Equal(t, time.Hour, o.DrainFor)
	o = Options{CallTimeout: time.Minute, Tools: []ToolRule{{Pattern: "fast", CallTimeout: time.Second}}}
	o.fill()
	assert.Equal(t, time.Minute, o.DrainFor)
}

// Only a cancellation is one: callers leave for other reasons, too.
func TestWhoLeavesHasNotCancelled(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{errShutdown, errSessionOver, context.Canceled} {
		ctx, leave := context.WithCancelCause(t.Context())
		stop := whenCancelled(ctx, func(*cancelledError) { t.Errorf("%v is taken for a cancellation", cause) })
		leave(cause)
		stop()
		whenCancelled(ctx, func(*cancelledError) { t.Errorf("%v is taken for a cancellation, afterwards", cause) })()
	}
}

func TestACancellationIsHeardOnce(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	heard := 0
	stop := whenCancelled(ctx, func(*cancelledError) { heard++ })
	stopped := whenCancelled(ctx, func(*cancelledError) { t.Error("it is heard although nobody listens any more") })
	stopped()
	cancel(&cancelledError{})
	cancel(&cancelledError{})
	stop()
	assert.Equal(t, 1, heard, "and when nobody listens any more, it has been")
	whenCancelled(ctx, func(*cancelledError) { heard++ })
	assert.Equal(t, 2, heard, "at once, by who comes too late")
}
