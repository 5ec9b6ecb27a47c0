package sqlite

import (
	"time"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// maxRecent is how many operations the writer remembers. Most are settled by the
// process that claimed them, before so many others were claimed.
const maxRecent = 1024

// recent are operations that are not settled, as the writer's connection has left
// them, so that it need not load them again. They hold for as long as no other
// connection, of whatever process, commits anything: SQLite's data_version tells
// (https://sqlite.org/pragma.html#pragma_data_version).
type recent struct {
	rows   map[dedup.OperationID]row
	others int  // the data_version for which they hold
	dirty  bool // the transaction that stands has changed them
}

// begin is called within each transaction, with its data_version.
func (r *recent) begin(others int) {
	if others != r.others {
		clear(r.rows)
		r.others = others
	}
}

// keep notes how the transaction leaves an operation.
func (r *recent) keep(w row) {
	r.dirty = true
	if delete(r.rows, w.entry.ID); w.entry.State != dedup.Running && !w.entry.Open() {
		return
	}
	if len(r.rows) >= maxRecent {
		clear(r.rows)
	}
	w.entry = asStored(w.entry)
	r.rows[w.entry.ID] = w
}

// undo is called when the transaction does not come to pass.
func (r *recent) undo() {
	if r.dirty {
		clear(r.rows)
		r.dirty = false
	}
}

// asStored is what an entry is when it is loaded again, less its result.
func asStored(e dedup.Entry) dedup.Entry {
	for _, t := range []*time.Time{&e.OpenUntil, &e.InputUntil, &e.CreatedAt, &e.ClaimedAt, &e.SettledAt} {
		if !t.IsZero() {
			*t = time.UnixMilli(t.UnixMilli()).UTC()
		}
	}
	e.Window = e.Window.Truncate(time.Millisecond)
	e.Result = nil
	if len(e.Provenance) == 0 {
		e.Provenance = nil
	}
	return e
}
