package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	lib "modernc.org/sqlite/lib"
)

//go:embed schema.sql
var schema string

const (
	// applicationID marks a SQLite file as a ledger: "mcid".
	applicationID = 0x6d636964
	// schemaVersion is the version of schema.sql. A change to it that an older
	// program cannot live with raises the number.
	schemaVersion = 1
)

// creating keeps apart, within this process, the moment in which an empty file
// is made and closed, and the opening of it by SQLite: closing any descriptor
// of a file drops all POSIX locks that the process holds on it.
var creating sync.Mutex

// prepare makes sure that a ledger of a known version stands at the path, and
// makes one where nothing stands. Several processes may do so at once.
func prepare(path string, o Options) error {
	if err := checkPlace(path); err != nil {
		return err
	}
	creating.Lock()
	defer creating.Unlock()
	if err := touch(path); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", dsn(path, toCreate, o.BusyTimeout))
	if err != nil {
		return err
	}
	defer db.Close()
	conn, err := db.Conn(context.Background())
	if err != nil {
		return err
	}
	defer conn.Close()
	if fresh, err := identify(conn, path); err != nil || !fresh {
		return err
	}
	if err := useLog(conn, o.BusyTimeout); err != nil {
		return err
	}
	return create(conn, path, o.Now())
}

// locate makes the folder of a ledger, and returns the path by which every process
// knows the file, however it is reached. SQLite follows links itself, so that its
// companions stand beside the file and not beside the link; the owners' locks
// must do so too.
func locate(path string) (string, error) {
	full, err := filepath.Abs(path)
	if err != nil {
		return path, err
	}
	folder := filepath.Dir(full)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return full, &OpenError{Path: full, Problem: "has no folder, and it cannot be made (" + err.Error() + ")",
			Remedy: "make the folder, or give another path", Err: err}
	}
	resolved, err := filepath.EvalSymlinks(full)
	if err == nil {
		return resolved, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return full, err
	}
	if info, err := os.Lstat(full); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		// It may lead to a disk that is not there yet. A new ledger knows no key.
		return full, &OpenError{Path: full, Problem: "is a link to a file that does not exist", Remedy: "put back what it leads to, or give the path of the file itself"}
	}
	folder, err = filepath.EvalSymlinks(folder)
	return filepath.Join(folder, filepath.Base(full)), err
}

// checkPlace refuses places where a ledger cannot live, before anything is made.
func checkPlace(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return &OpenError{Path: path, Problem: "is a folder", Remedy: "give the path of a file in it"}
	}
	// Each name would have a log and owners of its own.
	if n, err := links(path); err == nil && n > 1 {
		return &OpenError{Path: path, Problem: fmt.Sprintf("is one file under %d names (hard links), which would not see each other's log and locks", n),
			Remedy: "remove the other names; a symbolic link may take their place"}
	}
	if kind := networkFileSystem(filepath.Dir(path)); kind != "" {
		return &OpenError{Path: path, Problem: "is on a network file system (" + kind + "), where locks and the shared log cannot be relied on",
			Remedy: "put it on a local disk"}
	}
	return nil
}

// touch makes an empty file that only this user can read. SQLite gives its
// companions the same rights.
func touch(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), syncFolder(filepath.Dir(path)))
}

// identify tells a ledger from an empty file, and fails for everything else.
func identify(conn *sql.Conn, path string) (fresh bool, err error) {
	var id, version, tables int
	const query = `SELECT (SELECT application_id FROM pragma_application_id), (SELECT user_version FROM pragma_user_version),
		(SELECT count(*) FROM sqlite_schema)`
	if err := conn.QueryRowContext(context.Background(), query).Scan(&id, &version, &tables); err != nil {
		return false, err
	}
	switch {
	case id == 0 && version == 0 && tables == 0:
		return true, nil
	case id != applicationID:
		return false, &OpenError{Path: path, Problem: "is another program's SQLite database", Remedy: "give another path"}
	case version != schemaVersion:
		return false, &VersionError{Found: version, Known: schemaVersion}
	}
	return false, nil
}

// useLog puts a new file into WAL mode. SQLite does not wait for the lock that
// this needs, so that processes which start at once have to try again.
func useLog(conn *sql.Conn, patience time.Duration) error {
	deadline := time.Now().Add(patience)
	for {
		var mode string
		err := conn.QueryRowContext(context.Background(), "PRAGMA journal_mode=WAL").Scan(&mode)
		switch {
		case err == nil && mode != "wal":
			return fmt.Errorf("the file cannot have a write-ahead log: its journal mode is %s", mode)
		case err == nil:
			return nil
		case primaryCode(err) != lib.SQLITE_BUSY || time.Now().After(deadline):
			return err
		}
		<-time.After(5 * time.Millisecond)
	}
}

// create writes the schema and the secret, unless another process was faster.
func create(conn *sql.Conn, path string, now time.Time) (err error) {
	exec := func(query string, args ...any) {
		if err == nil {
			_, err = conn.ExecContext(context.Background(), query, args...)
		}
	}
	if exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_, _ = conn.ExecContext(context.Background(), "ROLLBACK") // err says what went wrong
		}
	}()
	fresh, err := identify(conn, path)
	if fresh {
		var secret [32]byte
		_, _ = rand.Read(secret[:]) // never fails (crypto/rand)
		exec(schema)
		exec("INSERT INTO meta (only, secret, since) VALUES (1, ?, ?)", secret[:], now.UnixMilli())
		exec(fmt.Sprintf("PRAGMA application_id=%d", applicationID))
		exec(fmt.Sprintf("PRAGMA user_version=%d", schemaVersion))
	}
	exec("COMMIT")
	return err
}
