package toolschema

import (
	"slices"

	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// admitOutcome edits the output schema so that it takes OutcomeProperty as an
// optional member, where it does not anyway; false where it cannot be made to
// without changing what else the schema accepts. It edits nothing then.
func admitOutcome(output *rawjson.Value, edits *rawjson.Edits) bool {
	if !output.IsObject() || !hasType(output, "object") {
		return false
	}
	b := newBlinding(output, []addition{{name: OutcomeProperty, schema: outcomeSchema(), object: true}})
	if b.blind(output, &b.edits) != nil {
		return false
	}
	if ownBase(output) && (closed(output) || !b.edits.Empty()) {
		return false // clients keep one schema for each id, and another tool may have it too
	}
	if closed(output) {
		appendTo(output, "properties", slices.Concat(rawjson.Quote(OutcomeProperty), []byte(":"), outcomeSchema()), &b.edits)
	}
	if b.finish() != nil {
		return false
	}
	edits.Add(b.edits)
	return true
}
