//go:build unix

// Package filelock locks open files between processes. The system takes a lock away
// when the file is closed or its process ends, however it ends, and not before.
package filelock

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Lock waits for the lock on the file. flock(2) belongs to the open file and not to
// the process, so that two openings in one process see each other's.
func Lock(f *os.File) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Held reports whether somebody holds the lock. It asks for a shared one, which the
// file then has until it is closed, so that two who look at once do not take each
// other for the holder.
func Held(f *os.File) (bool, error) {
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
