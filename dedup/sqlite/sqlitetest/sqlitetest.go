// Package sqlitetest makes large ledgers in SQLite files, for measurements.
package sqlitetest

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/dedup/sqlite"
)

//go:embed fill.sql
var fillOperations string

//go:embed events.sql
var fillEvents string

// chunk is how many operations a transaction of Fill writes.
const chunk = 100_000

// Fill adds so many operations to the ledger at path, and makes it where there is
// none: of random keys, as years of answered calls leave them, each with its events
// and without its answer. It writes past the ledger's triggers and is not durable
// before it returns. Nothing else may use the ledger meanwhile. Ten million
// operations take some minutes.
func Fill(path string, operations int) error {
	s, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	return with(path, func(conn *sql.Conn) error {
		return unguarded(conn, func() error { return fill(conn, operations) })
	})
}

func fill(conn *sql.Conn, operations int) error {
	if err := run(conn, "PRAGMA synchronous=OFF; PRAGMA cache_size=-1000000; PRAGMA wal_autocheckpoint=50000;"+
		"INSERT OR IGNORE INTO scopes (namespace, upstream, account, tool) VALUES ('filled', 'shop', '/srv', 'refund')"); err != nil {
		return err
	}
	var scope, last int
	const query = "SELECT (SELECT number FROM scopes WHERE namespace = 'filled'), (SELECT coalesce(max(number), 0) FROM operations)"
	if err := conn.QueryRowContext(context.Background(), query).Scan(&scope, &last); err != nil {
		return err
	}
	start := time.Now().Add(-time.Duration(last+operations) * time.Second).UnixMilli()
	for left := operations; left > 0; left -= chunk {
		from, to := last+1, last+min(left, chunk)
		if err := errors.Join(run(conn, "BEGIN"), run(conn, fillOperations, from, to, start, scope), run(conn, fillEvents, from, to), run(conn, "COMMIT")); err != nil {
			return err
		}
		last = to
	}
	return run(conn, "PRAGMA wal_checkpoint(TRUNCATE)")
}

// unguarded does something without the triggers, which hold operations to a lawful
// life.
func unguarded(conn *sql.Conn, do func() error) error {
	rows, err := conn.QueryContext(context.Background(), "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")
	if err != nil {
		return err
	}
	defer rows.Close()
	var drop, make string
	for rows.Next() {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			return err
		}
		drop += "DROP TRIGGER " + name + ";"
		make += text + ";"
	}
	if err := errors.Join(rows.Err(), rows.Close(), run(conn, drop)); err != nil {
		return err
	}
	return errors.Join(do(), run(conn, make))
}

// Sample are queries for keys that the ledger at path knows, n of them, from its
// oldest to its newest.
func Sample(path string, n int) (queries []dedup.Query, err error) {
	err = with(path, func(conn *sql.Conn) error {
		var first, last int
		const bounds = "SELECT (SELECT min(number) FROM operations), (SELECT max(number) FROM operations)"
		if err := conn.QueryRowContext(context.Background(), bounds).Scan(&first, &last); err != nil {
			return err
		}
		for i := range n {
			const query = "SELECT lookup, loose, content FROM operations WHERE number >= ? ORDER BY number LIMIT 1"
			var lookup, loose, content []byte
			if err := conn.QueryRowContext(context.Background(), query, first+i*(last-first)/n).Scan(&lookup, &loose, &content); err != nil {
				return err
			}
			queries = append(queries, dedup.Query{Lookup: dedup.Digest(lookup), Loose: dedup.Digest(loose), Content: dedup.Digest(content)})
		}
		return nil
	})
	return queries, err
}

// with lends a connection to the ledger's file.
func with(path string, do func(*sql.Conn) error) error {
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath())
	if err != nil {
		return err
	}
	conn, err := db.Conn(context.Background())
	if err != nil {
		return errors.Join(err, db.Close())
	}
	return errors.Join(do(conn), conn.Close(), db.Close())
}

func run(conn *sql.Conn, query string, args ...any) error {
	if _, err := conn.ExecContext(context.Background(), query, args...); err != nil {
		return fmt.Errorf("%.40q: %w", query, err)
	}
	return nil
}
