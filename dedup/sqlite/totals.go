package sqlite

import (
	"cmp"
	"context"
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
	err := s.readers.all(ctx, statesQuery, func(c *columns) error {
		t := at(totalKey{c.text(), c.text(), c.text()})
		state := dedup.State(c.integer())
		t.States[state] = c.integer()
		t.Errors += c.integer()
		t.Resolved += c.integer()
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = s.readers.all(ctx, talliesQuery, func(c *columns) error {
		t := at(totalKey{c.text(), c.text(), c.text()})
		kind := dedup.TallyKind(c.text())
		t.Tallies[kind] = c.integer()
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
