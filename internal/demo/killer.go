package demo

import (
	"math/rand/v2"
	"sync"
)

// maxKills is how often the gateway is killed in a run.
const maxKills = 5

// A killer kills the gateway at moments that are counted in calls completed. All
// other callers have a call in flight then. It is safe for concurrent use.
type killer struct {
	kill func() bool // reports whether there was something to kill

	mu        sync.Mutex
	moments   []int // not yet come, ascending
	completed int
	kills     int
}

// oneMore counts a completed call, and kills if that was the moment for it.
func (k *killer) oneMore() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.completed++
	if len(k.moments) == 0 || k.completed < k.moments[0] {
		return
	}
	if k.kill() { // else its callers are just connecting again: the next call will do
		k.moments = k.moments[1:]
		k.kills++
	}
}

// momentsOf are the moments of a run: one at a random place of each of equal
// stretches between the first and the last call.
func momentsOf(seed uint64, calls int) []int {
	kills := min(maxKills, calls-1)
	random := rand.New(rand.NewPCG(seed, uint64(calls)))
	moments := make([]int, kills)
	for i := range moments {
		from, to := 1+i*(calls-1)/kills, 1+(i+1)*(calls-1)/kills
		moments[i] = from + random.IntN(to-from)
	}
	return moments
}
