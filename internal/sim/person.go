package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/mcp-idem/mcp-idem/internal/rawjson"
	"github.com/mcp-idem/mcp-idem/upstream/upstreamtest"
)

// A person settles operations that are unknown, by looking at the effects. It is safe
// for concurrent use.
type person struct {
	world *world

	mu      sync.Mutex
	cases   map[int]unsettled // by key
	settled map[int]int       // the newest attempt of a key that the person has settled
}

// An unsettled operation waits for the person.
type unsettled struct {
	operation string
	attempt   int
	// suspects are the servers that lived when the operation was said to be unknown.
	// Whatever was sent for it was sent to one of them: while one lives, there may
	// still be an effect.
	suspects []string
}

func newPerson(w *world) *person {
	return &person{world: w, cases: map[int]unsettled{}, settled: map[int]int{}}
}

// tell tells the person of an attempt that is unknown. What is told late, of one that
// is settled, is no news.
func (p *person) tell(key int, s said) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.Attempt <= p.settled[key] || s.Attempt <= p.cases[key].attempt {
		return nil
	}
	u := unsettled{operation: s.OperationID, attempt: s.Attempt}
	var err error
	if !p.world.calm { // in fair weather a server answers what it is sent: it was another, which is gone
		u.suspects, err = living(p.world.living)
	}
	p.cases[key] = u
	return err
}

// work settles what can be settled, until ctx ends.
func (p *person) work(ctx context.Context) error {
	for pause(ctx, 100*time.Millisecond) == nil {
		if err := p.settleAll(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// settleAll settles each operation that can be settled now.
func (p *person) settleAll(ctx context.Context) error {
	p.mu.Lock()
	cases := maps.Clone(p.cases)
	p.mu.Unlock()
	for key, u := range cases {
		now, err := living(p.world.living)
		if err != nil {
			return err
		}
		effects, err := upstreamtest.Effects(p.world.effects)
		if err != nil {
			continue // a line is being written
		}
		executed := len(effectsOf(effects, key)) > 0
		if !executed && anyOf(u.suspects, now) {
			continue
		}
		if err := p.resolve(ctx, key, u, executed); err != nil {
			return err
		}
	}
	return nil
}

// resolve puts on record what was found. Where it is refused, because the answer may
// still come or has come, the next one who is told that it is unknown says so again.
func (p *person) resolve(ctx context.Context, key int, u unsettled, executed bool) error {
	flag := "--not-executed"
	if executed {
		flag = "--executed"
	}
	cmd := command(p.world.program, "ledger", "resolve", u.operation, "--ledger", p.world.ledger, flag, "--by", "sim", "--note", "by the effects")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.world.history.beginResolve(key, executed)
	err := cmd.Run()
	delete(p.cases, key)
	switch why := stderr.String(); {
	case err == nil:
		p.settled[key] = u.attempt
		p.world.history.end(e, said{Outcome: resolved})
	case strings.Contains(why, "state is unknown") || strings.Contains(why, "may still arrive"):
		p.world.history.end(e, said{Outcome: refused})
	default:
		return fmt.Errorf("ledger resolve %s %s: %w: %s", u.operation, flag, err, why)
	}
	return ctx.Err()
}

// effectsOf are the effects of a key.
func effectsOf(effects []upstreamtest.Effect, key int) (found []upstreamtest.Effect) {
	order := fmt.Sprintf("order-%d", key)
	for _, e := range effects {
		o, err := rawjson.ParseObject(e.Arguments)
		if err != nil {
			continue // no call of ours
		}
		if name, _ := o.String("order"); name == order {
			found = append(found, e)
		}
	}
	return found
}
