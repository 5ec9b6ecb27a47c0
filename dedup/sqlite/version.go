package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"embed"
	"fmt"
	"time"
)

// schema is the newest schema as a whole.
//
//go:embed schema.sql
var schema string

// migrations holds one file for each version but the first: what makes a ledger of
// that version out of one of the version before.
//
//go:embed migrate/*.sql
var migrations embed.FS

const (
	// applicationID marks a SQLite file as a ledger: "mcid".
	applicationID = 0x6d636964
	// schemaVersion is the version of schema.sql. A change to it that an older
	// program cannot live with raises the number, and comes with a migration.
	schemaVersion = 5
	// oldestVersion is the version of the first ledgers.
	oldestVersion = 1
)

// identityQuery reads what tells a ledger from other files.
const identityQuery = `SELECT (SELECT application_id FROM pragma_application_id), (SELECT user_version FROM pragma_user_version),
	(SELECT count(*) FROM sqlite_schema)`

// An identity is what tells a ledger from other files.
type identity struct{ application, version, tables int }

// check returns the schema version of a ledger that this program can use or migrate,
// or 0 for an empty file, and fails for everything else.
func (i identity) check(path string) (version int, err error) {
	switch {
	case i == identity{}:
		return 0, nil
	case i.application != applicationID:
		return 0, &OpenError{Path: path, Problem: "is another program's SQLite database", Remedy: "give another path"}
	case i.version < oldestVersion || i.version > schemaVersion:
		return 0, &VersionError{Found: i.version, Known: schemaVersion}
	}
	return i.version, nil
}

// identify checks the identity of the file behind a connection.
func identify(conn *sql.Conn, path string) (version int, err error) {
	var i identity
	if err := conn.QueryRowContext(context.Background(), identityQuery).Scan(&i.application, &i.version, &i.tables); err != nil {
		return 0, err
	}
	return i.check(path)
}

// upgrade makes a ledger of this program's version out of an empty file or an older
// ledger, unless another process was faster. It is one transaction: a process that
// dies within it leaves what was there. IMMEDIATE lets only one process at a time
// look at the version and act on it. Older programs that have the ledger open look
// at it likewise, within every transaction that writes, and write no more.
func upgrade(conn *sql.Conn, path string, now time.Time) (err error) {
	if err := execute(conn, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = execute(conn, "ROLLBACK") // err says what went wrong
		}
	}()
	found, err := identify(conn, path)
	switch {
	case err != nil:
		return err
	case found == 0:
		err = create(conn, now)
	case found < schemaVersion:
		err = migrate(conn, found)
	}
	if err != nil {
		return err
	}
	return execute(conn, "COMMIT")
}

// create writes the schema and the secret, within a transaction.
func create(conn *sql.Conn, now time.Time) error {
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails (crypto/rand)
	if err := execute(conn, schema); err != nil {
		return err
	}
	if err := execute(conn, "INSERT INTO meta (only, secret, since) VALUES (1, ?, ?)", secret[:], now.UnixMilli()); err != nil {
		return err
	}
	return execute(conn, fmt.Sprintf("PRAGMA application_id=%d; PRAGMA user_version=%d", applicationID, schemaVersion))
}

// migrate takes a ledger from an older version to this program's, within a
// transaction.
func migrate(conn *sql.Conn, found int) error {
	for version := found + 1; version <= schemaVersion; version++ {
		steps, err := migrations.ReadFile(fmt.Sprintf("migrate/%04d.sql", version))
		if err != nil {
			return err
		}
		if err := execute(conn, string(steps)); err != nil {
			return fmt.Errorf("migrate from schema version %d to %d: %w", version-1, version, err)
		}
	}
	return execute(conn, fmt.Sprintf("PRAGMA user_version=%d", schemaVersion))
}

func execute(conn *sql.Conn, query string, args ...any) error {
	_, err := conn.ExecContext(context.Background(), query, args...)
	return err
}
