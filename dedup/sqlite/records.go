package sqlite

import (
	"context"
	"errors"
	"iter"
	"math"
	"time"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// maxPageBytes is how large the results of a page of records are before it ends: one
// more than fit may be the largest that there is.
const maxPageBytes = 4 << 20

const (
	// recordsQuery reads the table in the order of its numbers, which are given once:
	// after ?1, claimed after ?2, with ?3 only what is spent by ?5, and with ?4 the
	// results that are not.
	recordsQuery = "SELECT " + columnNames + `, coalesce((SELECT length(body) FROM results WHERE operation = o.number), 0),
		CASE WHEN ?4 AND o.kept = 1 AND o.settled_at + o.window > ?5 THEN (SELECT body FROM results WHERE operation = o.number) END
		FROM operations o CROSS JOIN scopes s ON s.number = o.scope
		WHERE o.number > ?1 AND +o.claimed_at > ?2
			AND (NOT ?3 OR ((o.state = 3 AND o.kept = 1) OR o.state = 5) AND o.settled_at + o.window <= ?5)
		ORDER BY o.number LIMIT ?6`
	eventsQuery = "SELECT move, attempt, state, at, actor, note FROM events WHERE operation = ? ORDER BY sequence"
)

// Records yields operations in the order of their first claims. It reads in pages
// between which nothing is held.
func (s *Store) Records(ctx context.Context, f dedup.RecordFilter) iter.Seq2[dedup.Record, error] {
	return eachRecord(ctx, f, s.now, func(read func(*connection) error) error { return s.readers.use(ctx, read) })
}

// eachRecord reads the pages of records over connections that use lends.
func eachRecord(ctx context.Context, f dedup.RecordFilter, now func() time.Time, use func(func(*connection) error) error) iter.Seq2[dedup.Record, error] {
	return func(yield func(dedup.Record, error) bool) {
		p := recordPage{filter: f, since: math.MinInt64}
		if f.Since > 0 {
			p.since = now().UnixMilli() - f.Since.Milliseconds()
		}
		for more := true; more; {
			p.records, p.now = p.records[:0], now()
			if err := use(func(c *connection) (err error) {
				more, err = p.read(ctx, c)
				return err
			}); err != nil {
				yield(dedup.Record{}, err)
				return
			}
			for _, r := range p.records {
				if !yield(r, nil) {
					return
				}
			}
		}
	}
}

// A recordPage is some records that are read in one transaction.
type recordPage struct {
	filter  dedup.RecordFilter
	since   int64
	now     time.Time
	after   int64 // the number of the last operation that was read
	records []dedup.Record
}

var errPageFull = errors.New("the page is full")

// read reads the next page, and reports whether there may be another.
func (p *recordPage) read(ctx context.Context, c *connection) (more bool, err error) {
	if _, err := c.exec("BEGIN"); err != nil {
		return false, err
	}
	bytes := 0
	err = c.query(ctx, recordsQuery, func(columns *columns) error {
		var r row
		r.read(columns)
		record := dedup.Record{ResultBytes: columns.integer(), Now: p.now}
		r.entry.Result = columns.blob()
		record.Entry = r.entry
		bytes += len(r.entry.Result)
		p.after = r.number
		p.records = append(p.records, record)
		if err := p.readEvents(ctx, c, r.number); err != nil || bytes <= maxPageBytes {
			return err
		}
		return errPageFull
	}, p.after, p.since, p.filter.Spent, p.filter.Results, p.now.UnixMilli(), listPage)
	more = len(p.records) == listPage
	if errors.Is(err, errPageFull) {
		more, err = true, nil
	}
	if err == nil {
		_, err = c.exec("ROLLBACK") // nothing was written
	}
	return more, err
}

// readEvents reads the history of the last record, where it is asked for.
func (p *recordPage) readEvents(ctx context.Context, c *connection, number int64) error {
	if !p.filter.Events {
		return nil
	}
	record := &p.records[len(p.records)-1]
	return c.query(ctx, eventsQuery, func(columns *columns) error {
		record.Events = append(record.Events, readEvent(columns))
		return nil
	}, number)
}

// readEvent reads the columns of an event.
func readEvent(c *columns) dedup.Event {
	return dedup.Event{Row: dedup.Row(c.integer()), Attempt: c.integer(), State: dedup.State(c.integer()),
		At: c.time(), Actor: c.text(), Note: c.text()}
}
