package sqlite

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// A session is the writer's connection, with what it runs prepared. It never
// works under a caller's context: SQLite rolls a transaction back when a
// statement in it is interrupted, and what follows would commit by itself.
type session struct {
	conn *sql.Conn

	begin, version, commit, rollback *sql.Stmt
	surroundings, load               *sql.Stmt
	findScope, addScope              *sql.Stmt
	insert, update                   *sql.Stmt
	keepResult, dropResult, event    *sql.Stmt
	rounds, addRound, answerRound    *sql.Stmt
	dropRounds, dropQuestions        *sql.Stmt
	addTally, addReplays             *sql.Stmt
}

func newSession(db *sql.DB) (*session, error) {
	conn, err := db.Conn(context.Background())
	if err != nil {
		return nil, err
	}
	s := &session{conn: conn}
	for _, p := range []struct {
		stmt  **sql.Stmt
		query string
	}{
		{&s.begin, "BEGIN IMMEDIATE"},
		{&s.version, "PRAGMA user_version"},
		{&s.commit, "COMMIT"},
		{&s.rollback, "ROLLBACK"},
		{&s.surroundings, surroundingsQuery},
		{&s.load, "SELECT " + columns + fromOperations + "WHERE o.id = ?"},
		{&s.findScope, "SELECT number FROM scopes WHERE tool = ? AND upstream = ? AND account = ? AND namespace = ?"},
		{&s.addScope, "INSERT INTO scopes (tool, upstream, account, namespace) VALUES (?, ?, ?, ?)"},
		{&s.insert, insertOperation},
		{&s.update, updateOperation},
		{&s.keepResult, "INSERT INTO results (operation, body) VALUES (?, ?) ON CONFLICT DO UPDATE SET body = excluded.body"},
		{&s.dropResult, "DELETE FROM results WHERE operation = ?"},
		{&s.rounds, roundsQuery},
		{&s.addRound, "INSERT INTO rounds (operation, number, attempt, state, bare, downstream, answers, question) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"},
		{&s.answerRound, "UPDATE rounds SET answers = ? WHERE operation = ? AND number = ?"},
		{&s.dropRounds, "DELETE FROM rounds WHERE operation = ?"},
		{&s.dropQuestions, "UPDATE rounds SET question = NULL WHERE operation = ? AND question IS NOT NULL"},
		{&s.event, `INSERT INTO events (operation, sequence, move, attempt, state, at, actor, note)
			SELECT ?1, coalesce(max(sequence), 0) + 1, ?2, ?3, ?4, ?5, ?6, ?7 FROM events WHERE operation = ?1`},
		{&s.addTally, `INSERT INTO tallies (day, upstream, tool, kind, count) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET count = count + excluded.count`},
		{&s.addReplays, "UPDATE operations SET replays = replays + ? WHERE id = ?"},
	} {
		if *p.stmt, err = conn.PrepareContext(context.Background(), p.query); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return s, nil
}

// start begins a transaction that nobody else writes beside, and makes sure that
// the ledger is still of this program's version.
func (s *session) start() error {
	if _, err := s.begin.ExecContext(context.Background()); err != nil {
		return err
	}
	var found int
	err := s.version.QueryRowContext(context.Background()).Scan(&found)
	if err == nil && found != schemaVersion {
		err = &VersionError{Found: found, Known: schemaVersion}
	}
	if err != nil {
		return errors.Join(err, s.undo())
	}
	return nil
}

// undo rolls back. It fails where there was no transaction any more, which after
// a failed commit means that nobody knows whether it took effect.
func (s *session) undo() error {
	_, err := s.rollback.ExecContext(context.Background())
	return err
}

// discard closes the connection for good, so that no transaction is left open
// on one that the pool hands out again.
func (s *session) discard() {
	_ = s.conn.Raw(func(any) error { return sqldriver.ErrBadConn })
	_ = s.conn.Close()
}

// find loads one operation without its result, or fails with dedup.ErrNotFound.
func (s *session) find(id dedup.OperationID) (r row, err error) {
	err = s.load.QueryRowContext(context.Background(), id[:]).Scan(r.targets()...)
	if errors.Is(err, sql.ErrNoRows) {
		err = dedup.ErrNotFound
	}
	return r, err
}

// add writes a new operation.
func (s *session) add(c dedup.Change, now time.Time) error {
	scope, err := s.scope(c.Entry.Scope)
	if err != nil {
		return err
	}
	result, err := s.insert.ExecContext(context.Background(), append(names(&c.Entry, scope), changes(&c.Entry)...)...)
	if err != nil {
		return err
	}
	number, err := result.LastInsertId()
	if err != nil {
		return err
	}
	return s.attach(number, c, now)
}

// change writes an operation that exists.
func (s *session) change(was row, c dedup.Change, now time.Time) error {
	if _, err := s.update.ExecContext(context.Background(), append(changes(&c.Entry), was.number)...); err != nil {
		return err
	}
	if err := s.writeRounds(was.number, was.entry, c); err != nil {
		return err
	}
	return s.attach(was.number, c, now)
}

// attach writes what stands beside an operation's row.
func (s *session) attach(number int64, c dedup.Change, now time.Time) error {
	var err error
	switch {
	case c.Keep && len(c.Entry.Result) > 0:
		_, err = s.keepResult.ExecContext(context.Background(), number, c.Entry.Result)
	case c.Keep:
		_, err = s.dropResult.ExecContext(context.Background(), number)
	}
	if err != nil {
		return err
	}
	e := c.Event
	_, err = s.event.ExecContext(context.Background(), number, int(e.Row), e.Attempt, int(e.State), now.UnixMilli(), e.Actor, e.Note)
	return err
}

// scope finds a scope's number, and gives it one where it is new.
func (s *session) scope(scope dedup.Scope) (number int64, err error) {
	args := []any{scope.Tool, scope.Upstream, scope.Account, scope.Namespace}
	err = s.findScope.QueryRowContext(context.Background(), args...).Scan(&number)
	if !errors.Is(err, sql.ErrNoRows) {
		return number, err
	}
	result, err := s.addScope.ExecContext(context.Background(), args...)
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

// tally writes counts.
func (s *session) tally(c counts) error {
	for line, n := range c.lines {
		if _, err := s.addTally.ExecContext(context.Background(), line.day, line.upstream, line.tool, string(line.kind), n); err != nil {
			return fmt.Errorf("tally: %w", err)
		}
	}
	for id, n := range c.replays {
		if _, err := s.addReplays.ExecContext(context.Background(), n, id[:]); err != nil {
			return fmt.Errorf("tally: %w", err)
		}
	}
	return nil
}
