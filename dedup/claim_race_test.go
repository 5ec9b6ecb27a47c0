package dedup_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// racy is a store in which one claim fails while another of the same attempt
// succeeds, before the first has returned.
type racy struct {
	dedup.Store
	armed   bool
	between func() // the other claim
	how     string
}

func (r *racy) Claim(ctx context.Context, q dedup.Query, decide func(dedup.Surroundings) (dedup.Change, bool)) error {
	if !r.armed {
		return r.Store.Claim(ctx, q, decide)
	}
	r.armed = false
	_ = r.Store.Claim(ctx, q, func(s dedup.Surroundings) (dedup.Change, bool) {
		decide(s)
		return dedup.Change{}, false // the commit fails
	})
	r.between()
	if r.how == "ambiguous" {
		return fmt.Errorf("%w: disk", dedup.ErrAmbiguous)
	}
	return fmt.Errorf("disk")
}

func TestAFailedClaimTakesNothingFromTheOneThatSucceeded(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"ambiguous", "refused"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			r := &racy{Store: b.reference.Open(nil), how: how}
			l := b.gateway(r)
			b.store, b.ledger = r, l
			req := request(t, business)
			_, err := mayRun(t, l, req).Release(proof(2))
			require.NoError(t, err)
			var lease *dedup.Lease
			r.armed = true
			r.between = func() { lease = mayRun(t, l, req) }
			_, err = l.Begin(context.Background(), req)
			require.Error(t, err)
			require.NoError(t, l.Sweep(context.Background()))
			state := b.only().State
			lease.Close()
			b.heard()
			require.Equal(t, dedup.Running, state)
		})
	}
}
