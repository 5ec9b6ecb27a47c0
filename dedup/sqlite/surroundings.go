package sqlite

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"time"

	"github.com/mcp-idem/mcp-idem/dedup"
)

//go:embed surroundings.sql
var surroundingsTemplate string

var surroundingsQuery = fmt.Sprintf(surroundingsTemplate, columnNames)

// Whether no operation has this key in any scope, and, where near-duplicates of this
// hour and the last matter, none this content. Indexes alone answer them; some of what
// they find does not stand in the way after all.
const (
	strangerQuery = "SELECT NOT EXISTS (SELECT 1 FROM operations WHERE loose = ?)"
	loneQuery     = `SELECT NOT EXISTS (SELECT 1 FROM operations WHERE loose = ?1)
		AND NOT EXISTS (SELECT 1 FROM operations WHERE content = ?2 AND state = 1)
		AND NOT EXISTS (SELECT 1 FROM operations WHERE claimed_at / 3600000 = ?3 AND substr(content, 1, 8) = substr(?2, 1, 8))
		AND NOT EXISTS (SELECT 1 FROM operations WHERE claimed_at / 3600000 = ?3 - 1 AND substr(content, 1, 8) = substr(?2, 1, 8))
		AND NOT EXISTS (SELECT 1 FROM operations WHERE claimed_at >= (?3 + 1) * 3600000)`
)

// hour is in milliseconds, as times are in a ledger.
const hour = 60 * 60 * 1000

// What an operation is to a claim, as surroundings.sql numbers it.
const (
	roleSame = iota
	roleElsewhere
	roleTwin
	roleRepeated
	roleRepeatedBy
)

// surroundings gathers what stands in a claim's way. same is the row of
// Surroundings.Same. Where the key was used at another address, it looks whether that
// was renamed to this one, which costs nothing where it was not used.
func surroundings(ctx context.Context, conn *connection, q dedup.Query, now time.Time, withResult bool) (around dedup.Surroundings, same row, err error) {
	around, same, err = surroundingsOf(ctx, conn, q, now, withResult)
	if e := around.Elsewhere; err != nil || e == nil || around.Same != nil && around.Same.State != dedup.Released {
		return around, same, err
	}
	renamed, err := isRenamed(ctx, conn, around.Elsewhere.Scope.Address(), q.Scope.Address())
	if err != nil || !renamed {
		return around, same, err
	}
	q.Lookup = around.Elsewhere.Lookup
	return surroundingsOf(ctx, conn, q, now, withResult)
}

// surroundingsOf gathers what stands in the way of a claim of one lookup.
func surroundingsOf(ctx context.Context, conn *connection, q dedup.Query, now time.Time, withResult bool) (around dedup.Surroundings, same row, err error) {
	around.Now = now
	if free, err := isFree(ctx, conn, q, now); free || err != nil {
		return around, same, err
	}
	var near, resultsAt any
	if q.Near > 0 {
		near = now.UnixMilli() - q.Near.Milliseconds()
	}
	if withResult {
		resultsAt = now.UnixMilli()
	}
	err = conn.query(ctx, surroundingsQuery, func(c *columns) error {
		var r row
		role := c.integer()
		r.read(c)
		if result := c.blob(); role == roleSame {
			r.entry.Result = result
			r.entry = r.entry.Shown(now)
			same = r
		}
		place(&around, role, r.entry)
		return nil
	}, q.Loose[:], q.Lookup[:], q.Content[:], near, operationOrNull(q.RepeatOf), dedup.MaxTwins, resultsAt, now.UnixMilli()/hour)
	slices.SortFunc(around.Twins, newestFirst)
	return around, same, err
}

// isFree reports whether surely nothing stands in a claim's way, which is so for most,
// and costs a fraction of looking for what does.
func isFree(ctx context.Context, conn *connection, q dedup.Query, now time.Time) (free bool, err error) {
	query, args := strangerQuery, []any{q.Loose[:]}
	switch {
	case !q.RepeatOf.IsZero() || q.Near > time.Hour:
		return false, nil
	case q.Near > 0:
		query, args = loneQuery, append(args, q.Content[:], now.UnixMilli()/hour)
	}
	err = conn.query(ctx, query, func(c *columns) error {
		free = c.flag()
		return nil
	}, args...)
	return free, err
}

// place puts an entry where its role belongs.
func place(around *dedup.Surroundings, role int, e dedup.Entry) {
	switch role {
	case roleSame:
		around.Same = &e
	case roleElsewhere:
		if around.Elsewhere == nil || newestFirst(e, *around.Elsewhere) < 0 {
			around.Elsewhere = &e
		}
	case roleTwin:
		around.Twins = append(around.Twins, e)
	case roleRepeated:
		around.Repeated = &e
	case roleRepeatedBy:
		around.RepeatedBy = &e
	}
}

// newestFirst orders by the newest claim, and claims of the same millisecond by
// id.
func newestFirst(a, b dedup.Entry) int {
	if c := b.ClaimedAt.Compare(a.ClaimedAt); c != 0 {
		return c
	}
	return slices.Compare(b.ID[:], a.ID[:])
}
