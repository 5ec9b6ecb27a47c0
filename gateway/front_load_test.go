package gateway_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/gateway"
)

// Under load a hundred changes of the servers lose no call, and leave no process.
func TestAHundredReplacesUnderLoad(t *testing.T) {
	t.Parallel()
	c := newTroupe(t, "a", "b", "c")
	patient := func(_ string, o *gateway.Options) { o.ReachWithin = patience }
	p := c.perform(patient)
	p.list()
	stop := make(chan struct{})
	var callers sync.WaitGroup
	var mu sync.Mutex
	made := map[string]int{}
	for caller := range 4 {
		callers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				name := c.actors[(caller+i)%len(c.actors)].name
				got := p.start(name+"__refund", keyed(fmt.Sprintf("%d-%d", caller, i)), "").wait()
				if !assert.NotNil(t, got.Result, "%s", got.Error) || !assert.Contains(t, string(got.Result), `"outcome":"COMPLETED"`) {
					return
				}
				mu.Lock()
				made[name]++
				mu.Unlock()
			}
		})
	}
	for i := range 100 {
		require.NoError(t, p.front.Replace(c.upstreams(func(name string, o *gateway.Options) {
			patient(name, o)
			if name == c.actors[i%2].name {
				o.Digest = fmt.Sprint("digest ", i)
			}
		})))
		if name := c.actors[i%2].name; i%4 > 1 { // else the next comes before this one is there
			got := p.start(name+"__refund", keyed(fmt.Sprint("own-", i)), "").wait()
			require.Contains(t, string(got.Result), `"outcome":"COMPLETED"`)
			mu.Lock()
			made[name]++
			mu.Unlock()
		}
	}
	close(stop)
	callers.Wait()
	for _, a := range c.actors {
		assert.Equal(t, made[a.name], a.effects(), a.name)
	}
	assert.Len(t, c.actor("c").got("initialize"), 1)
	p.close()
	for _, a := range c.actors {
		a.awaitEnd(t)
	}
}
