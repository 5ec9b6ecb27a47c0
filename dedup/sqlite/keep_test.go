package sqlite

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// A claimer is another process that claims new keys for ever.
type claimer struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
	keys  []string // of which it has said that they were acknowledged
}

func startClaimer(t *testing.T, path string) *claimer {
	t.Helper()
	c := &claimer{cmd: child(t, "claim for ever", path)}
	out, err := c.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.cmd.Start())
	c.lines = bufio.NewScanner(out)
	t.Cleanup(func() {
		require.NoError(t, c.cmd.Process.Kill())
		for c.lines.Scan() { // until its end
		}
		require.Error(t, c.cmd.Wait(), "killed")
	})
	return c
}

// goOn waits until it has claimed n keys more.
func (c *claimer) goOn(t *testing.T, n int) {
	t.Helper()
	for range n {
		require.True(t, c.lines.Scan())
		c.keys = append(c.keys, c.lines.Text())
	}
}

// verify examines a ledger.
func verify(t *testing.T, path string, full bool) (done Examination, faults []Fault) {
	t.Helper()
	done, err := Verify(context.Background(), path, VerifyOption{Full: full}, func(f Fault) error {
		faults = append(faults, f)
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, len(faults), done.Faults)
	return done, faults
}

func TestABackupIsWholeWhileOthersWrite(t *testing.T) {
	t.Parallel()
	path, copied := filepath.Join(t.TempDir(), "ledger.db"), filepath.Join(t.TempDir(), "copy.db")
	other := startClaimer(t, path)
	for range 5 {
		other.goOn(t, 20)
		acknowledged := other.keys
		done, err := Backup(context.Background(), path, copied, true)
		require.NoError(t, err)
		require.GreaterOrEqual(t, done.Operations, len(acknowledged))
		requireMode(t, 0o600, copied)
		_, faults := verify(t, copied, true)
		require.Empty(t, faults)
		_, faults = verify(t, path, false)
		require.Empty(t, faults)

		s, err := Open(copied, Options{})
		require.NoError(t, err)
		for _, key := range acknowledged {
			around, err := s.Find(context.Background(), queryOf(key))
			require.NoError(t, err)
			require.NotNil(t, around.Same, key)
		}
		require.NoError(t, s.Close())
	}
	left, err := os.ReadDir(filepath.Dir(copied))
	require.NoError(t, err)
	assert.Len(t, left, 2, "the copy, and the owners of what was opened")
}

func TestABackupThatIsGivenUpLeavesNothing(t *testing.T) {
	t.Parallel()
	s := newStore(t, Options{})
	mustClaim(t, s, "key")
	folder := t.TempDir()
	ctx, end := context.WithCancel(context.Background())
	end()
	_, err := Backup(ctx, s.info.Path, filepath.Join(folder, "copy.db"), false)
	require.ErrorIs(t, err, context.Canceled)
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	assert.Empty(t, left)
	mustClaim(t, s, "another key")
}

func TestABackupKeepsAnOlderVersion(t *testing.T) {
	t.Parallel()
	path, copied := newFirst(t), filepath.Join(t.TempDir(), "copy.db")
	held := everything(t, path)
	done, err := Backup(context.Background(), path, copied, false)
	require.NoError(t, err)
	assert.Equal(t, 1, done.Version)
	assert.Equal(t, held, everything(t, path), "it is not migrated")
	assert.Equal(t, held, everything(t, copied))
	openAndClose(t, copied)
	_, faults := verify(t, copied, true)
	assert.Empty(t, faults)
}

func TestABackupIsPutBackByManyAtOnce(t *testing.T) {
	t.Parallel()
	s := newStore(t, Options{})
	mustClaim(t, s, "key")
	copied := filepath.Join(t.TempDir(), "copy.db")
	_, err := Backup(context.Background(), s.info.Path, copied, false)
	require.NoError(t, err)
	runAll(t, 8, func() *exec.Cmd { return child(t, "open", copied) })
	assert.Equal(t, []string{"[wal]"}, texts(t, openFile(t, copied), "PRAGMA journal_mode"))
}

func TestWhoWritesTheFileFirstHasTheName(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	part, to := filepath.Join(folder, "part"), filepath.Join(folder, "copy.db")
	require.NoError(t, os.WriteFile(part, []byte("copy"), 0o600))
	require.NoError(t, os.WriteFile(to, []byte("came meanwhile"), 0o600))
	require.ErrorAs(t, publish(part, to, false), new(*BackupError))
	content, err := os.ReadFile(to)
	require.NoError(t, err)
	assert.Equal(t, "came meanwhile", string(content))
	require.NoError(t, publish(part, to, true))
	content, err = os.ReadFile(to)
	require.NoError(t, err)
	assert.Equal(t, "copy", string(content))
}

func TestVerifySeesADamagedPage(t *testing.T) {
	t.Parallel()
	s := newStore(t, Options{})
	for i := range 200 {
		mustClaim(t, s, string(rune('a'+i)))
	}
	require.NoError(t, s.Close())
	_, faults := verify(t, s.info.Path, true)
	require.Empty(t, faults)
	size := int64(4096)
	f, err := os.OpenFile(s.info.Path, os.O_RDWR, 0)
	require.NoError(t, err)
	info, err := f.Stat()
	require.NoError(t, err)
	garbage := make([]byte, size)
	for i := range garbage {
		garbage[i] = 0xa5
	}
	for at := info.Size() - 10*size; at < info.Size(); at += size { // the schema is further to the front
		_, err = f.WriteAt(garbage, at)
		require.NoError(t, err)
	}
	require.NoError(t, f.Close())
	_, faults = verify(t, s.info.Path, false)
	require.NotEmpty(t, faults)
	for _, fault := range faults {
		assert.Equal(t, FaultStructure, fault.Kind, "what is found behind damaged pages is their consequence")
	}
	copied := filepath.Join(t.TempDir(), "copy.db")
	_, err = Backup(context.Background(), s.info.Path, copied, false)
	require.Error(t, err)
	assert.NoFileExists(t, copied)
}

func TestVerifyEndsWithItsContextAndItsListener(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	openAndClose(t, path)
	execFile(t, path, "DROP TRIGGER events_stay; DROP TRIGGER rounds_stay")
	enough := errors.New("enough")
	done, err := Verify(context.Background(), path, VerifyOption{}, func(Fault) error { return enough })
	require.ErrorIs(t, err, enough)
	assert.Equal(t, 1, done.Faults)
	ctx, end := context.WithCancel(context.Background())
	end()
	_, err = Verify(ctx, path, VerifyOption{}, func(Fault) error { return nil })
	require.ErrorIs(t, err, context.Canceled)
}

func TestALedgerWithoutItsSecretIsNotSound(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	openAndClose(t, path)
	trigger := texts(t, openFile(t, path), "SELECT sql FROM sqlite_schema WHERE name = 'meta_stays'")[0]
	execFile(t, path, "DROP TRIGGER meta_stays; DELETE FROM meta; "+trigger[1:len(trigger)-1])
	_, faults := verify(t, path, false)
	assert.Equal(t, []Fault{{Kind: FaultReference, Problem: "the ledger's secret is not there: none of its keys can be found"}}, faults)
}

func TestShrinkCutsTheFile(t *testing.T) {
	t.Parallel()
	s := newStore(t, Options{})
	for i := range 8 {
		e := mustClaim(t, s, string(rune('a'+i)))
		for _, keep := range [][]byte{make([]byte, 1<<20), nil} {
			require.NoError(t, s.Move(context.Background(), e.ID, func(e dedup.Entry, now time.Time) (dedup.Change, bool) {
				e.State, e.Row, e.SettledAt, e.Result = dedup.Completed, 5, now, keep
				return dedup.Change{Entry: e, Event: dedup.Event{Row: 5, Attempt: 1, State: e.State}, Keep: true}, true
			}))
		}
	}
	var freed int64
	for more := true; more; {
		var bytes int64
		var err error
		bytes, more, err = s.Shrink(context.Background())
		require.NoError(t, err)
		freed += bytes
	}
	assert.Greater(t, freed, int64(900<<10))
	path := s.info.Path
	require.NoError(t, s.Close())
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Less(t, info.Size(), int64(500<<10))
	_, faults := verify(t, path, true)
	assert.Empty(t, faults)
}

func TestAPruneLeavesRoomForOthers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	s, err := Open(path, Options{})
	require.NoError(t, err)
	const n = 100
	for i := range n {
		e := mustClaim(t, s, "old "+string(rune('a'+i)))
		require.NoError(t, s.Move(context.Background(), e.ID, func(e dedup.Entry, now time.Time) (dedup.Change, bool) {
			e.State, e.Row, e.SettledAt, e.Window, e.Kept, e.Result = dedup.Completed, 5, now, 0, dedup.KeptWhole, []byte("{}")
			if i%2 == 0 {
				e.State, e.Row, e.Kept, e.Result = dedup.Released, 2, dedup.KeptNone, nil
			}
			return dedup.Change{Entry: e, Event: dedup.Event{Row: e.Row, Attempt: 1, State: e.State}, Keep: true}, true
		}))
	}
	l, err := dedup.New(context.Background(), s, dedup.Options{SweepEvery: time.Hour})
	require.NoError(t, err)
	other := startClaimer(t, path)
	other.goOn(t, 1)
	pruned := make(chan dedup.Pruned)
	go func() {
		defer close(pruned)
		if p, err := l.Prune(context.Background(), false); assert.NoError(t, err) {
			pruned <- p
		}
	}()
	meanwhile := 0
	var p dedup.Pruned
	for waiting := true; waiting; {
		select {
		case p = <-pruned:
			waiting = false
		default:
			other.goOn(t, 1)
			meanwhile++
		}
	}
	assert.Equal(t, n/2, p.Answers)
	assert.Equal(t, n/2, p.Released)
	assert.Positive(t, meanwhile)
	require.NoError(t, l.Close())
	_, faults := verify(t, path, true)
	assert.Empty(t, faults)
}

func TestARenameIsForGood(t *testing.T) {
	t.Parallel()
	conn := newFile(t)
	add := func(note string) error {
		return execute(conn, "INSERT OR REPLACE INTO renames VALUES ('a', '', 'b', '', 0, 'ada', ?)", note)
	}
	require.NoError(t, add("renamed"))
	require.ErrorContains(t, add("otherwise"), "renames are only appended")
	for _, statement := range []string{"UPDATE renames SET note = 'x'", "DELETE FROM renames"} {
		require.ErrorContains(t, execute(conn, statement), "renames are only appended", statement)
	}
	require.Error(t, execute(conn, "INSERT INTO renames VALUES ('a', '', 'c', '', 0, '', 'x')"), "without a name")
}
