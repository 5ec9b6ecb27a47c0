//go:build unix

package demo

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock waits for a lock on the file. The system takes it away when the process
// ends, however it ends, and not before.
func lock(f *os.File) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// locked reports whether another process holds the lock.
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
