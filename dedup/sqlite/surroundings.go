package sqlite

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"slices"
	"time"

	"github.com/mcp-idem/mcp-idem/dedup"
)

//go:embed surroundings.sql
var surroundingsTemplate string

var surroundingsQuery = fmt.Sprintf(surroundingsTemplate, columns)

// What an operation is to a claim, as surroundings.sql numbers it.
const (
	roleSame = iota
	roleElsewhere
	roleTwin
	roleRepeated
	roleRepeatedBy
)

// surroundings gathers what stands in a claim's way. same is the row of
// Surroundings.Same.
func surroundings(ctx context.Context, stmt *sql.Stmt, q dedup.Query, now time.Time, withResult bool) (around dedup.Surroundings, same row, err error) {
	var near any
	if q.Near > 0 {
		near = now.UnixMilli() - q.Near.Milliseconds()
	}
	var resultsAt any
	if withResult {
		resultsAt = now.UnixMilli()
	}
	rows, err := stmt.QueryContext(ctx, q.Loose[:], q.Lookup[:], q.Content[:], near, operationOrNull(q.RepeatOf), dedup.MaxTwins, resultsAt)
	if err != nil {
		return around, same, err
	}
	defer rows.Close()
	around.Now = now
	for rows.Next() {
		var role int
		var r row
		var result []byte
		if err := rows.Scan(append(append([]any{&role}, r.targets()...), &result)...); err != nil {
			return around, same, err
		}
		if role == roleSame {
			r.entry.Result = result
			r.entry = r.entry.Shown(now)
			same = r
		}
		place(&around, role, r.entry)
	}
	slices.SortFunc(around.Twins, newestFirst)
	return around, same, rows.Err()
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
