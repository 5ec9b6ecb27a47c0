package toolschema

import (
	"errors"
	"fmt"
	"slices"

	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// takeOwnKey edits the property KeyProperty that the schema has of its own, so that
// it takes the caller's key, in whose place the upstream gets the derived one. It
// fails where the property is something else, or does not take derived keys, or
// where more in the schema depends on it.
func (b *blinding) takeOwnKey(at *rawjson.Value, edits *rawjson.Edits) error {
	property := at.Get("properties").Get(KeyProperty)
	if text, _ := property.Get("description").Text(); earlier.MatchString(text) {
		return errors.New("of its own that names an earlier call")
	}
	if err := takesKeys(property); err != nil {
		return fmt.Errorf("that %w", err)
	}
	probe := newBlinding(b.root, []addition{{name: KeyProperty, required: true}})
	for _, f := range at.Fields() {
		switch f.Name {
		case "properties", "required", "additionalProperties", "unevaluatedProperties", "minProperties", "maxProperties":
			continue
		}
		var closes rawjson.Edits
		if err := probe.blindKeyword(f.Name, f.Value, &closes); err != nil || !closes.Empty() {
			return fmt.Errorf("of its own, of which %s says more", f.Name)
		}
	}
	describeOwnKey(property, edits)
	return nil
}

// describeOwnKey puts our description before the property's own, or in its place
// where that asks for a new key for each request. What the property demands of its
// values is met by derived keys, not by a caller's, and so gives way to what we
// demand.
func describeOwnKey(property *rawjson.Value, edits *rawjson.Edits) {
	text := keyText
	description := property.Get("description")
	if own, ok := description.Text(); ok && own != "" && !mintsKeys(own) {
		text += "\n\n" + own
	}
	demands := slices.ContainsFunc(property.Fields(), func(f rawjson.Field) bool {
		return slices.Contains([]string{"minLength", "maxLength", "pattern", "format"}, f.Name)
	})
	switch {
	case demands || !property.IsObject():
		edits.Replace(property.Start, property.End, keySchemaSaying(text, MaxKeyLength))
	case description != nil:
		edits.Replace(description.Start, description.End, rawjson.Quote(text))
	default:
		edits.Append(property, slices.Concat([]byte(`"description":`), rawjson.Quote(text)))
	}
}

// mend replaces the description of a native key that stays in the offered
// schema, where it asks for a new key for each request.
func (n *native) mend(edits *rawjson.Edits) {
	description := n.schema.Get("description")
	if own, ok := description.Text(); ok && mintsKeys(own) {
		edits.Replace(description.Start, description.End, rawjson.Quote(shownNativeText))
	}
}
