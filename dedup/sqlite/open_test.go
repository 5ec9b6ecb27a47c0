package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOpenSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		make    func(t *testing.T, path string) // puts something at the path
		options Options
		problem string
	}{
		"a folder": {
			func(t *testing.T, path string) { require.NoError(t, os.Mkdir(path, 0o700)) }, Options{}, "is a folder",
		},
		"a folder that is a file": {
			func(t *testing.T, path string) { require.NoError(t, os.WriteFile(filepath.Dir(path), nil, 0o600)) }, Options{}, "has no folder",
		},
		"no database": {
			func(t *testing.T, path string) {
				require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("no database ", 500)), 0o600))
			}, Options{}, "is not a ledger",
		},
		"another program's database": {
			func(t *testing.T, path string) { execFile(t, path, "CREATE TABLE t (x)") }, Options{}, "is another program's",
		},
		"another program's empty database": {
			func(t *testing.T, path string) { execFile(t, path, "PRAGMA application_id=7") }, Options{}, "is another program's",
		},
		"a newer ledger": {
			func(t *testing.T, path string) { makeFile(t, path, "PRAGMA user_version=6") }, Options{}, "has schema version 6, and this program knows 5",
		},
		"a ledger without a version": {
			func(t *testing.T, path string) { makeFile(t, path, "PRAGMA user_version=0") }, Options{}, "has schema version 0, and this program knows 5",
		},
		"a ledger of a version below the first": {
			func(t *testing.T, path string) { makeFile(t, path, "PRAGMA user_version=-1") }, Options{}, "has schema version -1, and this program knows 5",
		},
		"a damaged ledger": {damage, Options{}, "is damaged"},
		"a locked ledger":  {lockFile, Options{BusyTimeout: time.Millisecond}, "is locked"},
		"a link to nothing": {
			func(t *testing.T, path string) { require.NoError(t, os.Symlink("nothing.db", path)) }, Options{}, "is a link to a file that does not exist",
		},
		"a link to itself": {
			func(t *testing.T, path string) { require.NoError(t, os.Symlink(path, path)) }, Options{}, "cannot be opened",
		},
		"a ledger with two names": {
			func(t *testing.T, path string) {
				makeFile(t, path, "PRAGMA wal_checkpoint")
				require.NoError(t, os.Link(path, path+".also"))
			}, Options{}, "is one file under 2 names",
		},
		"a log whose file is away": {
			func(t *testing.T, path string) {
				require.NoError(t, os.WriteFile(path+"-wal", []byte("what was committed last"), 0o600))
			}, Options{}, "is not there, or is empty, and its write-ahead log is there",
		},
		"a log whose file is empty": {
			func(t *testing.T, path string) {
				require.NoError(t, os.WriteFile(path+"-wal", []byte("what was committed last"), 0o600))
				require.NoError(t, os.WriteFile(path, nil, 0o600))
			}, Options{}, "is not there, or is empty, and its write-ahead log is there",
		},
		"owners that are a file": {
			func(t *testing.T, path string) { require.NoError(t, os.WriteFile(path+"-owners", nil, 0o600)) }, Options{}, "cannot be opened",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root, err := filepath.EvalSymlinks(t.TempDir())
			require.NoError(t, err)
			path := filepath.Join(root, "folder", "ledger.db")
			if name != "a folder that is a file" {
				require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))
			}
			c.make(t, path)
			_, err = Open(path, c.options)
			var wrong *OpenError
			require.ErrorAs(t, err, &wrong)
			assert.Contains(t, wrong.Problem, c.problem)
			assert.Equal(t, path, wrong.Path)
			assert.NotEmpty(t, wrong.Remedy)
			assert.NotContains(t, err.Error(), "\n", "one line")
		})
	}
}

func TestOpenNeedsRights(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root may write everything")
	}
	for name, protect := range map[string]func(t *testing.T, path string){
		"a folder that cannot be written": func(t *testing.T, path string) {
			require.NoError(t, os.Chmod(filepath.Dir(path), 0o500))
			t.Cleanup(func() { require.NoError(t, os.Chmod(filepath.Dir(path), 0o700)) })
		},
		"a ledger that cannot be written": func(t *testing.T, path string) {
			makeFile(t, path, "PRAGMA wal_checkpoint")
			require.NoError(t, os.Chmod(path, 0o400))
		},
		"a ledger that cannot be read": func(t *testing.T, path string) {
			makeFile(t, path, "PRAGMA wal_checkpoint")
			require.NoError(t, os.Chmod(path, 0))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ledger.db")
			protect(t, path)
			_, err := Open(path, Options{})
			var wrong *OpenError
			require.ErrorAs(t, err, &wrong)
			assert.Equal(t, "cannot be written", wrong.Problem)
		})
	}
}

// execFile runs SQL on a file that is no ledger.
func execFile(t *testing.T, path, query string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+escaped(path))
	require.NoError(t, err)
	_, err = db.Exec(query)
	require.NoError(t, errors.Join(err, db.Close()))
}

// makeFile makes a ledger, and then runs SQL on it.
func makeFile(t *testing.T, path, query string) {
	t.Helper()
	s, err := Open(path, Options{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	execFile(t, path, query)
}

// damage writes over the schema of a ledger.
func damage(t *testing.T, path string) {
	makeFile(t, path, "PRAGMA wal_checkpoint")
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte(strings.Repeat("\xff", 1000)), 100)
	require.NoError(t, errors.Join(err, f.Close()))
}

// lockFile holds the lock of a file of which nothing is known yet.
func lockFile(t *testing.T, path string) {
	db, err := sql.Open("sqlite", "file:"+escaped(path))
	require.NoError(t, err)
	conn, err := db.Conn(context.Background())
	require.NoError(t, err)
	mustExec(t, conn, "BEGIN EXCLUSIVE")
	t.Cleanup(func() { require.NoError(t, errors.Join(conn.Close(), db.Close())) })
}

func TestOpenTakesAnyPath(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a b%20c?mode=memory#d&e", "l'edger;.db")
	s, err := Open(path, Options{})
	require.NoError(t, err)
	mustClaim(t, s, "key")
	require.NoError(t, s.Close())
	require.FileExists(t, path)
	s, err = Open(path, Options{})
	require.NoError(t, err)
	around, err := s.Find(context.Background(), queryOf("key"))
	require.NoError(t, err)
	assert.NotNil(t, around.Same)
	require.NoError(t, s.Close())
}

// TestConnectionsAreSetUp asks the connections what they will do.
func TestConnectionsAreSetUp(t *testing.T) {
	t.Parallel()
	s := newStore(t, Options{BusyTimeout: 1234 * time.Millisecond})
	for pragma, want := range map[string]string{
		"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1", "busy_timeout": "1234", "auto_vacuum": "2",
		"wal_autocheckpoint": "1000", "journal_size_limit": "16777216", "application_id": "1835231588", "user_version": "5",
	} {
		writer := s.writer.session.conn
		require.NoError(t, s.readers.use(context.Background(), func(reader *connection) error {
			for name, conn := range map[string]*connection{"writer": writer, "reader": reader} {
				var got any
				require.NoError(t, conn.query(context.Background(), "PRAGMA "+pragma, func(c *columns) error {
					got = next[any](c)
					return nil
				}))
				assert.Equal(t, want, fmt.Sprint(got), "%s of the %s", pragma, name)
			}
			return nil
		}))
	}
	require.Error(t, s.readers.use(context.Background(), func(reader *connection) error {
		_, err := reader.exec("DELETE FROM tallies")
		return err
	}), "readers only read")
}
