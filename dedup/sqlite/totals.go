package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"maps"
	"slices"

	"github.com/mcp-idem/mcp-idem/dedup"
)

type totalKey struct{ day, upstream, tool string }

// Totals counts operations and tallies by day, upstream and tool, in that order.
func (s *Store) Totals(ctx context.Context) ([]dedup.Total, error) {
	totals := map[totalKey]*dedup.Total{}
	at := func(k totalKey) *dedup.Total {
		if totals[k] == nil {
			totals[k] = &dedup.Total{Day: k.day, Upstream: k.upstream, Tool: k.tool,
				States: map[dedup.State]int{}, Tallies: map[dedup.TallyKind]int{}}
		}
		return totals[k]
	}
	err := each(ctx, s.readers.states, func(rows *sql.Rows) error {
		var k totalKey
		var state dedup.State
		var count, failed, resolved int
		if err := rows.Scan(&k.day, &k.upstream, &k.tool, &state, &count, &failed, &resolved); err != nil {
			return err
		}
		t := at(k)
		t.States[state] = count
		t.Errors += failed
		t.Resolved += resolved
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = each(ctx, s.readers.tallies, func(rows *sql.Rows) error {
		var k totalKey
		var kind dedup.TallyKind
		var count int
		if err := rows.Scan(&k.day, &k.upstream, &k.tool, &kind, &count); err != nil {
			return err
		}
		at(k).Tallies[kind] = count
		return nil
	})
	if err != nil {
		return nil, err
	}
	var sorted []dedup.Total
	for _, k := range slices.SortedFunc(maps.Keys(totals), func(a, b totalKey) int {
		return cmp.Or(cmp.Compare(a.day, b.day), cmp.Compare(a.upstream, b.upstream), cmp.Compare(a.tool, b.tool))
	}) {
		sorted = append(sorted, *totals[k])
	}
	return sorted, nil
}

// each runs a statement and hands its rows over one by one.
func each(ctx context.Context, stmt *sql.Stmt, do func(*sql.Rows) error) error {
	rows, err := stmt.QueryContext(ctx)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := do(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
