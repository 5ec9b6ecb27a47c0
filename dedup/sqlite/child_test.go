package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// childVariable tells the test binary to be one of several gateways: its value is
// the task, the ledger's path, and the task's arguments, separated by newlines.
const childVariable = "MCP_IDEM_TEST_CHILD"

func child(t *testing.T, task string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+strings.Join(append([]string{task}, args...), "\n"))
	cmd.Stderr = os.Stderr
	return cmd
}

func runChild() int {
	args := strings.Split(os.Getenv(childVariable), "\n")
	if err := runTask(args[0], args[1], args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func runTask(task, path string, args []string) error {
	if task == "migrate and wait" {
		return migrateAndWait(path)
	}
	s, err := Open(path, Options{})
	if err != nil {
		return err
	}
	switch task {
	case "open":
		return s.Close()
	case "claim for ever":
		return claimForEver(s)
	case "claim each":
		return claimEach(s, args[0])
	}
	return fmt.Errorf("no task is called %q", task)
}

// migrateAndWait does all of a migration but to commit it, prints the version that
// the ledger has within the transaction, and waits for the end of its input.
func migrateAndWait(path string) error {
	db, err := sql.Open("sqlite", dsn(path, toCreate, Options{BusyTimeout: DefaultBusyTimeout}))
	if err != nil {
		return err
	}
	conn, err := db.Conn(context.Background())
	if err != nil {
		return err
	}
	if err := execute(conn, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	if err := migrate(conn, oldestVersion); err != nil {
		return err
	}
	version, err := identify(conn, path)
	if err != nil {
		return err
	}
	fmt.Printf("[%d]\n", version)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// claimForEver claims new keys and prints each once it is acknowledged.
func claimForEver(s *Store) error {
	for i := 0; ; i++ {
		key := fmt.Sprintf("%s-%d", s.info.Owner, i)
		if won, err := tryClaim(s, key); err != nil || !won {
			return fmt.Errorf("key %s: won %t: %w", key, won, err)
		}
		fmt.Println(key)
	}
}

// claimEach claims n keys that others claim too, prints those that it won, and
// closes.
func claimEach(s *Store, n string) error {
	count, err := strconv.Atoi(n)
	if err != nil {
		return err
	}
	for i := range count {
		key := fmt.Sprintf("key-%d", i)
		won, err := tryClaim(s, key)
		if err != nil {
			return err
		}
		if won {
			fmt.Println(key)
		}
	}
	return s.Close()
}

func tryClaim(s *Store, key string) (won bool, err error) {
	q := queryOf(key)
	err = s.Claim(context.Background(), q, func(around dedup.Surroundings) (dedup.Change, bool) {
		won = around.Same == nil
		return newChange(s, q, around), won
	})
	return won, err
}

func queryOf(key string) dedup.Query {
	return dedup.Query{Lookup: sha256.Sum256([]byte(key)), Loose: sha256.Sum256([]byte("loose " + key)), Content: sha256.Sum256([]byte("content " + key))}
}

// newChange is the first claim of a key.
func newChange(s *Store, q dedup.Query, around dedup.Surroundings) dedup.Change {
	return dedup.Change{
		Entry: dedup.Entry{
			ID: dedup.NewOperationID(), Lookup: q.Lookup, Loose: q.Loose, Content: q.Content,
			Scope: dedup.Scope{Namespace: "ada", Upstream: "shop", Tool: "refund"}, KeyHint: "refu… (19)", Class: "NON_RETRYABLE",
			State: dedup.Running, Row: 1, Attempt: 1, Owner: s.info.Owner, CreatedAt: around.Now, ClaimedAt: around.Now, Window: time.Hour,
		},
		Event: dedup.Event{Row: 1, Attempt: 1, State: dedup.Running},
	}
}

// mustClaim claims a new key.
func mustClaim(t testing.TB, s *Store, key string) dedup.Entry {
	t.Helper()
	won, err := tryClaim(s, key)
	require.NoError(t, err)
	require.True(t, won)
	around, err := s.Find(context.Background(), queryOf(key))
	require.NoError(t, err)
	return *around.Same
}
