package dedup

import "context"

// Sweep mends what processes have left behind, now.
func (l *Ledger) Sweep(ctx context.Context) error { return l.sweep(ctx) }

// WriteUnwritten tries to write what could not be written, now.
func (l *Ledger) WriteUnwritten() { l.writeUnwritten() }

// Crash ends a ledger as the end of its process would: nothing is settled, and
// its owner is dead.
func (l *Ledger) Crash() error {
	close(l.stop)
	<-l.done
	return l.store.Close()
}

// Remembers counts what the ledger keeps in memory about attempts and waiters: it
// is 0 when nothing is under way.
func (l *Ledger) Remembers() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.held) + len(l.unsent) + len(l.unwritten) + len(l.waiters)
}

// Waiters counts the callers that wait for one operation.
func (l *Ledger) Waiters(id OperationID) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiters[id]
}
