package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// TestAKilledProcessForgetsNothing kills a process that claims in a loop: every
// claim that it was acknowledged is there, and its owner is dead.
func TestAKilledProcessForgetsNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	for range 5 {
		cmd := child(t, "claim for ever", path)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		var keys []string
		lines := bufio.NewScanner(out)
		for len(keys) < 20 && lines.Scan() {
			keys = append(keys, lines.Text())
		}
		require.NoError(t, cmd.Process.Kill())
		for lines.Scan() { // what it had still said
			keys = append(keys, lines.Text())
		}
		require.Error(t, cmd.Wait(), "killed")
		s, err := Open(path, Options{})
		require.NoError(t, err)
		for _, key := range keys {
			around, err := s.Find(context.Background(), queryOf(key))
			require.NoError(t, err)
			require.NotNil(t, around.Same, key)
			alive, err := s.Alive(around.Same.Owner)
			require.NoError(t, err)
			require.False(t, alive)
		}
		require.NoError(t, s.Close())
	}
}

// TestOneProcessWinsEachKey has eight processes start at once on a ledger that
// does not exist, and claim the same keys.
func TestOneProcessWinsEachKey(t *testing.T) {
	t.Parallel()
	const processes, keys = 8, 40
	path := filepath.Join(t.TempDir(), "made by all", "ledger.db")
	won := map[string]int{}
	outputs := runAll(t, processes, func() *exec.Cmd { return child(t, "claim each", path, fmt.Sprint(keys)) })
	for _, out := range outputs {
		for key := range strings.Lines(out) {
			won[strings.TrimSpace(key)]++
		}
	}
	assert.Len(t, won, keys)
	for key, n := range won {
		assert.Equal(t, 1, n, key)
	}
	s, err := Open(path, Options{})
	require.NoError(t, err)
	unsettled, err := s.Unsettled(context.Background())
	require.NoError(t, err)
	assert.Len(t, unsettled, keys)
	require.NoError(t, s.Close())
}

// TestProcessesMakeALedgerTogether lets many make it at once, a few times, since
// the moment in which they meet is short.
func TestProcessesMakeALedgerTogether(t *testing.T) {
	t.Parallel()
	for range 5 {
		folder := filepath.Join(t.TempDir(), "new")
		path := filepath.Join(folder, "ledger.db")
		runAll(t, 8, func() *exec.Cmd { return child(t, "open", path) })
		left, err := os.ReadDir(path + "-owners")
		require.NoError(t, err)
		assert.Empty(t, left, "each removed its own lock")
		requireMode(t, 0o700, folder)
		requireMode(t, 0o700, path+"-owners")
		requireMode(t, 0o600, path)
	}
}

func requireMode(t *testing.T, want os.FileMode, path string) {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, want, info.Mode().Perm(), path)
}

// runAll runs n processes at once and returns what they printed.
func runAll(t *testing.T, n int, command func() *exec.Cmd) (outputs []string) {
	t.Helper()
	var cmds []*exec.Cmd
	var outs []*strings.Builder
	for range n {
		cmd, out := command(), &strings.Builder{}
		cmd.Stdout = out
		require.NoError(t, cmd.Start())
		cmds, outs = append(cmds, cmd), append(outs, out)
	}
	for i, cmd := range cmds {
		require.NoError(t, cmd.Wait())
		outputs = append(outputs, outs[i].String())
	}
	return outputs
}

func TestTheDeadAreClearedAway(t *testing.T) {
	t.Parallel()
	s := newStore(t, Options{})
	killed, err := Open(s.info.Path, Options{})
	require.NoError(t, err)
	require.NoError(t, killed.kill())
	require.FileExists(t, s.owners.file(killed.info.Owner))
	stranger := filepath.Join(s.owners.folder, "notes.txt")
	require.NoError(t, os.WriteFile(stranger, nil, 0o600))
	late, err := Open(s.info.Path, Options{})
	require.NoError(t, err)
	assert.NoFileExists(t, s.owners.file(killed.info.Owner))
	assert.FileExists(t, s.owners.file(s.info.Owner))
	assert.FileExists(t, stranger)
	require.NoError(t, late.Close())
}

func TestDoubtAboutAnOwnerIsAnError(t *testing.T) {
	t.Parallel()
	s := newStore(t, Options{})
	owner := dedup.NewOwnerID()
	require.NoError(t, os.Symlink(s.owners.file(owner), s.owners.file(owner))) // to itself
	_, err := s.Alive(owner)
	require.Error(t, err)
}
