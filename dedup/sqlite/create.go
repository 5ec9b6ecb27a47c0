package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	lib "modernc.org/sqlite/lib"
)

// creating keeps apart, within this process, the moment in which an empty file
// is made and closed, and the opening of it by SQLite: closing any descriptor
// of a file drops all POSIX locks that the process holds on it.
var creating sync.Mutex

// prepare makes sure that a ledger of this program's version stands at the path:
// it makes one where nothing stands, and migrates an older one. Several processes
// may do so at once.
func prepare(path string, o Options) error {
	if err := checkPlace(path); err != nil {
		return err
	}
	creating.Lock()
	defer creating.Unlock()
	if err := touch(path); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", dsn(path, toCreate, o))
	if err != nil {
		return err
	}
	defer db.Close()
	conn, err := db.Conn(context.Background())
	if err != nil {
		return err
	}
	defer conn.Close()
	found, err := identify(conn, path)
	if err != nil {
		return err
	}
	if err := useLog(conn, o.BusyTimeout); err != nil || found == schemaVersion {
		return err
	}
	return upgrade(conn, path, o.Now())
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
	if isOrphaned(path) {
		return &OpenError{Path: path, Problem: "is not there, or is empty, and its write-ahead log is there (" + path + "-wal): what was committed last is in that",
			Remedy: "put the file back; or, to begin anew and forget every key, remove " + path + "-wal"}
	}
	if kind := networkFileSystem(filepath.Dir(path)); kind != "" {
		return &OpenError{Path: path, Problem: "is on a network file system (" + kind + "), where locks and the shared log cannot be relied on",
			Remedy: "put it on a local disk"}
	}
	return nil
}

// isOrphaned reports whether there is a log without its file. SQLite would remove it. A
// ledger in the making has no log before its file has a first page.
func isOrphaned(path string) bool {
	log, err := os.Stat(path + "-wal")
	if err != nil || log.Size() == 0 {
		return false
	}
	file, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist) || err == nil && file.Size() == 0
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

// useLog puts a file into WAL mode that is not, a new one or a backup that was put
// back. SQLite does not wait for the lock that
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
