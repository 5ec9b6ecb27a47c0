package sqlite

import (
	"context"
	"database/sql"
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
	listQuery = "SELECT " + columns + fromOperations + `
		WHERE (o.claimed_at, o.id) < (?1, ?2) AND o.claimed_at > ?3 AND (?4 = 0 OR o.state = ?4) AND (?5 = '' OR s.tool = ?5)
		ORDER BY o.claimed_at DESC, o.id DESC LIMIT ?6`
	// unsettledQuery reads three partial indexes and nothing else of the table.
	unsettledQuery = "SELECT " + columns + fromOperations + `
		WHERE o.number IN (SELECT number FROM operations WHERE state = 1 UNION ALL SELECT number FROM operations WHERE open_until IS NOT NULL
			UNION ALL SELECT number FROM operations WHERE state = 2 AND input_until <= ?1)
		ORDER BY o.claimed_at DESC, o.id DESC`
	// getQuery loads no result whose window has passed by ?2.
	getQuery = "SELECT " + columns + `, CASE WHEN o.state <> 3 OR o.settled_at + o.window > ?2 THEN
		iif(o.state = 2, (SELECT question FROM rounds WHERE operation = o.number ORDER BY number DESC LIMIT 1),
			(SELECT body FROM results WHERE operation = o.number)) END` + fromOperations + "WHERE o.id = ?1"
	// overdueQuery reads its partial index in order, and only as far as the limit.
	overdueQuery = "SELECT " + columns + ` FROM operations o CROSS JOIN scopes s ON s.number = o.scope
		WHERE o.kept = 1 AND o.state = 3 AND o.settled_at + o.window <= ?1 ORDER BY o.settled_at + o.window, o.id LIMIT ?2`
)

// readers are the connections that only read, with what they run prepared.
type readers struct {
	db *sql.DB

	surroundings, rounds, get, task, glance, list, unsettled, overdue, history, states, tallies *sql.Stmt
}

func openReaders(path string, o Options) (*readers, error) {
	db, err := sql.Open("sqlite", dsn(path, toRead, o.BusyTimeout))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(maxReaders)
	db.SetMaxIdleConns(maxReaders)
	r := &readers{db: db}
	for _, p := range []struct {
		stmt  **sql.Stmt
		query string
	}{
		{&r.surroundings, surroundingsQuery},
		{&r.rounds, roundsQuery},
		{&r.get, getQuery},
		{&r.task, "SELECT id FROM operations WHERE task = ? ORDER BY settled_at DESC, id DESC LIMIT 1"},
		{&r.glance, "SELECT state, attempt, round, open_until IS NOT NULL FROM operations WHERE id = ?"},
		{&r.list, listQuery},
		{&r.unsettled, unsettledQuery},
		{&r.overdue, overdueQuery},
		{&r.history, `SELECT e.move, e.attempt, e.state, e.at, e.actor, e.note FROM events e
			JOIN operations o ON o.number = e.operation WHERE o.id = ? ORDER BY e.sequence`},
		{&r.states, `SELECT date(o.created_at / 1000, 'unixepoch'), s.upstream, s.tool, o.state, count(*), sum(o.state = 3 AND o.is_error),
			sum(o.move = 15 AND o.state <> 4)` + fromOperations + `GROUP BY 1, 2, 3, 4`},
		{&r.tallies, "SELECT day, upstream, tool, kind, count FROM tallies"},
	} {
		if *p.stmt, err = db.Prepare(p.query); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	return r, nil
}

func (r *readers) close() error { return r.db.Close() }

// info reads what was made with the ledger.
func (r *readers) info() (info dedup.Info, err error) {
	err = r.db.QueryRow("SELECT secret, since FROM meta").Scan(bytesInto(info.Secret[:]), timeInto{&info.Since})
	return info, err
}

// quick is a context for reads that take microseconds. Watching a caller's
// context would cost more than they do, and an interrupted connection is thrown
// away.
func quick(ctx context.Context) (context.Context, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return context.WithoutCancel(ctx), nil
}

// Find gathers what stands in a claim's way, in one statement and so at one
// moment.
func (s *Store) Find(ctx context.Context, q dedup.Query) (dedup.Surroundings, error) {
	ctx, err := quick(ctx)
	if err != nil {
		return dedup.Surroundings{}, err
	}
	if q.Rounds {
		return s.findWithRounds(ctx, q)
	}
	around, _, err := surroundings(ctx, s.readers.surroundings, q, s.now(), true)
	return around, err
}

// findWithRounds reads in two statements, and so in a transaction.
func (s *Store) findWithRounds(ctx context.Context, q dedup.Query) (dedup.Surroundings, error) {
	tx, err := s.readers.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return dedup.Surroundings{}, err
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	around, same, err := surroundings(ctx, tx.StmtContext(ctx, s.readers.surroundings), q, s.now(), true)
	if err == nil {
		around.Rounds, err = rounds(ctx, tx.StmtContext(ctx, s.readers.rounds), same.number, true)
	}
	return around, err
}

// Get returns one operation with its result while its window lasts, or
// dedup.ErrNotFound.
func (s *Store) Get(ctx context.Context, id dedup.OperationID) (dedup.Entry, error) {
	ctx, err := quick(ctx)
	if err != nil {
		return dedup.Entry{}, err
	}
	var r row
	now := s.now()
	err = s.readers.get.QueryRowContext(ctx, id[:], now.UnixMilli()).Scan(append(r.targets(), &r.entry.Result)...)
	if errors.Is(err, sql.ErrNoRows) {
		err = dedup.ErrNotFound
	}
	return r.entry.Shown(now), err
}

// TaskOf returns the operation that was last answered with a task, or
// dedup.ErrNotFound.
func (s *Store) TaskOf(ctx context.Context, task dedup.Digest) (id dedup.OperationID, err error) {
	err = s.readers.task.QueryRowContext(ctx, task[:]).Scan(bytesInto(id[:]))
	if errors.Is(err, sql.ErrNoRows) {
		err = dedup.ErrNotFound
	}
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
func (s *Store) stands(ctx context.Context, seen dedup.Entry) (bool, error) {
	ctx, err := quick(ctx)
	if err != nil {
		return false, err
	}
	var state dedup.State
	var attempt, round int
	var open bool
	err = s.readers.glance.QueryRowContext(ctx, seen.ID[:]).Scan(&state, &attempt, &round, &open)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return state == seen.State && attempt == seen.Attempt && round == seen.Round && open == seen.Open(), err
}

// Unsettled returns the operations that are Running, open or unanswered, newest claim
// first.
func (s *Store) Unsettled(ctx context.Context) ([]dedup.Entry, error) {
	return s.entries(ctx, s.readers.unsettled, s.now().UnixMilli())
}

// Overdue returns at most limit completed operations whose result is stored
// although their window has passed, in the order in which the windows ended.
func (s *Store) Overdue(ctx context.Context, limit int) ([]dedup.Entry, error) {
	return s.entries(ctx, s.readers.overdue, s.now().UnixMilli(), limit)
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
			page, err := s.entries(ctx, s.readers.list, before, beforeID[:], after, int(f.State), f.Tool, min(left, listPage))
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

func (s *Store) entries(ctx context.Context, stmt *sql.Stmt, args ...any) (entries []dedup.Entry, err error) {
	rows, err := stmt.QueryContext(ctx, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var r row
		if err := rows.Scan(r.targets()...); err != nil {
			return nil, err
		}
		entries = append(entries, r.entry)
	}
	return entries, rows.Err()
}

// History returns the events of one operation, oldest first, or
// dedup.ErrNotFound.
func (s *Store) History(ctx context.Context, id dedup.OperationID) ([]dedup.Event, error) {
	rows, err := s.readers.history.QueryContext(ctx, id[:])
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var events []dedup.Event
	for rows.Next() {
		var e dedup.Event
		if err := rows.Scan(&e.Row, &e.Attempt, &e.State, timeInto{&e.At}, &e.Actor, &e.Note); err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	if len(events) == 0 && rows.Err() == nil {
		return nil, dedup.ErrNotFound
	}
	return events, rows.Err()
}
