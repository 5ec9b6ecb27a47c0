package toolschema

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// blindReference deals with a $ref that applies to the object: what it refers to
// is left as it is where that is blind already, else the reference gets an edited
// copy of its own, because the original may describe nested values as well.
func (b *blinding) blindReference(value *rawjson.Value, edits *rawjson.Edits) error {
	text, _ := value.Text()
	target := b.target(value)
	if target == nil {
		return fmt.Errorf("has a $ref %q that cannot be followed", shorten(text))
	}
	b.seen[value] = true
	def, ok := b.copied[target]
	if !ok {
		def = &definition{}
		b.copied[target] = def
		if err := b.copy(target, def); err != nil {
			return err
		}
	}
	if !def.made {
		return fmt.Errorf("has a $ref %q that leads to itself", shorten(text))
	}
	if def.pointer != "" {
		edits.Replace(value.Start, value.End, rawjson.Quote(def.pointer))
	}
	return nil
}

// target is what a $ref that applies to the object refers to, or nil where it is
// remote, no schema, or relative to another id.
func (b *blinding) target(value *rawjson.Value) *rawjson.Value {
	ref, ok := b.refs.at[value]
	if !ok || ref.foreign || len(b.refs.list) > maxReferences {
		return nil
	}
	target := b.refs.resolve(ref.text)
	if target == nil || b.refs.isData(target) || b.refs.isBased(target) {
		return nil
	}
	return target
}

// copy edits a copy of the schema, and gives it a place if anything in it is
// edited.
func (b *blinding) copy(target *rawjson.Value, def *definition) error {
	var edits, names rawjson.Edits
	if err := b.blindBranch(target, &edits); err != nil {
		return err
	}
	def.made = true
	if edits.Empty() {
		return nil
	}
	if err := b.refs.unname(target, &names); err != nil {
		return err
	}
	edits = rawjson.Edits{} // again, on what is left without the names
	edits.Add(names)
	if err := b.blindBranch(target, &edits); err != nil {
		return err
	}
	def.text = edits.Apply(target)
	if b.size += len(def.text); b.size > maxCopied {
		return errors.New("refers to too many schemas that have to admit the key")
	}
	def.name = b.freeName()
	def.pointer = "#/" + b.container() + "/" + def.name
	b.order = append(b.order, def)
	return nil
}

// container is the member of the root that definitions stand in.
func (b *blinding) container() string {
	_, old := b.draft()
	switch {
	case b.root.Get("$defs") != nil:
		return "$defs"
	case b.root.Get("definitions") != nil || old:
		return "definitions"
	}
	return "$defs"
}

// freeName is a name that no definition has.
func (b *blinding) freeName() string {
	for {
		b.named++
		name := "keyed" + strconv.Itoa(b.named)
		if b.root.Get(b.container()).Get(name) == nil {
			return name
		}
	}
}

// draft says whether the schema states that it is of draft 2019-09 or later, or
// of one before.
func (b *blinding) draft() (modern, old bool) {
	uri, _ := b.root.Get("$schema").Text()
	modern = strings.Contains(uri, "/2019-09/") || strings.Contains(uri, "/2020-12/")
	return modern, !modern && strings.Contains(uri, "draft-0")
}

// addDefinitions puts the copies at their place.
func (b *blinding) addDefinitions() error {
	if len(b.order) == 0 {
		return nil
	}
	var members []byte
	for i, def := range b.order {
		if i > 0 {
			members = append(members, ',')
		}
		members = append(append(append(members, rawjson.Quote(def.name)...), ':'), def.text...)
	}
	if at := b.root.Get(b.container()); at != nil && !at.IsObject() {
		return fmt.Errorf("has %s that are no object", b.container())
	}
	appendTo(b.root, b.container(), members, &b.edits)
	return nil
}

// checkReferences refuses references to what the edits have changed from places
// where they are not wanted: a nested object that is described by the root, say,
// would need a key as well.
func (b *blinding) checkReferences() error {
	if len(b.refs.list) > maxReferences {
		return fmt.Errorf("has more than %d references", maxReferences)
	}
	for _, ref := range b.refs.list {
		for _, target := range b.refs.targets(ref) {
			if b.refs.isData(target) {
				return fmt.Errorf("has a reference %q to what is no schema", shorten(ref.text))
			}
			if !b.seen[ref.value] && b.edits.Within(target) {
				return fmt.Errorf("has a recursive reference %q to what has to admit the key", shorten(ref.text))
			}
			if slices.ContainsFunc(b.moved, func(m *rawjson.Value) bool { return m.Holds(target) }) {
				return fmt.Errorf("has a reference %q into propertyNames that have to change", shorten(ref.text))
			}
		}
	}
	return nil
}

// annotationsOnly are the keywords that may stand beside a root $ref that gives
// way to what it refers to.
var annotationsOnly = []string{
	"$schema", "$id", "id", "$comment", "$defs", "definitions", "title", "description", "default", "examples", "type", "deprecated",
}

// inlined returns the schema that the root is nothing but a reference to, or nil.
func (b *blinding) inlined() *rawjson.Value {
	at := b.root
	for range 16 { // a longer chain leads in a circle, most likely
		for _, f := range at.Fields() {
			if f.Name != "$ref" && !slices.Contains(annotationsOnly, f.Name) {
				return nil
			}
		}
		target := b.target(at.Get("$ref"))
		if target == nil || !target.IsObject() {
			return nil
		}
		if at = target; at.Get("$ref") == nil {
			break
		}
	}
	if at.Get("$ref") != nil || !hasType(b.root, "object") || !hasType(at, "object") {
		return nil
	}
	return at
}

// inline puts the edited schema in place of the root's $ref, less what the root
// says itself.
func (b *blinding) inline(target *rawjson.Value, edits *rawjson.Edits) error {
	edited, err := rawjson.ParseObject(edits.Apply(target))
	if err != nil {
		return err
	}
	said := []string{"$defs", "definitions", "$schema"}
	var ref rawjson.Field
	for _, f := range b.root.Fields() {
		said = append(said, f.Name)
		if f.Name == "$ref" {
			ref = f
		}
	}
	inner := bytes.TrimSpace(edited.Without(said...))
	b.seen[ref.Value] = true
	b.edits.Replace(ref.Start, ref.Value.End, inner[1:len(inner)-1])
	return nil
}
