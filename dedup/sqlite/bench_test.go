package sqlite

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
)

var result = []byte(`{"content":[{"type":"text","text":"` + strings.Repeat("x", 1000) + `"}]}`)

func complete(s *Store, id dedup.OperationID) error {
	return s.Move(context.Background(), id, func(e dedup.Entry, now time.Time) (dedup.Change, bool) {
		e.State, e.Row, e.SettledAt, e.Kept, e.Result = dedup.Completed, 5, now, dedup.KeptWhole, result
		return dedup.Change{Entry: e, Event: dedup.Event{Row: 5, Attempt: 1, State: e.State}, Keep: true}, true
	})
}

// BenchmarkPair claims and completes: what a call with a side effect costs.
func BenchmarkPair(b *testing.B) {
	for _, callers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			s := newStore(b, Options{})
			before := s.writer.commits.Load()
			var next atomic.Int64
			b.ResetTimer()
			done := make(chan error, callers)
			for range callers {
				go func() { done <- pairs(s, &next, int64(b.N)) }()
			}
			for range callers {
				require.NoError(b, <-done)
			}
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
			b.ReportMetric(float64(s.writer.commits.Load()-before)/float64(b.N), "commits/pair")
		})
	}
}

// pairs works until the number is used up.
func pairs(s *Store, next *atomic.Int64, until int64) error {
	for {
		i := next.Add(1)
		if i > until {
			return nil
		}
		q := queryOf(fmt.Sprintf("key-%d", i))
		q.Near = 10 * time.Minute
		var id dedup.OperationID
		err := s.Claim(context.Background(), q, func(around dedup.Surroundings) (dedup.Change, bool) {
			c := newChange(s, q, around)
			id = c.Entry.ID
			return c, true
		})
		if err == nil {
			err = complete(s, id)
		}
		if err != nil {
			return err
		}
	}
}

// BenchmarkFind looks up what a keyed call looks up before anything else, in a
// ledger of ten thousand operations.
func BenchmarkFind(b *testing.B) {
	s := newStore(b, Options{})
	var next atomic.Int64
	const operations = 10_000
	done := make(chan error, 64)
	for range cap(done) {
		go func() { done <- pairs(s, &next, operations) }()
	}
	for range cap(done) {
		require.NoError(b, <-done)
	}
	for name, key := range map[string]string{"unknown": "unknown", "replay": "key-5000"} {
		for _, near := range []time.Duration{0, 10 * time.Minute} {
			b.Run(fmt.Sprintf("%s/near=%s", name, near), func(b *testing.B) {
				q := queryOf(key)
				q.Near = near
				for b.Loop() {
					around, err := s.Find(context.Background(), q)
					if err != nil || (around.Same != nil) != (name == "replay") {
						b.Fatal(around, err)
					}
				}
			})
		}
	}
}
