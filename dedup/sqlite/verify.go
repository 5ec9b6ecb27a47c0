package sqlite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	lib "modernc.org/sqlite/lib"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// A FaultKind says in what a fault lies.
type FaultKind string

// The kinds of faults.
const (
	FaultStructure FaultKind = "structure" // of the database: damaged pages, indexes that do not match
	FaultSchema    FaultKind = "schema"    // tables, constraints and triggers are not those of the version
	FaultReference FaultKind = "reference" // something belongs to what is not there
	FaultHistory   FaultKind = "history"   // no lawful life leads to how an operation stands
)

// A Fault is something that a sound ledger does not hold.
type Fault struct {
	Kind      FaultKind
	Operation dedup.OperationID // zero where it is not of one operation
	Problem   string            // one line
}

// An Examination is what was looked at, and how much of it.
type Examination struct {
	Path       string // where the ledger really stands
	Version    int    // of the schema
	Operations int
	Events     int
	Faults     int
}

// A VerifyOption says how thoroughly to look.
type VerifyOption struct {
	Full bool // compare every index with its table too, which takes several times as long
}

// Verify examines the ledger at path without changing it, also while gateways use it,
// and tells found of each fault. What a ledger of an older schema version holds is not
// held to the table of moves: that is a fault too, and the migration at the next start
// mends it. An error is an *OpenError where the file cannot be examined as a ledger at
// all.
func Verify(ctx context.Context, path string, o VerifyOption, found func(Fault) error) (Examination, error) {
	v, err := examine(path, toExamine)
	if err != nil {
		return Examination{}, err
	}
	v.found = found
	err = v.all(ctx, o)
	if err = errors.Join(err, v.conn.close()); err != nil && primaryCode(err) != 0 {
		err = explain(v.done.Path, err)
	}
	return v.done, err
}

// An examiner looks at a ledger's file.
type examiner struct {
	conn  *connection
	found func(Fault) error
	done  Examination
}

// examine opens what stands at path for a role that changes nothing.
func examine(path string, r role) (*examiner, error) {
	full, err := filepath.Abs(path)
	if err != nil {
		return nil, explain(path, err)
	}
	if full, err = filepath.EvalSymlinks(full); err != nil {
		return nil, &OpenError{Path: path, Problem: "cannot be found (" + err.Error() + ")", Remedy: "give the path of a ledger", Err: err}
	}
	if err := checkPlace(full); err != nil {
		return nil, err
	}
	at, err := locationOf(full)
	if err != nil {
		return nil, explain(full, err)
	}
	conn, err := at.connect(dsn(full, r, Options{BusyTimeout: DefaultBusyTimeout}))
	if err != nil {
		return nil, explain(full, err)
	}
	v := &examiner{conn: conn, done: Examination{Path: full}}
	if err := v.identify(); err != nil {
		return nil, errors.Join(explain(full, err), conn.close())
	}
	return v, nil
}

func (v *examiner) identify() error {
	var found identity
	err := v.conn.query(context.Background(), identityQuery, func(c *columns) error {
		found = identity{c.integer(), c.integer(), c.integer()}
		return nil
	})
	if err != nil {
		return err
	}
	if v.done.Version, err = found.check(v.done.Path); err == nil && v.done.Version == 0 {
		err = &OpenError{Path: v.done.Path, Problem: "is empty", Remedy: "give the path of a ledger"}
	}
	return err
}

// all looks at everything. Behind damaged pages it does not look for more: what would be
// found there is their consequence.
func (v *examiner) all(ctx context.Context, o VerifyOption) error {
	err := v.structure(ctx, o)
	if primaryCode(err) == lib.SQLITE_CORRUPT {
		return v.tell(Fault{Kind: FaultStructure, Problem: err.Error()})
	}
	if err != nil || v.done.Faults > 0 {
		return err
	}
	if v.done.Version != schemaVersion {
		return v.tell(Fault{Kind: FaultSchema, Problem: fmt.Sprintf(
			"its version is %d, and this program holds ledgers of version %d to the table of moves; the next start of a gateway migrates it", v.done.Version, schemaVersion)})
	}
	for _, look := range []func(context.Context) error{v.schema, v.references, v.sequences, v.histories} {
		if err := look(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (v *examiner) tell(f Fault) error {
	v.done.Faults++
	return v.found(f)
}

// structure asks SQLite whether the file is sound, constraints included.
func (v *examiner) structure(ctx context.Context, o VerifyOption) error {
	check := "PRAGMA quick_check"
	if o.Full {
		check = "PRAGMA integrity_check"
	}
	return v.conn.query(ctx, check, func(c *columns) error {
		for line := range strings.Lines(c.text()) {
			if line = strings.TrimSpace(line); line != "ok" {
				if err := v.tell(Fault{Kind: FaultStructure, Problem: line}); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// schema compares what the file's tables, indexes and triggers are made of with what
// they should be.
func (v *examiner) schema(ctx context.Context) error {
	want, err := newestSchema(ctx)
	if err != nil {
		return err
	}
	have, err := partsOf(ctx, v.conn)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(union(want, have))) {
		problem := ""
		switch {
		case have[name] == want[name]:
			continue
		case have[name] == "":
			problem = "is missing"
		case want[name] == "":
			problem = "is not part of a ledger"
		default:
			problem = "is not as this version has it"
		}
		if err := v.tell(Fault{Kind: FaultSchema, Problem: "the " + name + " " + problem}); err != nil {
			return err
		}
	}
	return nil
}

func union(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// newestSchema is the schema of an empty ledger, by kind and name.
func newestSchema(ctx context.Context) (map[string]string, error) {
	conn, err := memory()
	if err != nil {
		return nil, err
	}
	var want map[string]string
	if _, err = conn.exec(schema); err == nil {
		want, err = partsOf(ctx, conn)
	}
	return want, errors.Join(err, conn.close())
}

// partsOf is what a ledger's tables, indexes and triggers are made of, less the white
// space, by kind and name. SQLite's own, which follow from these, are not among them.
func partsOf(ctx context.Context, conn *connection) (map[string]string, error) {
	parts := map[string]string{}
	const query = "SELECT type || ' ' || name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
	err := conn.query(ctx, query, func(c *columns) error {
		name := c.text()
		parts[name] = strings.Join(strings.Fields(c.text()), " ")
		return nil
	})
	return parts, err
}

// belongings are what each table is to people, where its rows belong to others.
var belongings = map[string]string{
	"operations": "an operation belongs to a scope", "results": "an answer belongs to an operation",
	"rounds": "a question belongs to an operation", "events": "an event belongs to an operation",
}

// references looks for what belongs to nothing.
func (v *examiner) references(ctx context.Context) error {
	lost := map[string]int{}
	if err := v.conn.query(ctx, "PRAGMA foreign_key_check", func(c *columns) error {
		lost[c.text()]++
		return nil
	}); err != nil {
		return err
	}
	for _, table := range slices.Sorted(maps.Keys(lost)) {
		if err := v.tell(Fault{Kind: FaultReference, Problem: fmt.Sprintf("%s that is not there: %d of them", belongings[table], lost[table])}); err != nil {
			return err
		}
	}
	made := 0
	if err := v.conn.query(ctx, "SELECT count(*) FROM meta", func(c *columns) error {
		made = c.integer()
		return nil
	}); err != nil || made == 1 {
		return err
	}
	return v.tell(Fault{Kind: FaultReference, Problem: "the ledger's secret is not there: none of its keys can be found"})
}

// sequences looks for events that were taken out of the middle of a history.
func (v *examiner) sequences(ctx context.Context) error {
	const query = `SELECT o.id FROM (SELECT operation FROM events GROUP BY operation
		HAVING min(sequence) <> 1 OR max(sequence) <> count(*)) g JOIN operations o ON o.number = g.operation`
	return v.conn.query(ctx, query, func(c *columns) error {
		f := Fault{Kind: FaultHistory, Problem: "an event is missing: their numbers have a gap"}
		c.array(f.Operation[:])
		return v.tell(f)
	})
}

// histories holds each operation to the table of moves.
func (v *examiner) histories(ctx context.Context) error {
	records := eachRecord(ctx, dedup.RecordFilter{Events: true}, time.Now, func(read func(*connection) error) error { return read(v.conn) })
	for r, err := range records {
		if err != nil {
			return err
		}
		v.done.Operations++
		v.done.Events += len(r.Events)
		for _, flaw := range r.Flaws() {
			if err := v.tell(Fault{Kind: FaultHistory, Operation: r.Entry.ID, Problem: flaw}); err != nil {
				return err
			}
		}
	}
	return nil
}

// missing reports whether nothing stands at a path.
func missing(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, os.ErrNotExist)
}
