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

// lock waits for a lock on the file; it ends with the file's descriptor.
// flock(2) belongs to the open file, not to the process, so that two stores in
// one process see each other's.
func lock(f *os.File) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// locked reports whether somebody holds the lock. It asks for a shared one, so
// that two who look at once do not take each other for the owner.
func locked(f *os.File) (bool, error) {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			return true, nil
		}
		if !errors.Is(err, unix.EINTR) {
			return false, err
		}
	}
}

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
