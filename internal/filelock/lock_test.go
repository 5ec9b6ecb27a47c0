package filelock_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/filelock"
)

func TestALockIsHeldUntilItsFileIsClosed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		require.NoError(t, err)
		return f
	}
	held := func() bool {
		f := open()
		defer f.Close()
		held, err := filelock.Held(f)
		require.NoError(t, err)
		return held
	}
	assert.False(t, held())
	holder := open()
	require.NoError(t, filelock.Lock(holder))
	assert.True(t, held())
	assert.True(t, held(), "looking takes nothing away")
	require.NoError(t, holder.Close())
	assert.False(t, held())
}
