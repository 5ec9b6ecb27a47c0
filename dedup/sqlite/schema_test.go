package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
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
	conn := openFile(t, path)
	mustExec(t, conn, "BEGIN") // and never committed
	return conn
}

func mustExec(t *testing.T, conn *sql.Conn, query string, args ...any) {
	t.Helper()
	require.NoError(t, execute(conn, query, args...), query)
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

// A step is what an update makes of an operation.
type step struct {
	to      dedup.State
	row     dedup.Row
	attempt int
	doubt   dedup.Row
	round   int
}

// lawful is the step by a row to a state, if the table or standing still allows
// it.
func lawful(e dedup.Entry, to dedup.State, row dedup.Row) (s step, ok bool) {
	s = step{to, row, e.Attempt, e.Doubt, e.Round}
	for _, m := range dedup.Moves {
		if m.From != e.State || m.To != to || m.Row != row ||
			(len(m.After) != 0 && !slices.Contains(m.After, e.Row)) || (len(m.Doubt) != 0 && !slices.Contains(m.Doubt, e.Doubt)) ||
			(m.FirstRound && e.Round != 0) {
			continue
		}
		switch {
		case m.NewAttempt && m.From == dedup.Unknown:
			s.attempt, s.doubt, s.round = e.Attempt+1, row, e.Round+1
		case m.NewAttempt:
			s.attempt, s.doubt, s.round = e.Attempt+1, 0, 0
		case to == dedup.Running:
			s.round++
		}
		return s, true
	}
	return s, to == e.State && row == e.Row
}

// standings puts operations in every state, by rows that matter and one that does
// not, in every doubt, in the first round and a later one.
func standings(t *testing.T, conn *sql.Conn) (all []dedup.Entry) {
	for state := dedup.Running; state <= dedup.Released; state++ {
		for _, row := range []dedup.Row{1, 2, 11, 14, 15, 16, 17} {
			for doubted := range 6 {
				e := running(fmt.Sprint(state, row, doubted))
				e.State, e.Row, e.Doubt, e.Round, e.Attempt = state, row, []dedup.Row{0, 16, 17}[doubted%3], doubted/3, 2
				if state != dedup.Running && state != dedup.AwaitingInput {
					e.SettledAt = epoch
				}
				put(t, conn, e)
				all = append(all, e)
			}
		}
	}
	return all
}

// TestTriggersHoldTheTable tries every step from every standing of an operation
// and expects what dedup.Moves says.
func TestTriggersHoldTheTable(t *testing.T) {
	t.Parallel()
	conn := newFile(t)
	var all []dedup.Entry
	without(t, conn, "operations_are_new", func() { all = standings(t, conn) })
	update, err := conn.PrepareContext(context.Background(), `UPDATE operations
		SET state = ?1, move = ?2, attempt = ?3, doubt = ?4, round = ?5, settled_at = iif(?1 IN (1, 2), NULL, 0) WHERE id = ?6`)
	require.NoError(t, err)
	defer update.Close()
	mustExec(t, conn, "SAVEPOINT standings")
	try := func(e dedup.Entry, s step) error {
		_, err := update.Exec(int(s.to), int(s.row), s.attempt, int(s.doubt), s.round, e.ID[:])
		if err == nil {
			mustExec(t, conn, "ROLLBACK TO standings")
		}
		return err
	}
	taken := 0
	for _, e := range all {
		for to := dedup.Running; to <= dedup.Released; to++ {
			for row := dedup.Row(0); row <= 20; row++ {
				right, ok := lawful(e, to, row)
				require.Equal(t, ok, try(e, right) == nil, "from %s by row %d in doubt %d: %+v", e.State, e.Row, e.Doubt, right)
				if !ok {
					continue
				}
				taken++
				otherDoubt := dedup.Row(16)
				if right.doubt == 16 {
					otherDoubt = 0
				}
				for _, wrong := range []step{
					{to, row, right.attempt + 1, right.doubt, right.round},
					{to, row, right.attempt - 1, right.doubt, right.round},
					{to, row, right.attempt, otherDoubt, right.round},
					{to, row, right.attempt, right.doubt, right.round + 1},
				} {
					require.Error(t, try(e, wrong), "from %s by row %d in doubt %d: %+v", e.State, e.Row, e.Doubt, wrong)
				}
			}
		}
	}
	require.Greater(t, taken, len(dedup.Moves))
}

// without drops a trigger while do runs.
func without(t *testing.T, conn *sql.Conn, trigger string, do func()) {
	var definition string
	require.NoError(t, conn.QueryRowContext(context.Background(), "SELECT sql FROM sqlite_schema WHERE name = ?", trigger).Scan(&definition))
	mustExec(t, conn, "DROP TRIGGER "+trigger)
	do()
	mustExec(t, conn, definition)
}

func TestOperationsBeginRunning(t *testing.T) {
	t.Parallel()
	conn := newFile(t)
	for state := dedup.Running; state <= dedup.Released; state++ {
		for row := dedup.Row(0); row <= 20; row++ {
			e := running(fmt.Sprint(state, row))
			e.State, e.Row = state, row
			if state != dedup.Running && state != dedup.AwaitingInput {
				e.SettledAt = epoch
			}
			lawful := slices.ContainsFunc(dedup.Moves, func(m dedup.Move) bool { return m.From == 0 && m.To == state && m.Row == row })
			mustExec(t, conn, "INSERT OR IGNORE INTO scopes (number, namespace, upstream, account, tool) VALUES (1, '', '', '', '')")
			err := execute(conn, insertOperation, append(names(&e, 1), changes(&e)...)...)
			require.Equal(t, lawful, err == nil, "%s by row %d: %v", state, row, err)
		}
	}
}

// TestSchemaRefuses tries to do by SQL what no operation may suffer.
func TestSchemaRefuses(t *testing.T) {
	t.Parallel()
	conn := newFile(t)
	e := running("kept")
	e.Downstream = "params.client_token"
	put(t, conn, e)
	mustExec(t, conn, "UPDATE operations SET task = zeroblob(32), task_status = 'failed'")
	mustExec(t, conn, "INSERT INTO rounds SELECT number, 1, 1, zeroblob(32), 0, '', zeroblob(32), x'7b7d' FROM operations")
	mustExec(t, conn, "UPDATE operations SET state = 2, move = 10")
	mustExec(t, conn, "UPDATE operations SET state = 1, move = 11, round = 1")
	mustExec(t, conn, "INSERT INTO scopes (number, namespace, upstream, account, tool) VALUES (2, 'other', '', '', '')")
	copyOf := func(id string) string {
		return "INSERT OR REPLACE INTO operations SELECT " + strings.Join(append([]string{id}, slices.Concat(naming[1:], changing)...), ", ") +
			" FROM operations"
	}
	for name, query := range map[string]string{
		"delete of a running operation":  "DELETE FROM operations",
		"replace of a running operation": copyOf("NULL, randomblob(16)"),
		"replace by number":              copyOf("number, id"),
		"another lookup":                 "UPDATE operations SET lookup = randomblob(32)",
		"another loose digest":           "UPDATE operations SET loose = randomblob(32)",
		"another id":                     "UPDATE operations SET id = randomblob(16)",
		"another number":                 "UPDATE operations SET number = 7",
		"another scope":                  "UPDATE operations SET scope = 2",
		"another first claim":            "UPDATE operations SET created_at = 1",
		"another key hint":               "UPDATE operations SET key_hint = 'x'",
		"other content":                  "UPDATE operations SET content = randomblob(32)",
		"other arguments":                "UPDATE operations SET fingerprint = randomblob(32)",
		"another algorithm":              "UPDATE operations SET fingerprint_version = 2",
		"another repeat":                 "UPDATE operations SET repeat_of = randomblob(16)",
		"another form downstream":        "UPDATE operations SET downstream = 'x'",
		"no form downstream any more":    "UPDATE operations SET downstream = ''",
		"open while running":             "UPDATE operations SET open_until = 1",
		"settled while running":          "UPDATE operations SET settled_at = 1",
		"a scope that does not exist":    "UPDATE operations SET scope = 3",
		"a state that does not exist":    "UPDATE operations SET state = 6, move = 5",
		"an empty result":                "UPDATE results SET body = x''",
		"too large a result":             "UPDATE results SET body = zeroblob(8388609)",
		"a result of nothing":            "INSERT INTO results VALUES (7, x'7b7d')",
		"an event changed":               "UPDATE events SET note = 'x'",
		"an event deleted":               "DELETE FROM events",
		"an event replaced":              "INSERT OR REPLACE INTO events SELECT * FROM events",
		"an event put before":            "INSERT INTO events SELECT operation, 0, move, attempt, state, at, actor, note FROM events",
		"another task":                   "UPDATE operations SET task = randomblob(32)",
		"no task any more":               "UPDATE operations SET task = NULL",
		"another end of a task":          "UPDATE operations SET task_status = 'completed'",
		"an end that tasks do not have":  "UPDATE operations SET task_status = 'working'",
		"another state of a question":    "UPDATE rounds SET state = randomblob(32)",
		"another question":               "UPDATE rounds SET question = x'7b207d'",
		"another form of a question":     "UPDATE rounds SET downstream = 'x'",
		"a round of another attempt":     "UPDATE rounds SET attempt = 2",
		"a round renumbered":             "UPDATE rounds SET number = 2",
		"a round deleted":                "DELETE FROM rounds",
		"a round replaced":               "INSERT OR REPLACE INTO rounds SELECT * FROM rounds",
		"a round put before":             "INSERT INTO rounds SELECT operation, 0, attempt, state, bare, downstream, answers, question FROM rounds",
		"a question of nothing":          "INSERT INTO rounds VALUES (7, 0, 1, zeroblob(32), 0, '', zeroblob(32), NULL)",
		"another secret":                 "UPDATE meta SET secret = randomblob(32)",
		"a second secret":                "INSERT OR REPLACE INTO meta VALUES (1, randomblob(32), 0)",
		"no secret":                      "DELETE FROM meta",
		"text for a number":              "UPDATE operations SET claimed_at = 'yesterday'",
	} {
		require.Error(t, execute(conn, query), name)
	}
	var untouched int
	require.NoError(t, conn.QueryRowContext(context.Background(),
		"SELECT count(*) FROM operations JOIN events ON operation = operations.number JOIN results USING (operation) JOIN rounds USING (operation) WHERE id = ?", e.ID[:]).Scan(&untouched))
	assert.Equal(t, 1, untouched)
}

// TestTheFormDownstreamIsHeld tries every form with every claim.
func TestTheFormDownstreamIsHeld(t *testing.T) {
	t.Parallel()
	conn := newFile(t)
	unknown, released := running("unknown"), running("released")
	unknown.Downstream, released.Downstream = "a form", "a form"
	put(t, conn, unknown)
	put(t, conn, released)
	mustExec(t, conn, "UPDATE operations SET state = 4, move = 8, settled_at = 0 WHERE id = ?", unknown.ID[:])
	mustExec(t, conn, "UPDATE operations SET state = 5, move = 2, settled_at = 0 WHERE id = ?", released.ID[:])
	mustExec(t, conn, "SAVEPOINT before")
	for name, c := range map[string]struct {
		of     dedup.Entry
		row    dedup.Row
		form   string
		lawful bool
	}{
		"row 1 keeps it":               {released, 1, "a form", true},
		"row 1 brings another":         {released, 1, "another", true},
		"row 1 brings none":            {released, 1, "", true},
		"row 1 brings the longest":     {released, 1, strings.Repeat("x", dedup.MaxDownstreamBytes), true},
		"row 1 brings one too long":    {released, 1, strings.Repeat("x", dedup.MaxDownstreamBytes+1), false},
		"bytes are counted, not runes": {released, 1, strings.Repeat("é", dedup.MaxDownstreamBytes/2+1), false},
		"row 16 keeps it":              {unknown, 16, "a form", true},
		"row 16 brings another":        {unknown, 16, "another", false},
		"row 16 ends it":               {unknown, 16, "", false},
		"row 17 keeps it":              {unknown, 17, "a form", true},
		"row 17 brings another":        {unknown, 17, "another", false},
		"row 17 ends it":               {unknown, 17, "", true},
	} {
		doubt := c.row
		if c.row == 1 {
			doubt = 0
		}
		err := execute(conn, "UPDATE operations SET state = 1, move = ?1, attempt = attempt + 1, doubt = ?2, round = ?2 > 0, settled_at = NULL, downstream = ?3 WHERE id = ?4",
			int(c.row), int(doubt), c.form, c.of.ID[:])
		require.Equal(t, c.lawful, err == nil, "%s: %v", name, err)
		mustExec(t, conn, "ROLLBACK TO before")
	}
}

func TestOnlyReleasedOperationsAreDeleted(t *testing.T) {
	t.Parallel()
	conn := newFile(t)
	put(t, conn, running("released"))
	mustExec(t, conn, "UPDATE operations SET state = 5, move = 2, settled_at = 0")
	mustExec(t, conn, "DELETE FROM operations")
	for _, table := range []string{"operations", "events", "results", "rounds"} {
		var left int
		require.NoError(t, conn.QueryRowContext(context.Background(), "SELECT count(*) FROM "+table).Scan(&left))
		assert.Zero(t, left, table)
	}
}

// TestIndexesServe makes sure that no query of a claim reads a table from end to
// end.
func TestIndexesServe(t *testing.T) {
	t.Parallel()
	conn := newFile(t)
	for name, query := range map[string]string{
		"surroundings": surroundingsQuery,
		"lone":         loneQuery,
		"one":          getQuery,
		"unsettled":    unsettledQuery,
		"overdue":      overdueQuery,
		"rounds":       roundsQuery,
		"list":         listQuery,
	} {
		rows, err := conn.QueryContext(context.Background(), "EXPLAIN QUERY PLAN "+query, 1, 2, 3, 4, 5, 6, 7, 8)
		require.NoError(t, err)
		for rows.Next() {
			var id, parent, unused int
			var detail string
			require.NoError(t, rows.Scan(&id, &parent, &unused, &detail))
			isScan := strings.HasPrefix(detail, "SCAN o") && !strings.Contains(detail, "INDEX")
			assert.False(t, isScan, "%s: %s", name, detail)
			if name == "overdue" {
				assert.NotContains(t, detail, "TEMP B-TREE", "it comes in order")
			}
			t.Log(name, detail)
		}
		require.NoError(t, errors.Join(rows.Err(), rows.Close()))
	}
}
