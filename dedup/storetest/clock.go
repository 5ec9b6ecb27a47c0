package storetest

import (
	"sync"
	"time"
)

// A Clock stands still until it is advanced. It is safe for concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that stands at a time with a fraction of a
// millisecond, which stores must cut off.
func NewClock() *Clock {
	return &Clock{now: time.Date(2026, 8, 1, 23, 59, 58, 123_456_789, time.UTC)}
}

// Now is the time on the clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance sets the clock forward, or back where d is negative.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
