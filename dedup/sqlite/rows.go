package sqlite

import (
	"fmt"
	"strings"
	"time"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// columns are an entry's, less its result, in the order of targets. The row's
// number comes first.
const columns = `o.number, o.id, o.lookup, o.loose, o.content, o.fingerprint, o.fingerprint_version,
s.namespace, s.upstream, s.account, s.tool, o.key_hint, o.class, o.state, o.move, o.attempt, o.doubt, o.owner, o.open_until,
o.created_at, o.claimed_at, o.settled_at, o.window, o.is_error, o.reason, o.kept, o.repeat_of, o.replays, o.provenance, o.downstream,
o.round, o.input_until, o.task, o.task_status`

const fromOperations = ` FROM operations o JOIN scopes s ON s.number = o.scope `

// A row is an entry and where it stands.
type row struct {
	number int64
	entry  dedup.Entry
}

// targets are where a row's columns are scanned to.
func (r *row) targets() []any {
	e := &r.entry
	return []any{
		&r.number, bytesInto(e.ID[:]), bytesInto(e.Lookup[:]), bytesInto(e.Loose[:]), bytesInto(e.Content[:]),
		bytesInto(e.Fingerprint[:]), &e.FingerprintVersion,
		&e.Scope.Namespace, &e.Scope.Upstream, &e.Scope.Account, &e.Scope.Tool, &e.KeyHint, &e.Class,
		&e.State, &e.Row, &e.Attempt, &e.Doubt, bytesInto(e.Owner[:]), timeInto{&e.OpenUntil},
		timeInto{&e.CreatedAt}, timeInto{&e.ClaimedAt}, timeInto{&e.SettledAt}, millisInto{&e.Window},
		&e.IsError, &e.Reason, &e.Kept, bytesInto(e.RepeatOf[:]), &e.Replays, &e.Provenance, &e.Downstream,
		&e.Round, timeInto{&e.InputUntil}, bytesInto(e.Task[:]), &e.TaskStatus,
	}
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

var (
	insertOperation = fmt.Sprintf("INSERT INTO operations (%s, %s) VALUES (?%s)",
		strings.Join(naming, ", "), strings.Join(changing, ", "), strings.Repeat(", ?", len(naming)+len(changing)-1))
	updateOperation = fmt.Sprintf("UPDATE operations SET %s = ? WHERE number = ?", strings.Join(changing, " = ?, "))
)

// bytesInto scans a blob into an array. NULL leaves it as it is.
type bytesInto []byte

// Scan implements sql.Scanner.
func (into bytesInto) Scan(value any) error {
	if value == nil {
		return nil
	}
	if blob, ok := value.([]byte); !ok || copy(into, blob) != len(into) || len(blob) != len(into) {
		return fmt.Errorf("a blob of %d bytes was expected", len(into))
	}
	return nil
}

// timeInto scans milliseconds since 1970 into a time. NULL is no time.
type timeInto struct{ t *time.Time }

// Scan implements sql.Scanner.
func (into timeInto) Scan(value any) error {
	if value == nil {
		return nil
	}
	ms, ok := value.(int64)
	if !ok {
		return fmt.Errorf("a time was expected and not %T", value)
	}
	*into.t = time.UnixMilli(ms).UTC()
	return nil
}

// millisInto scans milliseconds into a duration.
type millisInto struct{ d *time.Duration }

// Scan implements sql.Scanner.
func (into millisInto) Scan(value any) error {
	ms, ok := value.(int64)
	if !ok {
		return fmt.Errorf("a duration was expected and not %T", value)
	}
	*into.d = time.Duration(ms) * time.Millisecond
	return nil
}

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
