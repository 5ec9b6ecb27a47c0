package gateway

import (
	"context"
	"time"
)

// drain lets what runs end, and takes nothing new from the clients. When ctx ends, or
// the upstream fails, it gives up what still runs: whoever waits for it is told how
// its operation stands. When it returns, nothing of the gateway's runs any more.
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
	g.end(errShutdown)
	for _, c := range clients {
		c.end(errShutdown)
	}
	<-idle
	g.listeners.Wait()
}

// linger lets what runs end, and listens for late answers, until one of the contexts
// ends or the upstream fails.
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

// hangUp ends the upstream.
func (g *Gateway) hangUp() {
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	_ = g.server.Close(ctx) // its error is that of the context, and nothing is left in any case
}
