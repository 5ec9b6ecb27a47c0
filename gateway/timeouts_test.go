package gateway

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestProgressRenewsACallsTime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		token, heard string
		ends         time.Duration
	}{
		"the call's own":            {`"a"`, `"a"`, 18 * time.Second},
		"the same, written another": {`1.0`, `1`, 18 * time.Second},
		"a text is no number":       {`1`, `"1"`, 10 * time.Second},
		"another call's":            {`9007199254740993`, `9007199254740992`, 10 * time.Second},
		"of a call without a token": {``, `"a"`, 10 * time.Second},
		"without a token":           {`"a"`, ``, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var limits timeouts
				began := time.Now()
				ctx, stop := limits.start(t.Context(), 10*time.Second, raw(c.token))
				defer stop()
				<-time.After(8 * time.Second)
				assert.NoError(t, ctx.Err())
				limits.renew(raw(c.heard))
				<-ctx.Done()
				assert.Equal(t, errCallTimeout, context.Cause(ctx))
				assert.Equal(t, c.ends, time.Since(began))
			})
		})
	}
}

func raw(text string) []byte {
	if text == "" {
		return nil
	}
	return []byte(text)
}

func TestACallThatHasEndedIsNotRenewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var limits timeouts
		ctx, stop := limits.start(t.Context(), time.Second, []byte(`"a"`))
		stop()
		assert.ErrorIs(t, context.Cause(ctx), context.Canceled)
		limits.renew([]byte(`"a"`))
		assert.Empty(t, limits.byToken)
		<-time.After(time.Minute)
		assert.ErrorIs(t, context.Cause(ctx), context.Canceled)
	})
}

func TestACallsTimeEndsWithTheGateway(t *testing.T) {
	t.Parallel()
	var limits timeouts
	life, end := context.WithCancelCause(t.Context())
	ctx, stop := limits.start(life, time.Hour, []byte(`"a"`))
	defer stop()
	end(errShutdown)
	<-ctx.Done()
	assert.Equal(t, errShutdown, context.Cause(ctx))
}
