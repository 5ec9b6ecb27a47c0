// Package filelock locks open files between processes. The system takes a lock away
// when the file is closed or its process ends, however it ends, and not before.
package filelock

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// Lock waits for the lock on the file.
func Lock(f *os.File) error {
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK, 0, 1, 0, new(windows.Overlapped))
}

// Held reports whether somebody holds the lock. It asks for a shared one, which the
// file then has until it is closed, so that two who look at once do not take each
// other for the holder.
func Held(f *os.File) (bool, error) {
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, new(windows.Overlapped))
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return true, nil
	}
	return false, err
}
