package sqlite

import (
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"
)

// openLock opens a file to be locked, so that it can be removed while it is open.
// os.OpenFile does not allow that.
func openLock(path string, flag int) (*os.File, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	access, how := uint32(windows.GENERIC_READ), uint32(windows.OPEN_EXISTING)
	if flag&os.O_CREATE != 0 {
		access, how = windows.GENERIC_READ|windows.GENERIC_WRITE, windows.OPEN_ALWAYS
	}
	const shared = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
	handle, err := windows.CreateFile(name, access, shared, nil, how, windows.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(handle), path), nil
}

// syncFolder has nothing to do: NTFS journals its names.
func syncFolder(string) error { return nil }

// networkFileSystem reports whether a folder is on another machine's disk.
func networkFileSystem(folder string) string {
	full, err := filepath.Abs(folder)
	if err != nil {
		return ""
	}
	root, err := windows.UTF16PtrFromString(filepath.VolumeName(full) + `\`)
	if err != nil || windows.GetDriveType(root) != windows.DRIVE_REMOTE {
		return ""
	}
	return "a network drive"
}

// links is how many names a file has.
func links(path string) (n uint64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var info windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(windows.Handle(f.Fd()), &info); err != nil {
		return 0, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return uint64(info.NumberOfLinks), nil
}
