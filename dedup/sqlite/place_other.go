//go:build !linux && !darwin && !freebsd && !windows

package sqlite

// networkFileSystem cannot tell on this system.
func networkFileSystem(string) string { return "" }
