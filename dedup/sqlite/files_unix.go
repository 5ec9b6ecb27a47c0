//go:build unix

package sqlite

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// openLock opens a file to be locked.
func openLock(path string, flag int) (*os.File, error) { return os.OpenFile(path, flag, 0o600) }

// syncFolder makes the names in a folder durable.
func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// links is how many names a file has.
func links(path string) (uint64, error) {
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		return 0, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return uint64(s.Nlink), nil // the type of Nlink differs between systems
}
