package sqlite

import (
	"bufio"
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// firstLedger makes a ledger of the first schema version, with operations in it.
//
//go:embed testdata/v1.sql
var firstLedger string

// fourthLedger makes one of the last version before renames.
//
//go:embed testdata/v4.sql
var fourthLedger string

// newFirst makes a ledger of the first version.
func newFirst(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "ledger.db")
	execFile(t, path, firstLedger)
	return path
}

// openFile returns a connection to a file that no Store uses.
func openFile(t *testing.T, path string) *sql.Conn {
	t.Helper()
	db, err := sql.Open("sqlite", dsn(path, toWrite, Options{BusyTimeout: time.Second}))
	require.NoError(t, err)
	conn, err := db.Conn(context.Background())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, errors.Join(conn.Close(), db.Close())) })
	return conn
}

// texts are the rows of a query, as text.
func texts(t *testing.T, conn *sql.Conn, query string) (all []string) {
	t.Helper()
	rows, err := conn.QueryContext(context.Background(), query)
	require.NoError(t, err)
	defer rows.Close()
	columns, err := rows.Columns()
	require.NoError(t, err)
	for rows.Next() {
		values, targets := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			targets[i] = &values[i]
		}
		require.NoError(t, rows.Scan(targets...))
		all = append(all, fmt.Sprintf("%v", values))
	}
	require.NoError(t, rows.Err())
	return all
}

var spaces = regexp.MustCompile(`\s+`)

// schemaOf is what a file's tables, indexes and triggers are made of, but for the
// white space.
func schemaOf(t *testing.T, path string) []string {
	t.Helper()
	conn := openFile(t, path)
	all := texts(t, conn, "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name")
	for i := range all {
		all[i] = spaces.ReplaceAllString(all[i], " ")
	}
	return append(all, texts(t, conn, "PRAGMA user_version")...)
}

func openAndClose(t *testing.T, path string) {
	t.Helper()
	s, err := Open(path, Options{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
}

func TestAMigratedLedgerHasTheNewestSchema(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		golden     string
		operations int
	}{"version 1": {firstLedger, 5}, "version 4": {fourthLedger, 9}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fresh, migrated := filepath.Join(t.TempDir(), "ledger.db"), filepath.Join(t.TempDir(), "ledger.db")
			execFile(t, migrated, c.golden)
			before := schemaOf(t, migrated)
			openAndClose(t, fresh)
			openAndClose(t, migrated)
			require.NotEqual(t, before, schemaOf(t, migrated))
			require.Equal(t, schemaOf(t, fresh), schemaOf(t, migrated))
			done, faults := verify(t, migrated, true)
			assert.Empty(t, faults)
			assert.Equal(t, c.operations, done.Operations)
			again := texts(t, openFile(t, migrated), "PRAGMA schema_version")
			openAndClose(t, migrated)
			assert.Equal(t, again, texts(t, openFile(t, migrated), "PRAGMA schema_version"), "it is migrated once")
		})
	}
}

// everything is what a ledger holds, by table.
func everything(t *testing.T, path string) map[string][]string {
	t.Helper()
	conn, held := openFile(t, path), map[string][]string{}
	for _, table := range []string{"meta", "scopes", "operations", "results", "events", "tallies"} {
		held[table] = texts(t, conn, "SELECT * FROM "+table)
		require.NotEmpty(t, held[table], table)
	}
	return held
}

func TestAMigrationLosesNothing(t *testing.T) {
	t.Parallel()
	path := newFirst(t)
	want := everything(t, path)
	for i, operation := range want["operations"] {
		want["operations"][i] = strings.TrimSuffix(operation, "]") + "  0 <nil> <nil> ]" // its form downstream, its rounds and its task
	}
	openAndClose(t, path)
	assert.Equal(t, want, everything(t, path))
}

// TestAMigratedLedgerKeepsThePromise calls again with the keys of the first ledger.
func TestAMigratedLedgerKeepsThePromise(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 8, 1, 13, 0, 0, 0, time.UTC)
	s, err := Open(newFirst(t), Options{Now: func() time.Time { return now }})
	require.NoError(t, err)
	l, err := dedup.New(context.Background(), s, dedup.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	begin := func(text string) dedup.Verdict {
		key, err := dedup.ParseKey(text, "create_refund")
		require.NoError(t, err)
		v, err := l.Begin(context.Background(), dedup.Request{
			Scope: dedup.Scope{Namespace: "ada", Upstream: "shop", Account: "/srv", Tool: "create_refund"}, Key: key,
			FingerprintVersion: 2, Class: "DEDUPLICATE", ClassBySaid: true, Window: time.Hour,
			OnUnknown: dedup.OnUnknown{ResendWithin: 24 * time.Hour}, Downstream: "params.client_token",
		})
		require.NoError(t, err)
		return v
	}
	replay, ok := begin("refund:order-1:1").(dedup.Replay)
	require.True(t, ok)
	assert.JSONEq(t, `{"refund":1}`, string(replay.Entry.Result))
	for key, what := range map[string]string{
		"refund:order-2:1": "sent once", "refund:order-4:1": "sent twice", "refund:order-5:1": "its owner has died",
	} {
		assert.IsType(t, dedup.Lost{}, begin(key), "%s: nobody knows in which form", what)
	}
	for _, row := range []dedup.Row{1, 16} {
		lease, ok := begin("refund:order-3:1").(*dedup.Lease)
		require.True(t, ok)
		assert.Equal(t, row, lease.Entry().Row)
		lease.Close()
	}
}

func TestAMigrationFromTheFourthVersionLosesNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	execFile(t, path, fourthLedger)
	want := everything(t, path)
	rounds := texts(t, openFile(t, path), "SELECT * FROM rounds")
	openAndClose(t, path)
	assert.Equal(t, want, everything(t, path))
	assert.Equal(t, rounds, texts(t, openFile(t, path), "SELECT * FROM rounds"))
	assert.Len(t, rounds, 2)
}

// TestAKillWithinAMigrationLeavesTheOldLedger kills a process that has done all of a
// migration but to commit it.
func TestAKillWithinAMigrationLeavesTheOldLedger(t *testing.T) {
	t.Parallel()
	path := newFirst(t)
	schema, held := schemaOf(t, path), everything(t, path)
	cmd := child(t, "migrate and wait", path)
	_, err := cmd.StdinPipe() // which it waits for, and which Wait closes
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	migrated, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "[5]\n", migrated)
	_, err = Open(path, Options{BusyTimeout: time.Millisecond})
	require.ErrorContains(t, err, "is locked", "nobody else migrates meanwhile")
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait(), "killed")

	assert.Equal(t, schema, schemaOf(t, path))
	assert.Equal(t, held, everything(t, path))
	openAndClose(t, path)
	assert.NotEqual(t, schema, schemaOf(t, path))
}

// TestAFailedMigrationLeavesTheOldLedger lets the last step of a migration fail.
func TestAFailedMigrationLeavesTheOldLedger(t *testing.T) {
	t.Parallel()
	path := newFirst(t)
	execFile(t, path, "CREATE TRIGGER operations_keep_their_downstream BEFORE DELETE ON tallies BEGIN SELECT 1; END")
	schema, held := schemaOf(t, path), everything(t, path)
	_, err := Open(path, Options{})
	require.ErrorContains(t, err, "migrate from schema version 1 to 2")
	assert.Equal(t, schema, schemaOf(t, path))
	assert.Equal(t, held, everything(t, path))
	execFile(t, path, "DROP TRIGGER operations_keep_their_downstream")
	openAndClose(t, path)
}

// TestProcessesMigrateALedgerTogether lets many open it at once, a few times, since
// the moment in which they meet is short.
func TestProcessesMigrateALedgerTogether(t *testing.T) {
	t.Parallel()
	fresh := filepath.Join(t.TempDir(), "ledger.db")
	openAndClose(t, fresh)
	want := schemaOf(t, fresh)
	for range 3 {
		path := newFirst(t)
		runAll(t, 8, func() *exec.Cmd { return child(t, "open", path) })
		require.Equal(t, want, schemaOf(t, path))
	}
}

// TestAnOlderProgramSeesTheMigration does as a program of the first version would
// that has the ledger open: it looks at the version within its transactions.
func TestAnOlderProgramSeesTheMigration(t *testing.T) {
	t.Parallel()
	path := newFirst(t)
	older, reader := openFile(t, path), openFile(t, path)
	version, err := older.PrepareContext(context.Background(), "PRAGMA user_version")
	require.NoError(t, err)
	defer version.Close()
	requireVersion := func(want int) {
		t.Helper()
		var found int
		require.NoError(t, version.QueryRow().Scan(&found))
		require.Equal(t, want, found)
	}
	read, err := reader.PrepareContext(context.Background(), "SELECT count(*) FROM operations WHERE length(lookup) = 32 AND state > 0")
	require.NoError(t, err)
	defer read.Close()

	mustExec(t, older, "BEGIN IMMEDIATE")
	requireVersion(1)
	_, err = Open(path, Options{BusyTimeout: time.Millisecond})
	require.ErrorContains(t, err, "is locked", "a write of the older program is under way")
	mustExec(t, older, "UPDATE tallies SET count = 7")
	mustExec(t, older, "COMMIT")

	s, err := Open(path, Options{})
	require.NoError(t, err)
	mustClaim(t, s, "newer")
	mustExec(t, older, "BEGIN IMMEDIATE")
	requireVersion(5)
	mustExec(t, older, "ROLLBACK")
	var operations int
	require.NoError(t, read.QueryRow().Scan(&operations))
	assert.Equal(t, 6, operations, "it goes on reading")
	assert.Contains(t, everything(t, path)["tallies"][0], "7", "what it wrote before counts")
	require.NoError(t, s.Close())
}
