package sqlite

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// columnNames are an entry's, less its result, in the order of row.read. The row's
// number comes first.
const columnNames = `o.number, o.id, o.lookup, o.loose, o.content, o.fingerprint, o.fingerprint_version,
s.namespace, s.upstream, s.account, s.tool, o.key_hint, o.class, o.state, o.move, o.attempt, o.doubt, o.owner, o.open_until,
o.created_at, o.claimed_at, o.settled_at, o.window, o.is_error, o.reason, o.kept, o.repeat_of, o.replays, o.provenance, o.downstream,
o.round, o.input_until, o.task, o.task_status`

const fromOperations = ` FROM operations o JOIN scopes s ON s.number = o.scope `

// A row is an entry and where it stands.
type row struct {
	number int64
	entry  dedup.Entry
}

// read reads columns.
func (r *row) read(c *columns) {
	e := &r.entry
	r.number = next[int64](c)
	for _, array := range [][]byte{e.ID[:], e.Lookup[:], e.Loose[:], e.Content[:], e.Fingerprint[:]} {
		c.array(array)
	}
	e.FingerprintVersion = c.integer()
	e.Scope = dedup.Scope{Namespace: c.text(), Upstream: c.text(), Account: c.text(), Tool: c.text()}
	e.KeyHint, e.Class = c.text(), c.text()
	e.State, e.Row, e.Attempt, e.Doubt = dedup.State(c.integer()), dedup.Row(c.integer()), c.integer(), dedup.Row(c.integer())
	c.array(e.Owner[:])
	e.OpenUntil, e.CreatedAt, e.ClaimedAt, e.SettledAt = c.time(), c.time(), c.time(), c.time()
	e.Window = time.Duration(c.integer()) * time.Millisecond
	e.IsError, e.Reason, e.Kept = c.flag(), dedup.Reason(c.text()), dedup.Kept(c.integer())
	c.array(e.RepeatOf[:])
	e.Replays, e.Provenance, e.Downstream = c.integer(), c.blob(), c.text()
	e.Round, e.InputUntil = c.integer(), c.time()
	c.array(e.Task[:])
	e.TaskStatus = dedup.TaskStatus(c.text())
}

// changing are the columns that a change may write, in the order of changes.
var changing = []string{
	"content", "fingerprint", "fingerprint_version", "class", "state", "move", "attempt", "doubt", "owner", "open_until",
	"claimed_at", "settled_at", "window", "is_error", "reason", "kept", "repeat_of", "replays", "provenance", "downstream",
	"round", "input_until", "task", "task_status",
}

// changes are the values of the columns that a change may write.
func changes(e *dedup.Entry) []any {
	return []any{
		e.Content[:], e.Fingerprint[:], e.FingerprintVersion, e.Class, int(e.State), int(e.Row), e.Attempt, int(e.Doubt), e.Owner[:], millis(e.OpenUntil),
		millis(e.ClaimedAt), millis(e.SettledAt), e.Window.Milliseconds(), e.IsError, string(e.Reason), int(e.Kept),
		operationOrNull(e.RepeatOf), e.Replays, bytesOrNull(e.Provenance), e.Downstream,
		e.Round, millis(e.InputUntil), digestOrNull(e.Task), string(e.TaskStatus),
	}
}

// naming are the columns that are written once, in the order of names.
var naming = []string{"id", "lookup", "loose", "scope", "key_hint", "created_at"}

// names are the values of the columns that are written once.
func names(e *dedup.Entry, scope int64) []any {
	return []any{e.ID[:], e.Lookup[:], e.Loose[:], scope, e.KeyHint, millis(e.CreatedAt)}
}

var insertOperation = fmt.Sprintf("INSERT INTO operations (%s, %s) VALUES (?%s)",
	strings.Join(naming, ", "), strings.Join(changing, ", "), strings.Repeat(", ?", len(naming)+len(changing)-1))

// millis is what a time is stored as; the zero time is NULL.
func millis(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMilli()
}

func operationOrNull(id dedup.OperationID) any {
	if id.IsZero() {
		return nil
	}
	return id[:]
}

func digestOrNull(d dedup.Digest) any {
	if d == (dedup.Digest{}) {
		return nil
	}
	return d[:]
}

func bytesOrNull(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return b
}

// equal compares two values of changes.
func equal(a, b any) bool {
	blob, ok := a.([]byte)
	other, also := b.([]byte)
	if ok || also {
		return ok && also && bytes.Equal(blob, other)
	}
	return a == b
}
