package sqlite

import (
	"errors"
	"fmt"
	"io/fs"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// Errors of a store that is not asked what it can do.
var (
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("the ledger is closed")
	// ErrReplaced: another file stands where the ledger stood, or none. What
	// would be written would be forgotten, so nothing is.
	ErrReplaced = errors.New("the ledger's file was moved, deleted or replaced while it was open: restart to use what stands there now")
)

// An OpenError says why a ledger cannot be opened, and what a person can do
// about it. Its message is one line.
type OpenError struct {
	Path    string
	Problem string // what is wrong, as the second half of a sentence
	Remedy  string // what to do
	Err     error  // the cause, if there is one
}

func (e *OpenError) Error() string {
	return fmt.Sprintf("the ledger %s %s: %s", e.Path, e.Problem, e.Remedy)
}

// Unwrap returns the cause.
func (e *OpenError) Unwrap() error { return e.Err }

// A VersionError says that a ledger has a schema that this program cannot write.
type VersionError struct {
	Found int // the ledger's version
	Known int // this program's version
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("the ledger has schema version %d and this program knows %d: %s", e.Found, e.Known, e.remedy())
}

// remedy is what a person can do about it. Only a ledger that was replaced from
// outside gets older while it is open.
func (e *VersionError) remedy() string {
	switch {
	case e.Found > e.Known:
		return "use the newer program everywhere"
	case e.Found < oldestVersion:
		return "put back a backup of it, for no program makes such a ledger"
	}
	return "restart, so that it is migrated"
}

// explain turns the failure to open a file into what a person can do about it.
func explain(path string, err error) error {
	var known *OpenError
	if errors.As(err, &known) {
		return known
	}
	problem, remedy := "cannot be opened ("+err.Error()+")", "see that the path is right and the disk works"
	var version *VersionError
	switch code := primaryCode(err); {
	case errors.As(err, &version):
		problem, remedy = fmt.Sprintf("has schema version %d, and this program knows %d", version.Found, version.Known), version.remedy()
	case code == lib.SQLITE_NOTADB:
		problem, remedy = "is not a ledger, nor any SQLite database", "give the path of a ledger, or of a file that does not exist yet"
	case code == lib.SQLITE_CORRUPT:
		problem, remedy = "is damaged", "put back a backup of it together with its -wal file; do not delete it, or every key is forgotten"
	case code == lib.SQLITE_BUSY || code == lib.SQLITE_LOCKED:
		problem, remedy = "is locked by another program", "end the program that holds it, such as a SQLite shell in a transaction"
	case code == lib.SQLITE_FULL:
		problem, remedy = "cannot be written, because the disk is full", "free some space"
	case code == lib.SQLITE_READONLY, code == lib.SQLITE_PERM, code == lib.SQLITE_CANTOPEN, errors.Is(err, fs.ErrPermission):
		problem, remedy = "cannot be written", "give this user the right to write the file and its folder"
	}
	return &OpenError{Path: path, Problem: problem, Remedy: remedy, Err: err}
}

// primaryCode is SQLite's result code without its extension, or 0 where the
// error is not SQLite's.
func primaryCode(err error) int {
	var e *driver.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}
