//go:build darwin || freebsd

package sqlite

import "golang.org/x/sys/unix"

// networkFileSystem names the network file system that a folder is on, or
// nothing where it is local or cannot be told. The system itself marks what is
// local (statfs(2), MNT_LOCAL).
func networkFileSystem(folder string) string {
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err != nil || uint64(s.Flags)&unix.MNT_LOCAL != 0 {
		return ""
	}
	return unix.ByteSliceToString(s.Fstypename[:])
}
