package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// vacuumPages is how many pages Shrink gives back at once: a transaction of a few
// milliseconds, so that others need not wait.
const vacuumPages = 256

// removeOperation takes results, rounds and events along, by their foreign keys. That
// only a released one may go is said by a trigger too.
const removeOperation = "DELETE FROM operations WHERE number = ? AND state = 5"

// Remove deletes a released operation with all that the ledger holds of it.
func (s *Store) Remove(ctx context.Context, id dedup.OperationID, decide func(dedup.Entry, time.Time) bool) error {
	return s.write(ctx, func(tx *session) (outcome, error) {
		r, err := tx.find(id)
		switch {
		case errors.Is(err, dedup.ErrNotFound):
			return outcome{err: err}, nil
		case err != nil:
			return outcome{}, err
		case !decide(r.entry, s.now()):
			return outcome{}, nil
		case r.entry.State != dedup.Released:
			return outcome{err: fmt.Errorf("only a released operation is deleted; this one is %s", r.entry.State)}, nil
		}
		return outcome{wrote: id}, tx.exec(removeOperation, r.number)
	})
}

// Shrink cuts pages off the file's end that are free, or that it has freed by moving
// others to the front. The file itself is cut when the log is moved into it.
func (s *Store) Shrink(ctx context.Context) (bytes int64, more bool, err error) {
	var before, after int
	err = s.write(ctx, func(tx *session) (_ outcome, err error) {
		const free = "PRAGMA freelist_count"
		if before, err = tx.number(free); err != nil || before == 0 {
			return outcome{}, err
		}
		if err := tx.query(fmt.Sprintf("PRAGMA incremental_vacuum(%d)", vacuumPages), func(*columns) error { return nil }); err != nil {
			return outcome{}, err
		}
		after, err = tx.number(free)
		return outcome{other: after < before}, err
	})
	if err != nil || after >= before { // none are free, or the file cannot be cut
		return 0, false, err
	}
	size := 0
	err = s.readers.one(ctx, "PRAGMA page_size", func(c *columns) error {
		size = c.integer()
		return nil
	})
	return int64(before-after) * int64(size), after > 0, err
}
