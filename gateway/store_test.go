package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mcp-idem/mcp-idem/dedup"
)

var (
	errDisk      = errors.New("the disk is full")
	errAmbiguous = fmt.Errorf("%w: %w", dedup.ErrAmbiguous, errDisk)
)

// The operations of a store that take cues.
const (
	find  = "find"
	claim = "claim"
	move  = "move"
)

// A cue takes the place of an operation of a store; do is the operation.
type cue func(ctx context.Context, do func(context.Context) error) error

func fails(err error) cue {
	return func(context.Context, func(context.Context) error) error { return err }
}

// obscures does the operation and says that nobody can know.
func obscures(ctx context.Context, do func(context.Context) error) error {
	return errors.Join(do(ctx), errAmbiguous)
}

// A cued store does what it is told in place of its operations, until it is told
// to do what it should. It is safe for concurrent use.
type cued struct {
	dedup.Store
	waits chan struct{} // a caller waits for an operation

	mu   sync.Mutex
	cues map[string]cue
}

func newCued(s dedup.Store) *cued {
	return &cued{Store: s, waits: make(chan struct{}, 10_000), cues: map[string]cue{}}
}

// cue sets what an operation does from now on; nil is what it should.
func (c *cued) cue(operation string, does cue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cues[operation] = does
}

func (c *cued) perform(ctx context.Context, operation string, do func(context.Context) error) error {
	c.mu.Lock()
	does := c.cues[operation]
	c.mu.Unlock()
	if does == nil {
		return do(ctx)
	}
	return does(ctx, do)
}

func (c *cued) Find(ctx context.Context, q dedup.Query) (s dedup.Surroundings, err error) {
	err = c.perform(ctx, find, func(ctx context.Context) (err error) {
		s, err = c.Store.Find(ctx, q)
		return err
	})
	return s, err
}

func (c *cued) Claim(ctx context.Context, q dedup.Query, decide func(dedup.Surroundings) (dedup.Change, bool)) error {
	return c.perform(ctx, claim, func(ctx context.Context) error { return c.Store.Claim(ctx, q, decide) })
}

func (c *cued) Move(ctx context.Context, id dedup.OperationID, decide func(dedup.Entry, time.Time) (dedup.Change, bool)) error {
	return c.perform(ctx, move, func(ctx context.Context) error { return c.Store.Move(ctx, id, decide) })
}

func (c *cued) Await(ctx context.Context, seen dedup.Entry) error {
	c.waits <- struct{}{}
	return c.Store.Await(ctx, seen)
}
