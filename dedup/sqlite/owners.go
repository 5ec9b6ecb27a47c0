package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/internal/filelock"
)

const lockSuffix = ".lock"

// owners is the folder in which every process that may run operations holds a
// lock on a file that bears its owner id. The system takes the lock away when
// the process ends, however it ends, and not before. Ids are never used again,
// so that a lock which is free once is free for good.
type owners struct {
	folder string
	self   dedup.OwnerID
	lock   *os.File // nil in a process that runs nothing
}

// join makes this process an owner.
func (o *owners) join(id dedup.OwnerID) error {
	if err := os.MkdirAll(o.folder, 0o700); err != nil {
		return err
	}
	o.self = id
	if err := o.acquire(); err != nil {
		return err
	}
	o.sweep()
	return nil
}

// acquire makes the file and locks it. Between the two, a process that sweeps may
// take the file for a dead owner's and remove it; then it is made again. Once the
// path names the locked file, nobody removes it (see removeFree).
func (o *owners) acquire() error {
	for {
		f, err := openLock(o.file(o.self), os.O_CREATE|os.O_RDWR)
		if err != nil {
			return err
		}
		if err := filelock.Lock(f); err != nil {
			return errors.Join(err, f.Close())
		}
		if named(f) {
			o.lock = f
			return nil
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
}

// named reports whether an open file still is what its path names.
func named(f *os.File) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(f.Name())
	return err == nil && os.SameFile(open, there)
}

// alive reports whether an owner's process lives.
//
// No file means dead: the file is removed only by its owner's Close, or by
// somebody who found it free. If a person removes it under a living owner, that
// owner's operations become unknown, which is never repeated on its own and
// which the owner's late answer still corrects. The other way round, they would
// be running for ever.
func (o *owners) alive(id dedup.OwnerID) (bool, error) {
	if id == o.self && o.lock != nil {
		return true, nil
	}
	f, err := openLock(o.file(id), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	held, err := filelock.Held(f)
	return held, errors.Join(err, f.Close())
}

// sweep removes the files of the dead. What it cannot remove does no harm, and
// the next process tries again.
func (o *owners) sweep() {
	entries, _ := os.ReadDir(o.folder)
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), lockSuffix)
		if _, err := uuid.Parse(name); ok && err == nil && e.Name() != o.self.String()+lockSuffix {
			sweepFile(filepath.Join(o.folder, e.Name()))
		}
	}
}

func sweepFile(path string) {
	f, err := openLock(path, os.O_RDONLY)
	if err != nil {
		return
	}
	defer f.Close()
	removeFree(f)
}

// removeFree removes a file whose lock is free, and holds the lock meanwhile, so
// that no owner can take it in between. The lock is a shared one, as in alive: an
// exclusive one would let the dead seem alive to whoever asks at that moment. It
// is enough, since only its owner ever makes a file of that name. While the lock
// is held on a file that the path names, the owner waits for this very file, and
// so has made no other for this or another sweep to remove by mistake.
func removeFree(f *os.File) {
	if held, err := filelock.Held(f); err == nil && !held && named(f) {
		_ = os.Remove(f.Name())
	}
}

// release ends this process's ownership.
func (o *owners) release() error {
	if o.lock == nil {
		return nil
	}
	err := os.Remove(o.lock.Name()) // while it is locked, as every removal
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(o.lock.Close(), err)
}

func (o *owners) file(id dedup.OwnerID) string {
	return filepath.Join(o.folder, id.String()+lockSuffix)
}
