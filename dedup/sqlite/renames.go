package sqlite

import (
	"context"

	"github.com/mcp-idem/mcp-idem/dedup"
)

const (
	// renamedQuery follows an address through what it was renamed to. UNION ends where
	// names lead in a circle.
	renamedQuery = `WITH RECURSIVE names (upstream, account) AS (
			VALUES (?1, ?2)
			UNION SELECT r.to_upstream, r.to_account FROM names n CROSS JOIN renames r ON r.upstream = n.upstream AND r.account = n.account)
		SELECT EXISTS (SELECT 1 FROM names WHERE upstream = ?3 AND account = ?4)`
	addRename = `INSERT INTO renames (upstream, account, to_upstream, to_account, at, actor, note) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7
		WHERE NOT EXISTS (SELECT 1 FROM renames WHERE upstream = ?1 AND account = ?2 AND to_upstream = ?3 AND to_account = ?4)`
	renamesQuery = "SELECT upstream, account, to_upstream, to_account, at, actor, note FROM renames ORDER BY rowid"
)

// isRenamed reports whether what was claimed at one address counts as claimed at
// another.
func isRenamed(ctx context.Context, conn *connection, from, to dedup.Address) (renamed bool, err error) {
	err = conn.query(ctx, renamedQuery, func(c *columns) error {
		renamed = c.flag()
		return nil
	}, from.Upstream, from.Account, to.Upstream, to.Account)
	return renamed, err
}

// Rename puts renames on record, all or none.
func (s *Store) Rename(ctx context.Context, renames []dedup.Rename) error {
	return s.write(ctx, func(tx *session) (outcome, error) {
		for _, r := range renames {
			if err := tx.exec(addRename, r.From.Upstream, r.From.Account, r.To.Upstream, r.To.Account, s.now().UnixMilli(), r.Actor, r.Note); err != nil {
				return outcome{}, err
			}
		}
		return outcome{other: len(renames) > 0}, nil
	})
}

// Renames returns the renames on record, oldest first.
func (s *Store) Renames(ctx context.Context) (renames []dedup.Rename, err error) {
	err = s.readers.all(ctx, renamesQuery, func(c *columns) error {
		renames = append(renames, dedup.Rename{From: dedup.Address{Upstream: c.text(), Account: c.text()},
			To: dedup.Address{Upstream: c.text(), Account: c.text()}, At: c.time(), Actor: c.text(), Note: c.text()})
		return nil
	})
	return renames, err
}
