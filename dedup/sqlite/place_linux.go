package sqlite

import "golang.org/x/sys/unix"

// networkFileSystems are those on which a lock or the memory that maps the log
// may not be shared with the other side. 9p is not among them: it is how some
// sandboxes show a local disk. FUSE is not either, since its magic number does
// not tell a network from a local disk.
var networkFileSystems = map[uint32]string{
	unix.NFS_SUPER_MAGIC:  "NFS",
	unix.SMB_SUPER_MAGIC:  "SMB",
	unix.SMB2_SUPER_MAGIC: "SMB",
	unix.CIFS_SUPER_MAGIC: "CIFS",
	unix.AFS_FS_MAGIC:     "AFS",
	unix.AFS_SUPER_MAGIC:  "AFS",
	unix.CODA_SUPER_MAGIC: "Coda",
	unix.CEPH_SUPER_MAGIC: "Ceph",
}

// networkFileSystem names the network file system that a folder is on, or
// nothing where it is local or cannot be told.
func networkFileSystem(folder string) string {
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err != nil {
		return ""
	}
	return networkFileSystems[uint32(s.Type)] // the type of Type differs between architectures
}
