package sqlite

import (
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/dedup/storetest"
)

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(runChild())
	}
	flag.Parse()
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		_ = checks.Value.Set(modelChecks) // every history makes several files
	}
	goleak.VerifyTestMain(m)
}

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, newLedger)
}

func TestStoreEqualsReference(t *testing.T) {
	t.Parallel()
	storetest.RunModel(t, newLedger)
}

func newLedger(t storetest.T, now func() time.Time) storetest.Ledger {
	return &ledger{path: filepath.Join(tempDir(t), "ledger.db"), now: now}
}

func tempDir(t storetest.T) string {
	folder, err := os.MkdirTemp("", "ledger")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })
	return folder
}

// A ledger is a file that several stores of this process have open.
type ledger struct {
	path string
	now  func() time.Time
}

func (l *ledger) Open(t storetest.T) dedup.Store {
	s, err := Open(l.path, Options{Now: l.now})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() }) // it may have been killed
	return s
}

func (l *ledger) Kill(t storetest.T, s dedup.Store) { require.NoError(t, s.(*Store).kill()) }

// LosePower goes on with what stands in the files at this moment, as the next
// start of the machine would; the stores that are open keep the old files.
// Whether commits are synced is for tests that watch the system calls.
func (l *ledger) LosePower(t storetest.T) {
	folder := tempDir(t)
	for _, suffix := range []string{"", "-wal"} {
		content, err := os.ReadFile(l.path + suffix)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(folder, "ledger.db"+suffix), content, 0o600))
	}
	require.NoError(t, os.CopyFS(filepath.Join(folder, "ledger.db-owners"), os.DirFS(l.path+"-owners")))
	l.path = filepath.Join(folder, "ledger.db")
}

// kill ends a store as SIGKILL would its process: the tallies are lost, and the
// lock on the owner's file ends, but the file stays.
func (s *Store) kill() error {
	s.tallies.take()
	lost := *s.owners
	s.owners.lock = nil
	if err := s.Close(); err != nil {
		return err
	}
	return lost.kill()
}

// kill lets the lock go without the file, and waits until it is free. A child that
// another test is starting has a copy of it for a moment more: the system lets the
// parent go on before it closes what the child shall not have (execve(2)).
func (o *owners) kill() error {
	err := o.lock.Close()
	o.lock = nil
	for alive := true; alive && err == nil; runtime.Gosched() {
		alive, err = o.alive(o.self)
	}
	return err
}
