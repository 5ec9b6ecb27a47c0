package gateway

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
)

// comes reports whether it is the turn.
func comes(p *turn) bool {
	select {
	case <-p.come:
		return true
	default:
		return false
	}
}

func TestTurnsAreTakenInTheOrderOfComing(t *testing.T) {
	t.Parallel()
	var l line
	a, b, c, d := l.join(), l.join(), l.join(), l.join()
	assert.True(t, comes(a))
	assert.False(t, comes(b))

	c.leave() // from the middle
	assert.False(t, comes(b))
	c.wait(t.Context()) // who has given up waits for nobody
	a.leave()
	a.leave()
	assert.True(t, comes(b))
	assert.False(t, comes(d))
	b.leave()
	assert.True(t, comes(d), "c had left before")
	d.leave()
	assert.True(t, comes(l.join()), "an empty line")
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	t.Parallel()
	var l line
	l.join()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	l.join().wait(ended)
	var none *turn
	none.wait(t.Context())
	none.leave()
}
