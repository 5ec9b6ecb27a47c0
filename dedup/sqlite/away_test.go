package sqlite

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// A connection that is opened while the file is away must not make another one: SQLite
// would remove the log beside it, and with that what was committed last.
func TestNoConnectionIsOpenedToAFileThatIsAway(t *testing.T) {
	t.Parallel()
	for name, takeAway := range map[string]func(t *testing.T, path string){
		"moved": func(t *testing.T, path string) { require.NoError(t, os.Rename(path, path+".away")) },
		"replaced by an empty one": func(t *testing.T, path string) {
			require.NoError(t, os.Rename(path, path+".away"))
			require.NoError(t, os.WriteFile(path, nil, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "ledger.db")
			s, err := Open(path, Options{})
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, s.Close()) })
			require.NoError(t, s.write(context.Background(), func(tx *session) (outcome, error) {
				return outcome{wrote: dedup.OperationID{1}}, tx.exec("CREATE TABLE committed_last (x)")
			}))
			log, err := os.ReadFile(s.info.Path + "-wal")
			require.NoError(t, err)
			require.NotEmpty(t, log)

			takeAway(t, s.info.Path)
			refused := 0
			for range 2 * maxReaders {
				if _, err := s.readers.info(); err != nil {
					require.ErrorIs(t, err, ErrReplaced)
					refused++
				}
			}
			assert.Positive(t, refused, "each read had a connection already")
			still, err := os.ReadFile(s.info.Path + "-wal")
			require.NoError(t, err)
			assert.Equal(t, log, still)
			require.NoError(t, os.Rename(s.info.Path+".away", s.info.Path))
		})
	}
}
