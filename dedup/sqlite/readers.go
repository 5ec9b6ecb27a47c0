package sqlite

import (
	"context"
	"errors"
	"iter"
	"math"
	"time"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// listPage is how many operations List reads at once. Between pages nothing is
// held, so that a slow consumer does not keep the log from being emptied.
const listPage = 256

// Polling for what other processes write.
const (
	firstPoll = 10 * time.Millisecond
	maxPoll   = 250 * time.Millisecond
	// ownPoll is for operations of this process, whose changes wake the waiters.
	// Another process may still change them: a person's, say.
	ownPoll = time.Second
)

const (
	infoQuery   = "SELECT secret, since FROM meta"
	taskQuery   = "SELECT id FROM operations WHERE task = ? ORDER BY settled_at DESC, id DESC LIMIT 1"
	glanceQuery = "SELECT state, attempt, round, open_until IS NOT NULL FROM operations WHERE id = ?"
	listQuery   = "SELECT " + columnNames + fromOperations + `
		WHERE (o.claimed_at, o.id) < (?1, ?2) AND o.claimed_at > ?3 AND (?4 = 0 OR o.state = ?4) AND (?5 = '' OR s.tool = ?5)
		ORDER BY o.claimed_at DESC, o.id DESC LIMIT ?6`
	// unsettledQuery reads three partial indexes and nothing else of the table.
	unsettledQuery = "SELECT " + columnNames + fromOperations + `
		WHERE o.number IN (SELECT number FROM operations WHERE state = 1 UNION ALL SELECT number FROM operations WHERE open_until IS NOT NULL
			UNION ALL SELECT number FROM operations WHERE state = 2 AND input_until <= ?1)
		ORDER BY o.claimed_at DESC, o.id DESC`
	// getQuery loads no result whose window has passed by ?2.
	getQuery = "SELECT " + columnNames + `, CASE WHEN o.state <> 3 OR o.settled_at + o.window > ?2 THEN
		iif(o.state = 2, (SELECT question FROM rounds WHERE operation = o.number ORDER BY number DESC LIMIT 1),
			(SELECT body FROM results WHERE operation = o.number)) END` + fromOperations + "WHERE o.id = ?1"
	// overdueQuery reads its partial index in order, and only as far as the limit.
	overdueQuery = "SELECT " + columnNames + ` FROM operations o CROSS JOIN scopes s ON s.number = o.scope
		WHERE o.kept = 1 AND o.state = 3 AND o.settled_at + o.window <= ?1 ORDER BY o.settled_at + o.window, o.id LIMIT ?2`
	historyQuery = `SELECT e.move, e.attempt, e.state, e.at, e.actor, e.note FROM events e
		JOIN operations o ON o.number = e.operation WHERE o.id = ? ORDER BY e.sequence`
	statesQuery = `SELECT date(o.created_at / 1000, 'unixepoch'), s.upstream, s.tool, o.state, count(*), sum(o.state = 3 AND o.is_error),
		sum(o.move = 15 AND o.state <> 4)` + fromOperations + `GROUP BY 1, 2, 3, 4`
	talliesQuery = "SELECT day, upstream, tool, kind, count FROM tallies"
)

// Find gathers what stands in a claim's way, in one statement or transaction and so
// at one moment.
func (s *Store) Find(ctx context.Context, q dedup.Query) (around dedup.Surroundings, err error) {
	err = s.readers.use(ctx, func(c *connection) error {
		if q.Rounds {
			around, err = findWithRounds(c, q, s.now())
		} else {
			around, _, err = surroundings(context.Background(), c, q, s.now(), true)
		}
		return err
	})
	return around, err
}

// findWithRounds reads in several statements, and so in a transaction.
func findWithRounds(c *connection, q dedup.Query, now time.Time) (dedup.Surroundings, error) {
	if _, err := c.exec("BEGIN"); err != nil {
		return dedup.Surroundings{}, err
	}
	around, same, err := surroundings(context.Background(), c, q, now, true)
	if err == nil {
		around.Rounds, err = rounds(context.Background(), c, same.number, true)
	}
	if err == nil {
		_, err = c.exec("ROLLBACK") // nothing was written
	}
	return around, err
}

// Get returns one operation with its result while its window lasts, or
// dedup.ErrNotFound.
func (s *Store) Get(ctx context.Context, id dedup.OperationID) (dedup.Entry, error) {
	var r row
	now := s.now()
	err := s.readers.one(ctx, getQuery, func(c *columns) error {
		r.read(c)
		r.entry.Result = c.blob()
		return nil
	}, id[:], now.UnixMilli())
	return r.entry.Shown(now), err
}

// TaskOf returns the operation that was last answered with a task, or
// dedup.ErrNotFound.
func (s *Store) TaskOf(ctx context.Context, task dedup.Digest) (id dedup.OperationID, err error) {
	err = s.readers.one(ctx, taskQuery, func(c *columns) error {
		c.array(id[:])
		return nil
	}, task[:])
	return id, err
}

// Await returns when the operation may differ from what was seen: at once where
// it does already, else when this process writes it, or when a look finds that
// another process did.
func (s *Store) Await(ctx context.Context, seen dedup.Entry) error {
	woken, end := s.watch.subscribe(seen.ID)
	defer end()
	pause := firstPoll
	if seen.Owner == s.info.Owner {
		pause = ownPoll
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		if same, err := s.stands(ctx, seen); err != nil || !same {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.watch.closed:
			return ErrClosed
		case <-woken:
			return nil
		case <-timer.C:
		}
		if pause < maxPoll {
			pause = min(2*pause, maxPoll)
		}
		timer.Reset(pause)
	}
}

// stands reports whether an operation still is as it was seen.
func (s *Store) stands(ctx context.Context, seen dedup.Entry) (same bool, err error) {
	err = s.readers.one(ctx, glanceQuery, func(c *columns) error {
		same = dedup.State(c.integer()) == seen.State && c.integer() == seen.Attempt && c.integer() == seen.Round && c.flag() == seen.Open()
		return nil
	}, seen.ID[:])
	if errors.Is(err, dedup.ErrNotFound) {
		err = nil
	}
	return same, err
}

// Unsettled returns the operations that are Running, open or unanswered, newest claim
// first.
func (s *Store) Unsettled(ctx context.Context) ([]dedup.Entry, error) {
	return s.entries(ctx, unsettledQuery, s.now().UnixMilli())
}

// Overdue returns at most limit completed operations whose result is stored
// although their window has passed, in the order in which the windows ended.
func (s *Store) Overdue(ctx context.Context, limit int) ([]dedup.Entry, error) {
	return s.entries(ctx, overdueQuery, s.now().UnixMilli(), limit)
}

// List yields operations, newest claim first, without results. It reads in
// pages: an operation that is claimed again meanwhile may be missed or come as it
// was.
func (s *Store) List(ctx context.Context, f dedup.Filter) iter.Seq2[dedup.Entry, error] {
	return func(yield func(dedup.Entry, error) bool) {
		after := int64(math.MinInt64)
		if f.Since > 0 {
			after = s.now().UnixMilli() - f.Since.Milliseconds()
		}
		left := f.Limit
		if left <= 0 {
			left = math.MaxInt
		}
		before, beforeID := int64(math.MaxInt64), dedup.OperationID{}
		for left > 0 {
			page, err := s.entries(ctx, listQuery, before, beforeID[:], after, int(f.State), f.Tool, min(left, listPage))
			if err != nil {
				yield(dedup.Entry{}, err)
				return
			}
			for _, e := range page {
				if !yield(e, nil) {
					return
				}
			}
			if len(page) < min(left, listPage) {
				return
			}
			left -= len(page)
			before, beforeID = page[len(page)-1].ClaimedAt.UnixMilli(), page[len(page)-1].ID
		}
	}
}

func (s *Store) entries(ctx context.Context, query string, args ...any) (entries []dedup.Entry, err error) {
	err = s.readers.all(ctx, query, func(c *columns) error {
		var r row
		r.read(c)
		entries = append(entries, r.entry)
		return nil
	}, args...)
	return entries, err
}

// History returns the events of one operation, oldest first, or
// dedup.ErrNotFound.
func (s *Store) History(ctx context.Context, id dedup.OperationID) (events []dedup.Event, err error) {
	err = s.readers.all(ctx, historyQuery, func(c *columns) error {
		events = append(events, readEvent(c))
		return nil
	}, id[:])
	if err == nil && len(events) == 0 {
		err = dedup.ErrNotFound
	}
	return events, err
}
