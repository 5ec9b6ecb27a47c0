package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
)

func newStore(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "ledger.db"), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// held keeps the writer busy until release is called, so that what comes
// meanwhile waits together.
func held(t *testing.T, s *Store) (release func()) {
	t.Helper()
	begun, end := make(chan struct{}), make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		assert.NoError(t, s.write(context.Background(), func(*session) (outcome, error) {
			close(begun)
			<-end
			return outcome{}, nil
		}))
	})
	<-begun
	return func() {
		close(end)
		done.Wait()
	}
}

// together runs calls so that they are one group, in some order.
func together(t *testing.T, s *Store, calls ...func()) {
	t.Helper()
	release := held(t, s)
	var all sync.WaitGroup
	for _, call := range calls {
		all.Go(call)
	}
	require.Eventually(t, func() bool { return len(s.writer.queue) == len(calls) }, 10*time.Second, time.Millisecond)
	release()
	all.Wait()
}

func TestWritesThatWaitShareACommit(t *testing.T) {
	t.Parallel()
	s := newStore(t, Options{})
	before := s.writer.commits.Load()
	var calls []func()
	for i := range 64 {
		calls = append(calls, func() { mustClaim(t, s, fmt.Sprint(i)) })
	}
	together(t, s, calls...)
	assert.Equal(t, int64(1), s.writer.commits.Load()-before)
}

func TestWritesOfOneGroupSeeEachOther(t *testing.T) {
	t.Parallel()
	s := newStore(t, Options{})
	var wins [8]bool
	var calls []func()
	for i := range wins {
		calls = append(calls, func() {
			var err error
			wins[i], err = tryClaim(s, "the same")
			assert.NoError(t, err)
		})
	}
	together(t, s, calls...)
	won := 0
	for _, w := range wins {
		if w {
			won++
		}
	}
	assert.Equal(t, 1, won)
}

func TestAWriteThatFailsSpoilsNoOther(t *testing.T) {
	t.Parallel()
	s := newStore(t, Options{})
	e := mustClaim(t, s, "spoiler")
	var spoilt error
	calls := []func(){func() {
		spoilt = s.Move(context.Background(), e.ID, func(e dedup.Entry, _ time.Time) (dedup.Change, bool) {
			e.State = dedup.Released // by row 1
			return dedup.Change{Entry: e}, true
		})
	}}
	for i := range 8 {
		calls = append(calls, func() { mustClaim(t, s, fmt.Sprint(i)) })
	}
	together(t, s, calls...)
	require.Error(t, spoilt)
	require.NotErrorIs(t, spoilt, dedup.ErrAmbiguous)
	same, err := s.Get(context.Background(), e.ID)
	require.NoError(t, err)
	assert.Equal(t, e, same)
}

func TestReadingWritesNothing(t *testing.T) {
	t.Parallel()
	s := newStore(t, Options{})
	mustClaim(t, s, "key")
	before := s.writer.commits.Load()
	won, err := tryClaim(s, "key")
	require.NoError(t, err)
	require.False(t, won)
	require.ErrorIs(t, s.Move(context.Background(), dedup.NewOperationID(), nil), dedup.ErrNotFound)
	assert.Equal(t, before, s.writer.commits.Load())
}

func TestTalliesWaitForACommit(t *testing.T) {
	t.Parallel()
	s := newStore(t, Options{})
	e := mustClaim(t, s, "key")
	before := s.writer.commits.Load()
	for range 100 {
		s.Tally(dedup.Tally{Kind: dedup.TallyReplay, Operation: e.ID})
	}
	assert.Equal(t, before, s.writer.commits.Load(), "they do not hurry")
	require.Eventually(t, func() bool { return s.writer.commits.Load() > before }, 10*time.Second, 10*time.Millisecond)
	e, err := s.Get(context.Background(), e.ID)
	require.NoError(t, err)
	assert.Equal(t, 100, e.Replays, "and are not forgotten")
}

func TestACallerMayGiveUpBeforeTheWriterBegins(t *testing.T) {
	t.Parallel()
	s := newStore(t, Options{})
	release := held(t, s)
	ctx, cancel := context.WithCancel(context.Background())
	given := make(chan error)
	go func() {
		given <- s.Claim(ctx, queryOf("key"), func(around dedup.Surroundings) (dedup.Change, bool) {
			return newChange(s, queryOf("key"), around), true
		})
	}()
	require.Eventually(t, func() bool { return len(s.writer.queue) == 1 }, 10*time.Second, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-given, context.Canceled)
	release()
	around, err := s.Find(context.Background(), queryOf("key"))
	require.NoError(t, err)
	assert.Nil(t, around.Same)
}

func TestAWriteThatBeganIsFinished(t *testing.T) {
	t.Parallel()
	s := newStore(t, Options{})
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(t, s.Claim(ctx, queryOf("key"), func(around dedup.Surroundings) (dedup.Change, bool) {
		cancel()
		return newChange(s, queryOf("key"), around), true
	}))
	around, err := s.Find(context.Background(), queryOf("key"))
	require.NoError(t, err)
	assert.NotNil(t, around.Same)
}

// TestAnOverdueResultIsNotLoaded asks the statements themselves, since what they
// load past the window is not shown.
func TestAnOverdueResultIsNotLoaded(t *testing.T) {
	t.Parallel()
	s := newStore(t, Options{})
	e := mustClaim(t, s, "key")
	require.NoError(t, complete(s, e.ID))
	e, err := s.Get(context.Background(), e.ID)
	require.NoError(t, err)
	end := e.SettledAt.Add(e.Window).UnixMilli()
	for at, want := range map[int64][]byte{end - 1: result, end: nil} {
		for query, args := range map[string][]any{
			getQuery:          {e.ID[:], at},
			surroundingsQuery: {e.Loose[:], e.Lookup[:], e.Content[:], nil, nil, dedup.MaxTwins, at, at / hour},
		} {
			require.NoError(t, s.readers.one(context.Background(), query, func(c *columns) error {
				c.left = c.left[len(c.left)-1:]
				assert.Equal(t, want, c.blob())
				return nil
			}, args...))
		}
	}
}

// lockedOut holds the ledger's write lock until the test ends or release is
// called.
func lockedOut(t *testing.T, s *Store) (release func()) {
	t.Helper()
	db, err := sql.Open("sqlite", dsn(s.info.Path, toWrite, Options{BusyTimeout: time.Second}))
	require.NoError(t, err)
	conn, err := db.Conn(context.Background())
	require.NoError(t, err)
	mustExec(t, conn, "BEGIN IMMEDIATE")
	release = sync.OnceFunc(func() { assert.NoError(t, errors.Join(conn.Close(), db.Close())) })
	t.Cleanup(release)
	return release
}

func TestALockedLedgerFailsWithNothingWritten(t *testing.T) {
	t.Parallel()
	s := newStore(t, Options{BusyTimeout: 10 * time.Millisecond})
	release := lockedOut(t, s)
	_, err := tryClaim(s, "key")
	require.Error(t, err)
	require.NotErrorIs(t, err, dedup.ErrAmbiguous)
	_, err = s.Find(context.Background(), queryOf("key"))
	require.NoError(t, err, "reading goes on")
	release()
	mustClaim(t, s, "key")
}

func TestAnotherSchemaIsNotWritten(t *testing.T) {
	t.Parallel()
	s := newStore(t, Options{})
	for found, remedy := range map[int]string{
		schemaVersion + 1: "use the newer program everywhere",
		schemaVersion - 1: "restart, so that it is migrated",
		oldestVersion - 1: "put back a backup",
	} {
		setVersion(t, s.info.Path, found)
		_, err := tryClaim(s, "key")
		var version *VersionError
		require.ErrorAs(t, err, &version)
		assert.Equal(t, VersionError{Found: found, Known: schemaVersion}, *version)
		assert.ErrorContains(t, err, remedy)
	}
	setVersion(t, s.info.Path, schemaVersion)
	mustClaim(t, s, "key")
}

// setVersion gives a ledger another version from outside.
func setVersion(t *testing.T, path string, version int) {
	t.Helper()
	db, err := sql.Open("sqlite", dsn(path, toWrite, Options{BusyTimeout: time.Second}))
	require.NoError(t, err)
	_, err = db.Exec(fmt.Sprintf("PRAGMA user_version=%d", version))
	require.NoError(t, errors.Join(err, db.Close()))
}

func TestAReplacedFileIsNotWritten(t *testing.T) {
	t.Parallel()
	s := newStore(t, Options{})
	moved := s.info.Path + ".moved"
	require.NoError(t, os.Rename(s.info.Path, moved))
	_, err := tryClaim(s, "key")
	require.ErrorIs(t, err, ErrReplaced)
	require.NoError(t, os.WriteFile(s.info.Path, nil, 0o600))
	_, err = tryClaim(s, "key")
	require.ErrorIs(t, err, ErrReplaced)
	require.NoError(t, os.Rename(moved, s.info.Path))
	mustClaim(t, s, "key")
}

// TestAFullDiskFailsAndRecovers limits the file instead of the disk: SQLite
// answers the same (SQLITE_FULL).
func TestAFullDiskFailsAndRecovers(t *testing.T) {
	t.Parallel()
	s := newStore(t, Options{})
	e := mustClaim(t, s, "key")
	limit := func(pages int) {
		require.NoError(t, s.write(context.Background(), func(tx *session) (outcome, error) {
			return outcome{}, tx.exec(fmt.Sprintf("PRAGMA max_page_count=%d", pages))
		}))
	}
	complete := func(size int) error {
		return s.Move(context.Background(), e.ID, func(e dedup.Entry, now time.Time) (dedup.Change, bool) {
			e.State, e.Row, e.SettledAt, e.Result = dedup.Completed, 5, now, make([]byte, size)
			return dedup.Change{Entry: e, Event: dedup.Event{Row: 5, Attempt: 1, State: e.State}, Keep: true}, true
		})
	}
	limit(1) // as small as it is
	require.ErrorContains(t, complete(1<<20), "full")
	limit(1 << 30)
	mustClaim(t, s, "another")
	require.NoError(t, complete(1<<20))
}

func TestAClosedStoreRefuses(t *testing.T) {
	t.Parallel()
	s := newStore(t, Options{})
	e := mustClaim(t, s, "key")
	waiting := make(chan error, 1)
	go func() { waiting <- s.Await(context.Background(), e) }()
	require.Eventually(t, func() bool {
		s.watch.mu.Lock()
		defer s.watch.mu.Unlock()
		return len(s.watch.waiting) == 1
	}, 10*time.Second, time.Millisecond)
	require.NoError(t, s.Close())
	require.NoError(t, s.Close(), "twice does no harm")
	require.ErrorIs(t, <-waiting, ErrClosed)
	_, err := tryClaim(s, "key")
	require.ErrorIs(t, err, ErrClosed)
}

// TestAFailedCommitIsAmbiguous ends the transaction under the writer, as SQLite
// does on some errors, so that the commit fails.
func TestAFailedCommitIsAmbiguous(t *testing.T) {
	t.Parallel()
	s := newStore(t, Options{})
	var wrote, read error
	together(t, s, func() {
		wrote = s.write(context.Background(), func(tx *session) (outcome, error) {
			_ = tx.undo()
			return outcome{wrote: dedup.NewOperationID()}, nil
		})
	}, func() {
		read = s.write(context.Background(), func(*session) (outcome, error) { return outcome{}, nil })
	})
	require.ErrorIs(t, wrote, dedup.ErrAmbiguous)
	require.Error(t, read, "what it read may never have been")
	require.NotErrorIs(t, read, dedup.ErrAmbiguous, "it wrote nothing")
	mustClaim(t, s, "goes on")
}

// TestWhatTheWriterRemembersIsWhatStands settles operations that the writer claimed
// itself, after somebody else has written them, and after its transaction failed.
func TestWhatTheWriterRemembersIsWhatStands(t *testing.T) {
	t.Parallel()
	s := newStore(t, Options{})
	e := mustClaim(t, s, "key")
	require.Contains(t, s.writer.session.recent.rows, e.ID)
	sees := func(want dedup.Entry) {
		t.Helper()
		require.NoError(t, s.Move(context.Background(), e.ID, func(stands dedup.Entry, _ time.Time) (dedup.Change, bool) {
			assert.Equal(t, want, stands)
			return dedup.Change{}, false
		}))
	}
	sees(e)

	other, err := Open(s.info.Path, Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Close()) }()
	lose := func(s *Store) error {
		return s.Move(context.Background(), e.ID, func(e dedup.Entry, now time.Time) (dedup.Change, bool) {
			e.State, e.Row, e.SettledAt, e.OpenUntil = dedup.Unknown, 8, now, now.Add(time.Hour)
			return dedup.Change{Entry: e, Event: dedup.Event{Row: 8, Attempt: 1, State: e.State}}, true
		})
	}
	require.NoError(t, lose(other))
	stands, err := s.Get(context.Background(), e.ID)
	require.NoError(t, err)
	require.Equal(t, dedup.Unknown, stands.State)
	sees(stands)

	require.Error(t, s.write(context.Background(), func(tx *session) (outcome, error) {
		r, err := tx.find(e.ID)
		require.NoError(t, err)
		r.entry.OpenUntil = time.Time{}
		require.NoError(t, tx.change(row{r.number, stands}, dedup.Change{Entry: r.entry, Event: dedup.Event{State: dedup.Unknown}}, s.now()))
		return outcome{}, errors.New("given up")
	}))
	sees(stands)

	s.Tally(dedup.Tally{Kind: dedup.TallyReplay, Operation: e.ID})
	mustClaim(t, s, "another") // and with it the count
	stands.Replays++
	sees(stands)
}
