package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	lib "modernc.org/sqlite/lib"
)

// A BackupError says why a backup cannot be written where it should be. Its message is
// one line.
type BackupError struct {
	Path    string
	Problem string // what is wrong, as the second half of a sentence
	Remedy  string // what to do
}

func (e *BackupError) Error() string { return fmt.Sprintf("%s %s: %s", e.Path, e.Problem, e.Remedy) }

// Backup writes the ledger at path, as it stands at one moment, into a file of its own,
// while gateways go on writing. It examines the copy before it gives it its name, and
// returns what it found; the copy is on disk when Backup returns, and only this user may
// read it. An existing file is replaced only with force, and never one that is in use.
// The ledger is not changed, nor migrated. Meanwhile its log grows by what is written.
//
// The copy holds the ledger's secret. Errors are an *OpenError about the ledger and a
// *BackupError about the place.
func Backup(ctx context.Context, path, to string, force bool) (done Examination, err error) {
	from, err := examine(path, toCopy)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, from.conn.close()) }()
	if to, err = backupPlace(from.done.Path, to, force); err != nil {
		return done, err
	}
	part, err := os.CreateTemp(filepath.Dir(to), "."+filepath.Base(to)+".*.part") // mode 0600
	if err != nil {
		return done, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, removeIfThere(part.Name()))
		}
	}()
	if err := part.Close(); err != nil {
		return done, err
	}
	if _, err := from.conn.run(ctx, "VACUUM INTO ?", part.Name()); err != nil {
		return done, explainCopy(from.done.Path, to, err)
	}
	if done, err = examineCopy(ctx, part.Name()); err != nil {
		return done, err
	}
	done.Path = to
	return done, publish(part.Name(), to, force)
}

// backupPlace finds where the copy is to stand, and refuses places where it cannot.
func backupPlace(ledger, to string, force bool) (string, error) {
	full, err := filepath.Abs(to)
	if err != nil {
		return to, err
	}
	folder, err := filepath.EvalSymlinks(filepath.Dir(full))
	if err != nil {
		return full, &BackupError{full, "has no folder", "make the folder, or give another path"}
	}
	full = filepath.Join(folder, filepath.Base(full))
	info, err := os.Lstat(full)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return full, err
	case isLedger(ledger, info):
		return full, &BackupError{full, "is the ledger itself", "give the path of another file"}
	case !info.Mode().IsRegular():
		return full, &BackupError{full, "is there, and is no plain file", "give another path"}
	case !force:
		return full, &BackupError{full, "is there already", "give another path, or replace it with --force"}
	}
	if kind := networkFileSystem(folder); kind != "" {
		return full, &BackupError{full, "is on a network file system (" + kind + "), where the copy could not be examined reliably",
			"put it on a local disk, and copy it from there"}
	}
	// What a log says would be taken for a part of the copy.
	for _, suffix := range []string{"-wal", "-shm", "-journal"} {
		if !missing(full + suffix) {
			return full, &BackupError{full, "has a log beside it (" + full + suffix + "): a program uses it, or has died with it",
				"give another path"}
		}
	}
	return full, nil
}

// isLedger reports whether a file is the ledger's, or one of its companions.
func isLedger(ledger string, file os.FileInfo) bool {
	for _, suffix := range []string{"", "-wal", "-shm", "-owners"} {
		if there, err := os.Stat(ledger + suffix); err == nil && os.SameFile(there, file) {
			return true
		}
	}
	return false
}

// examineCopy makes sure that a copy is sound. One of an older schema version is held to
// what SQLite knows.
func examineCopy(ctx context.Context, path string) (Examination, error) {
	v, err := examine(path, toExamine)
	if err != nil {
		return Examination{}, err
	}
	v.found = func(f Fault) error {
		return fmt.Errorf("the copy is not sound, and so the ledger may not be; see mcp-idem ledger verify: %s", f.Problem)
	}
	if v.done.Version == schemaVersion {
		err = v.all(ctx, VerifyOption{})
	} else {
		err = v.structure(ctx, VerifyOption{})
	}
	return v.done, errors.Join(err, v.conn.close())
}

// publish makes a finished copy durable and gives it its name.
func publish(part, to string, force bool) error {
	if err := syncFile(part); err != nil {
		return err
	}
	if !force {
		// Who comes first has the name. Renaming alone would replace what came meanwhile.
		f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if errors.Is(err, fs.ErrExist) {
			return &BackupError{to, "is there already", "give another path, or replace it with --force"}
		}
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			return err
		}
	}
	if err := os.Rename(part, to); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(to))
}

// syncFile makes the content of a file durable that SQLite has closed.
func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func removeIfThere(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// explainCopy tells whether it is the ledger or its copy that fails.
func explainCopy(ledger, to string, err error) error {
	switch code := primaryCode(err); code {
	case 0:
		return err
	case lib.SQLITE_FULL, lib.SQLITE_IOERR:
		return &BackupError{to, "cannot be written (" + err.Error() + ")", "free some space, or give another path"}
	}
	return explain(ledger, err)
}
