package gateway

import (
	"context"
	"time"
)

// drain is part of estate.
func (g *Gateway) drain(ctx context.Context, clients ...*exchanges) {
	for _, c := range clients {
		c.close()
	}
	idle := make(chan struct{})
	go func() {
		for _, c := range clients {
			c.handlers.Wait()
		}
		g.attempts.Wait() // those whose callers have left
		close(idle)
	}()
	select {
	case <-idle:
	case <-ctx.Done():
	case <-g.server.Failed():
	}
	over := errShutdown
	if err := g.server.Err(); err != nil {
		over = &overError{err}
	}
	g.end(over)
	for _, c := range clients {
		c.end(over)
	}
	<-idle
	g.listeners.Wait()
}

// An overError is the errShutdown of a gateway whose upstream has failed for good: who
// still waits is told why.
type overError struct{ err error }

func (e *overError) Error() string        { return e.err.Error() }
func (e *overError) Is(target error) bool { return target == errShutdown }

// linger is part of estate.
func (g *Gateway) linger(contexts ...context.Context) {
	over, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, ctx := range contexts {
		defer context.AfterFunc(ctx, cancel)()
	}
	go func() {
		g.attempts.Wait()
		g.listeners.Wait()
		cancel()
	}()
	select {
	case <-over.Done():
	case <-g.server.Failed():
	}
}

// closeWithin is how long an upstream may take to end by itself.
const closeWithin = 5 * time.Second

// hangUp ends what was started.
func hangUp(e estate) {
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	e.close(ctx)
}

// close is part of estate.
func (g *Gateway) close(ctx context.Context) {
	_ = g.server.Close(ctx) // its error is that of the context, and nothing is left in any case
}

func (g *Gateway) failed() <-chan struct{} { return g.server.Failed() }
func (g *Gateway) err() error              { return g.server.Err() }
