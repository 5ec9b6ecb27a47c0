package gateway

import (
	"context"
	"errors"
	"slices"
)

// part ends a member that was taken away, when its calls have ended and no late answer
// is listened for any more; at a shutdown sooner.
func (m *member) part() {
	f := m.front
	defer context.AfterFunc(f.life, func() { m.g.end(errShutdown) })() // its calls wait for that
	m.calls.Wait()
	m.g.linger(f.life, f.taking)
	m.g.drain(f.life)
	m.end(context.Background())
	if owner, ok := m.host.(audience); ok {
		owner.upstreamGone()
	}
	parties, attendants := f.listeners()
	for _, p := range parties {
		p.lose(m)
	}
	for _, a := range attendants {
		a.lose(m)
	}
	f.where.forget(m, f.all())
}

func (m *member) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, closeWithin)
	defer cancel()
	m.g.close(ctx)
	m.hub.work.Wait()
}

// drain is part of estate.
func (f *Front) drain(ctx context.Context, clients ...*exchanges) {
	f.settle()
	f.noMore()
	defer context.AfterFunc(ctx, f.end)()
	for _, c := range clients {
		c.close()
	}
	idle := make(chan struct{})
	go func() {
		for _, c := range clients {
			c.handlers.Wait()
		}
		f.parting.Wait()
		close(idle)
	}()
	each(f.all(), func(m *member) { m.g.drain(ctx, clients...) })
	select { // there may be no members, or calls of those that were taken away
	case <-idle:
	case <-ctx.Done():
	}
	f.end()
	for _, c := range clients {
		c.end(errShutdown)
	}
	<-idle
}

// settle has the members stay as they are.
func (f *Front) settle() {
	f.replacing.Lock()
	defer f.replacing.Unlock()
	f.over = true
}

// linger is part of estate.
func (f *Front) linger(contexts ...context.Context) {
	f.settle()
	over, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, ctx := range contexts {
		defer context.AfterFunc(ctx, cancel)()
	}
	go func() {
		f.parting.Wait()
		each(f.all(), func(m *member) { m.g.linger(over) })
		cancel()
	}()
	<-over.Done()
}

// close is part of estate.
func (f *Front) close(ctx context.Context) {
	f.settle()
	f.noMore()
	f.end()
	each(f.all(), func(m *member) { m.end(ctx) })
	f.parting.Wait()
	if f.forgotten != nil {
		f.forgotten()
	}
}

// failed is never closed: what is down is dialled again.
func (f *Front) failed() <-chan struct{} { return nil }
func (f *Front) err() error              { return nil }

// ready is part of site: one upstream that is down does not make the others so.
func (f *Front) ready(context.Context) error {
	all := f.all()
	if len(all) > 0 && !f.lazy && !slices.ContainsFunc(all, (*member).isUp) {
		return errors.New("none of the servers is ready")
	}
	return nil
}
