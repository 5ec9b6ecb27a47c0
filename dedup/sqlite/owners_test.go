package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// TestOwnersAreSeenAsTheyAre has many owners start and end at once, while others
// sweep without rest.
func TestOwnersAreSeenAsTheyAre(t *testing.T) {
	t.Parallel()
	const processes, sweepers, lives = 4, 4, 500
	folder := t.TempDir()
	var living errgroup.Group
	for range processes {
		living.Go(func() error {
			for i := range lives {
				if err := live(folder, i%8 == 0); err != nil {
					return fmt.Errorf("life %d: %w", i, err)
				}
			}
			return nil
		})
	}
	var ended atomic.Bool
	var sweeping sync.WaitGroup
	for range sweepers {
		sweeping.Go(func() {
			for o := (&owners{folder: folder}); !ended.Load(); {
				o.sweep()
			}
		})
	}
	err := living.Wait()
	ended.Store(true)
	sweeping.Wait()
	require.NoError(t, err)
	last := &owners{folder: folder}
	require.NoError(t, last.join(dedup.NewOwnerID()))
	require.NoError(t, last.release())
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	assert.Empty(t, left, "the last one has cleared up after the killed")
}

// live is an owner's life, with an end in good order or not.
func live(folder string, killed bool) error {
	o, other := &owners{folder: folder}, &owners{folder: folder}
	if err := o.join(dedup.NewOwnerID()); err != nil {
		return err
	}
	for range 5 {
		if alive, err := other.alive(o.self); err != nil || !alive {
			return errors.Join(err, o.release(), errors.New("a living owner seems dead"))
		}
	}
	end := o.release
	if killed {
		end = o.kill
	}
	if err := end(); err != nil {
		return err
	}
	for range 5 {
		if alive, err := other.alive(o.self); err != nil || alive {
			return errors.Join(err, errors.New("a dead owner seems alive"))
		}
	}
	return nil
}

// TestASweepRemovesOnlyWhatItHasLocked lets a sweep be slow: another one has
// removed the file that it has opened, and the owner has made its file again.
func TestASweepRemovesOnlyWhatItHasLocked(t *testing.T) {
	t.Parallel()
	o := &owners{folder: t.TempDir(), self: dedup.NewOwnerID()}
	path := o.file(o.self)
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	slow, err := openLock(path, os.O_RDONLY)
	require.NoError(t, err)
	sweepFile(path)
	require.NoFileExists(t, path)
	require.NoError(t, o.acquire())
	removeFree(slow)
	sweepFile(path)
	assert.FileExists(t, path)
	require.NoError(t, errors.Join(slow.Close(), o.release()))
}

// linked makes a path for a ledger, and another one by a link.
var linked = map[string]func(t *testing.T) (path, link string){
	"to the file": func(t *testing.T) (path, link string) {
		folder := t.TempDir()
		path, link = filepath.Join(folder, "disk", "ledger.db"), filepath.Join(folder, "link.db")
		makeFile(t, path, "PRAGMA wal_checkpoint")
		require.NoError(t, os.Symlink(filepath.Join("disk", "ledger.db"), link))
		return path, link
	},
	"to the folder": func(t *testing.T) (path, link string) {
		folder := t.TempDir()
		path, link = filepath.Join(folder, "disk", "ledger.db"), filepath.Join(folder, "link", "ledger.db")
		require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))
		require.NoError(t, os.Symlink("disk", filepath.Dir(link)))
		return path, link // nothing is there yet
	},
}

func TestALedgerIsTheSameByALink(t *testing.T) {
	t.Parallel()
	for name, make := range linked {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, link := make(t)
			byLink, err := Open(link, Options{})
			require.NoError(t, err)
			direct, err := Open(path, Options{})
			require.NoError(t, err)
			for _, pair := range [][2]*Store{{byLink, direct}, {direct, byLink}} {
				alive, err := pair[0].Alive(pair[1].info.Owner)
				require.NoError(t, err)
				assert.True(t, alive)
			}
			folder, err := filepath.EvalSymlinks(filepath.Dir(path))
			require.NoError(t, err)
			assert.Equal(t, filepath.Join(folder, "ledger.db"), byLink.info.Path, "where it really stands")
			assert.Equal(t, direct.info.Path, byLink.info.Path)
			mustClaim(t, byLink, "key")
			require.NoError(t, errors.Join(byLink.Close(), direct.Close()))
			assert.NoDirExists(t, filepath.Join(filepath.Dir(filepath.Dir(path)), "link.db-owners"))
		})
	}
}
