package sqlite

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// TestTwinsAreFoundAtAnyHour looks for operations of the same content from other hours
// than that of their claim, and by a clock that is behind the one of the claim.
func TestTwinsAreFoundAtAnyHour(t *testing.T) {
	t.Parallel()
	claimed := time.Date(2026, 8, 1, 13, 59, 59, 0, time.UTC)
	now := claimed
	s := newStore(t, Options{Now: func() time.Time { return now }})
	e := mustClaim(t, s, "key")
	require.NoError(t, complete(s, e.ID))
	for name, c := range map[string]struct {
		later, near time.Duration
		found       bool
	}{
		"in the same hour":          {time.Millisecond, time.Minute, true},
		"in the next hour":          {2 * time.Second, time.Minute, true},
		"in the next hour, too far": {time.Minute, time.Minute, false},
		"days later":                {50 * time.Hour, 51 * time.Hour, true},
		"days later, too far":       {50 * time.Hour, 50 * time.Hour, false},
		"in a window without end":   {50 * time.Hour, 1 << 62, true},
		"earlier in the hour":       {-time.Minute, time.Minute, true},
		"days earlier":              {-50 * time.Hour, time.Minute, true},
	} {
		now = claimed.Add(c.later)
		q := queryOf("another key")
		q.Content, q.Near = e.Content, c.near
		around, err := s.Find(context.Background(), q)
		require.NoError(t, err)
		assert.Equal(t, c.found, len(around.Twins) == 1, name)
	}
}

// TestTheBeginningOfADigestIsNotTheDigest lets two contents begin alike.
func TestTheBeginningOfADigestIsNotTheDigest(t *testing.T) {
	t.Parallel()
	s := newStore(t, Options{})
	e := mustClaim(t, s, "key")
	require.NoError(t, complete(s, e.ID))
	q := queryOf("another key")
	q.Content, q.Near = e.Content, time.Minute
	q.Content[len(q.Content)-1]++
	around, err := s.Find(context.Background(), q)
	require.NoError(t, err)
	assert.Equal(t, dedup.Surroundings{Now: around.Now}, around)
}
