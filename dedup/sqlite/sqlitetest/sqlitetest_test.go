package sqlitetest_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/dedup/sqlite"
	"github.com/mcp-idem/mcp-idem/dedup/sqlite/sqlitetest"
)

// TestFilledOperationsAreOperations reads what Fill made as a gateway would.
func TestFilledOperationsAreOperations(t *testing.T) {
	t.Parallel()
	const each = 50
	path := filepath.Join(t.TempDir(), "ledger.db")
	require.NoError(t, sqlitetest.Fill(path, each))
	require.NoError(t, sqlitetest.Fill(path, each))
	queries, err := sqlitetest.Sample(path, 2*each)
	require.NoError(t, err)
	s, err := sqlite.Open(path, sqlite.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	for _, q := range queries {
		around, err := s.Find(context.Background(), q)
		require.NoError(t, err)
		require.NotNil(t, around.Same)
		assert.Equal(t, dedup.KeptDropped, around.Same.Kept)
		events, err := s.History(context.Background(), around.Same.ID)
		require.NoError(t, err)
		assert.Len(t, events, 3)
	}
	e := dedup.Entry{}
	require.Error(t, s.Claim(context.Background(), dedup.Query{}, func(dedup.Surroundings) (dedup.Change, bool) {
		e.ID = dedup.NewOperationID()
		return dedup.Change{Entry: e}, true
	}), "the triggers are back")
	unsettled, err := s.Unsettled(context.Background())
	require.NoError(t, err)
	assert.Empty(t, unsettled)
}
