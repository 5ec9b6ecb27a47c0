package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// keysAtOnce is among how many keys the callers choose, and callsPerKey is after
	// how many calls the oldest of them makes room for another.
	keysAtOnce  = 5
	callsPerKey = 12
	// patience is how long a caller waits who does not mean to give up: longer than
	// anything takes that may happen.
	patience = 30 * time.Second
)

// keys are the keys that are called, numbered from 0. They are safe for concurrent
// use.
type keys struct {
	mu    sync.Mutex
	calls int
}

// next chooses a key for the next call.
func (k *keys) next(random *rand.Rand) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls++
	return k.calls/callsPerKey + random.IntN(keysAtOnce)
}

// used are the keys that may have been called.
func (k *keys) used() iter.Seq[int] {
	return func(yield func(int) bool) {
		for key := range k.calls/callsPerKey + keysAtOnce {
			if !yield(key) {
				return
			}
		}
	}
}

// usualAmount is what a caller asks for, in cents, and otherAmount what one asks for
// who has mistaken the key.
const (
	usualAmount = 4200
	otherAmount = 1
)

// arguments are those of a call. Each key has its own order, so that no two keys have
// the same content.
func arguments(key, amount int) []byte {
	return fmt.Appendf(nil, `{"order":"order-%d","amount":%d,"idempotency_key":"refund:order-%d:1"}`, key, amount, key)
}

// A caller makes one call after the other.
type caller struct {
	world  *world
	random *rand.Rand
}

// call calls until ctx ends. The call that is on its way then is waited for.
func (c *caller) call(ctx context.Context) error {
	for pause(ctx, time.Duration(c.random.IntN(30))*time.Millisecond) == nil {
		g := c.world.slots[c.random.IntN(len(c.world.slots))].current()
		if g == nil {
			continue
		}
		amount, limit := usualAmount, patience
		if c.random.IntN(8) == 0 {
			amount = otherAmount
		}
		if !c.world.calm && c.random.IntN(15) == 0 {
			limit = time.Duration(c.random.IntN(100)) * time.Millisecond
		}
		if _, err := c.once(g, c.world.keys.next(c.random), amount, limit); err != nil {
			return err
		}
	}
	return nil
}

// once makes one call and puts it on record. Who is unsure afterwards tells the
// person.
func (c *caller) once(g *gateway, key, amount int, limit time.Duration) (said, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	e := c.world.history.begin(key, amount)
	result, err := g.client.call(ctx, arguments(key, amount))
	if errors.Is(err, errLost) {
		return said{}, c.lose(ctx, g, e, limit)
	}
	if err != nil {
		return said{}, err
	}
	s, err := readSaid(result)
	if err != nil {
		return said{}, err
	}
	c.world.history.end(e, s)
	if s.Outcome == "EFFECT_UNKNOWN" {
		return s, c.world.person.tell(key, s)
	}
	return s, nil
}

// lose says why a call got no answer: its caller gave up, or the gateway is dead.
func (c *caller) lose(ctx context.Context, g *gateway, e int, limit time.Duration) error {
	if ctx.Err() != nil && limit < patience {
		c.world.counts.gaveUp.Add(1)
		return nil
	}
	select {
	case <-g.exited:
		c.world.history.lose(e, g.gone)
		return nil
	case <-time.After(patience):
		return fmt.Errorf("call %d: no answer, and the gateway lives", e)
	}
}

// finish calls until it is known what became of the key.
func (c *caller) finish(ctx context.Context, g *gateway, key int) error {
	for range 5 {
		s, err := c.once(g, key, usualAmount, patience)
		if err != nil {
			return err
		}
		switch s.Outcome {
		case "COMPLETED", "REJECTED_DUPLICATE":
			return nil
		case "EFFECT_UNKNOWN":
			if err := c.world.person.settleAll(ctx); err != nil {
				return err
			}
		default:
			return fmt.Errorf("key %d: %s in fair weather", key, s.Outcome)
		}
	}
	return fmt.Errorf("key %d: nothing settles it", key)
}

// said is what a caller was told of its call.
type said struct {
	Outcome     string `json:"outcome"`
	WasReplay   bool   `json:"was_replay"`
	Effect      string `json:"effect"`
	Reason      string `json:"reason"`
	OperationID string `json:"operation_id"`
	Attempt     int    `json:"attempt"`

	text string // what the server said
}

// readSaid reads a result.
func readSaid(result []byte) (said, error) {
	var r struct {
		Content []struct{ Text string }
		Meta    struct {
			Outcome *said `json:"mcp-idem/outcome"`
		} `json:"_meta"`
	}
	if err := json.Unmarshal(result, &r); err != nil {
		return said{}, err
	}
	if r.Meta.Outcome == nil || len(r.Content) == 0 {
		return said{}, fmt.Errorf("a result without its outcome or content: %s", result)
	}
	s := *r.Meta.Outcome
	s.text = r.Content[0].Text
	if s.Reason == "resolved_executed" {
		s.text = resolvedText
	}
	return s, nil
}

// resolvedText stands for the answer of a call that a person says was executed.
const resolvedText = "a person says so"
