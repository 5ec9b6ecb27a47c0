package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// What the writer runs, besides the texts of its changes (see changeText).
const (
	loadQuery  = "SELECT " + columnNames + fromOperations + "WHERE o.id = ?"
	findScope  = "SELECT number FROM scopes WHERE tool = ? AND upstream = ? AND account = ? AND namespace = ?"
	addScope   = "INSERT INTO scopes (tool, upstream, account, namespace) VALUES (?, ?, ?, ?)"
	keepResult = "INSERT INTO results (operation, body) VALUES (?, ?) ON CONFLICT DO UPDATE SET body = excluded.body"
	dropResult = "DELETE FROM results WHERE operation = ?"
	// firstEvent is of an operation that was inserted just now.
	firstEvent = "INSERT INTO events (operation, sequence, move, attempt, state, at, actor, note) VALUES (?, 1, ?, ?, ?, ?, ?, ?)"
	nextEvent  = `INSERT INTO events (operation, sequence, move, attempt, state, at, actor, note)
		VALUES (?1, (SELECT coalesce(max(sequence), 0) + 1 FROM events WHERE operation = ?1), ?2, ?3, ?4, ?5, ?6, ?7)`
	addTally = `INSERT INTO tallies (day, upstream, tool, kind, count) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET count = count + excluded.count`
	addReplays = "UPDATE operations SET replays = replays + ? WHERE id = ?"
)

// A session is the writer's connection. It never works under a caller's context:
// SQLite rolls a transaction back when a statement in it is interrupted, and what
// follows would commit by itself.
type session struct {
	conn *connection
	// scopes are those of which it is known that they are committed, and added those
	// that the transaction has found or made. A scope keeps its number for good.
	scopes, added map[dedup.Scope]int64
	recent        recent
	changeTexts   map[uint64]string // see changeText
}

func newSession(at location, dsn string) (*session, error) {
	conn, err := at.connect(dsn)
	if err != nil {
		return nil, err
	}
	return &session{conn: conn, scopes: map[dedup.Scope]int64{}, added: map[dedup.Scope]int64{},
		recent: recent{rows: map[dedup.OperationID]row{}}, changeTexts: map[uint64]string{}}, nil
}

// start begins a transaction that nobody else writes beside, and makes sure that
// the ledger is still of this program's version.
func (s *session) start() error {
	if _, err := s.conn.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	found, err := s.number("PRAGMA user_version")
	if err == nil && found != schemaVersion {
		err = &VersionError{Found: found, Known: schemaVersion}
	}
	var others int
	if err == nil {
		others, err = s.number("PRAGMA data_version")
	}
	if err != nil {
		return errors.Join(err, s.undo())
	}
	s.recent.begin(others)
	return nil
}

// number reads one number.
func (s *session) number(query string) (n int, err error) {
	err = s.query(query, func(c *columns) error {
		n = c.integer()
		return nil
	})
	return n, err
}

// commit makes the transaction durable.
func (s *session) commit() error {
	if _, err := s.conn.exec("COMMIT"); err != nil {
		return err
	}
	for scope, number := range s.added {
		s.scopes[scope] = number
	}
	clear(s.added)
	s.recent.dirty = false
	return nil
}

// undo rolls back. It fails where there was no transaction any more, which after
// a failed commit means that nobody knows whether it took effect.
func (s *session) undo() error {
	clear(s.added)
	s.recent.undo()
	return s.exec("ROLLBACK")
}

func (s *session) query(query string, each func(*columns) error, args ...any) error {
	return s.conn.query(context.Background(), query, each, args...)
}

func (s *session) exec(query string, args ...any) error {
	_, err := s.conn.exec(query, args...)
	return err
}

// find loads one operation without its result, or fails with dedup.ErrNotFound.
func (s *session) find(id dedup.OperationID) (r row, err error) {
	if r, ok := s.recent.rows[id]; ok {
		return r, nil
	}
	err = s.query(loadQuery, func(c *columns) error {
		r.read(c)
		return nil
	}, id[:])
	if err == nil && r.number == 0 {
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
	result, err := s.conn.exec(insertOperation, append(names(&c.Entry, scope), changes(&c.Entry)...)...)
	if err != nil {
		return err
	}
	number, err := result.LastInsertId()
	if err != nil {
		return err
	}
	s.recent.keep(row{number, c.Entry})
	return s.attach(number, firstEvent, c, now)
}

// change writes an operation that exists: the columns that differ from what it was,
// so that the indexes and triggers of the others have nothing to do.
func (s *session) change(was row, c dedup.Change, now time.Time) error {
	if err := s.update(was, &c.Entry); err != nil {
		return err
	}
	s.recent.keep(row{was.number, c.Entry})
	if err := s.writeRounds(was.number, was.entry, c); err != nil {
		return err
	}
	return s.attach(was.number, nextEvent, c, now)
}

func (s *session) update(was row, is *dedup.Entry) error {
	var differ uint64
	before, args := changes(&was.entry), []any{}
	for i, value := range changes(is) {
		if !equal(before[i], value) {
			differ |= 1 << i
			args = append(args, value)
		}
	}
	if differ == 0 {
		return nil
	}
	return s.exec(s.changeText(differ), append(args, was.number)...)
}

// changeText is the statement that writes the columns of changing whose bits are
// set. A few dozen sets occur: each move of the table has its own.
func (s *session) changeText(set uint64) string {
	if s.changeTexts[set] == "" {
		var names []string
		for i, name := range changing {
			if set&(1<<i) != 0 {
				names = append(names, name)
			}
		}
		s.changeTexts[set] = fmt.Sprintf("UPDATE operations SET %s = ? WHERE number = ?", strings.Join(names, " = ?, "))
	}
	return s.changeTexts[set]
}

// attach writes what stands beside an operation's row.
func (s *session) attach(number int64, event string, c dedup.Change, now time.Time) error {
	var err error
	switch {
	case c.Keep && len(c.Entry.Result) > 0:
		err = s.exec(keepResult, number, c.Entry.Result)
	case c.Keep:
		err = s.exec(dropResult, number)
	}
	if err != nil {
		return err
	}
	e := c.Event
	return s.exec(event, number, int(e.Row), e.Attempt, int(e.State), now.UnixMilli(), e.Actor, e.Note)
}

// scope finds a scope's number, and gives it one where it is new.
func (s *session) scope(scope dedup.Scope) (number int64, err error) {
	for _, known := range []map[dedup.Scope]int64{s.scopes, s.added} {
		if number = known[scope]; number != 0 {
			return number, nil
		}
	}
	args := []any{scope.Tool, scope.Upstream, scope.Account, scope.Namespace}
	if err = s.query(findScope, func(c *columns) error {
		number = next[int64](c)
		return nil
	}, args...); err != nil {
		return 0, err
	}
	if number == 0 {
		result, err := s.conn.exec(addScope, args...)
		if err != nil {
			return 0, err
		}
		if number, err = result.LastInsertId(); err != nil {
			return 0, err
		}
	}
	s.added[scope] = number
	return number, nil
}

// tally writes counts.
func (s *session) tally(c counts) error {
	for line, n := range c.lines {
		if err := s.exec(addTally, line.day, line.upstream, line.tool, string(line.kind), n); err != nil {
			return fmt.Errorf("tally: %w", err)
		}
	}
	for id, n := range c.replays {
		delete(s.recent.rows, id)
		if err := s.exec(addReplays, n, id[:]); err != nil {
			return fmt.Errorf("tally: %w", err)
		}
	}
	return nil
}
