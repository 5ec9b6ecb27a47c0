package toolschema

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// An instanceWriter draws objects that a schema may well accept.
type instanceWriter struct {
	chooser
	root any
}

// object draws one for the root: made for the schema, and changed as often as
// not.
func (w instanceWriter) object() map[string]any {
	o := w.members(w.root, 4)
	if w.chance(50) {
		w.disturb(o)
	}
	for _, name := range []string{KeyProperty, RepeatProperty, OutcomeProperty} {
		delete(o, name)
	}
	return o
}

// disturb changes one member.
func (w instanceWriter) disturb(o map[string]any) {
	names := slices.Sorted(maps.Keys(o))
	if len(names) == 0 || w.chance(30) {
		o[w.oneOf(slices.Concat(memberNames, oddNames)...)] = w.anything()
		return
	}
	name := names[w.chooser(len(names))]
	switch nested, ok := o[name].(map[string]any); {
	case ok && w.chance(70):
		nested[w.oneOf(KeyProperty, OutcomeProperty, RepeatProperty, "zz", "a")] = w.anything()
	case w.chance(50):
		delete(o, name)
	default:
		o[name] = w.anything()
	}
}

func (w instanceWriter) anything() any {
	switch w.chooser(7) {
	case 0:
		return json.Number("1")
	case 1:
		return nil
	case 2:
		return map[string]any{}
	case 3:
		return map[string]any{"a": "s", KeyProperty: goodKey}
	case 4:
		return []any{"s"}
	}
	return "s"
}

// members draws an object from all that the schema says of members, one branch
// of each choice included.
func (w instanceWriter) members(schema any, depth int) map[string]any {
	o := map[string]any{}
	s, ok := schema.(map[string]any)
	if !ok || depth <= 0 {
		return o
	}
	for _, part := range w.parts(s) {
		maps.Copy(o, w.members(part, depth-1))
	}
	required, _ := s["required"].([]any)
	properties, _ := s["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if slices.Contains(required, any(name)) || w.chance(40) {
			o[name] = w.value(properties[name], depth-1)
		}
	}
	for _, name := range required {
		if name, ok := name.(string); ok && o[name] == nil {
			o[name] = w.value(s["additionalProperties"], depth-1)
		}
	}
	if other, ok := s["additionalProperties"].(map[string]any); ok && w.chance(30) {
		o["zz"] = w.value(other, depth-1)
	}
	return o
}

// parts are schemas that apply to the same object, or one that may.
func (w instanceWriter) parts(s map[string]any) (out []any) {
	if target, ok := w.resolve(s["$ref"]); ok {
		out = append(out, target)
	}
	all, _ := s["allOf"].([]any)
	out = append(out, all...)
	for _, choice := range []string{"anyOf", "oneOf"} {
		if branches, ok := s[choice].([]any); ok && len(branches) > 0 {
			out = append(out, branches[w.chooser(len(branches))])
		}
	}
	if s["if"] != nil {
		if w.chance(50) {
			out = append(out, s["if"], s["then"])
		} else {
			out = append(out, s["else"])
		}
	}
	return out
}

// resolve finds the definition that a reference means, by its path or name: all
// are called d and a number.
func (w instanceWriter) resolve(ref any) (any, bool) {
	text, _ := ref.(string)
	name := text[strings.LastIndexAny(text, "/#")+1:]
	root, _ := w.root.(map[string]any)
	for _, container := range []string{"$defs", "definitions", "properties"} {
		if named, ok := root[container].(map[string]any); ok && named[name] != nil {
			return named[name], true
		}
	}
	return nil, false
}

func (w instanceWriter) value(schema any, depth int) any {
	s, ok := schema.(map[string]any)
	if !ok || depth <= 0 {
		return w.anything()
	}
	if target, ok := w.resolve(s["$ref"]); ok {
		return w.value(target, depth-1)
	}
	if list, ok := s["enum"].([]any); ok {
		return list[w.chooser(len(list))]
	}
	if items, ok := s["items"]; ok {
		return []any{w.value(items, depth-1)}
	}
	switch s["type"] {
	case "string":
		return "s"
	case "integer", "number":
		return json.Number("1")
	case "boolean":
		return true
	}
	if w.chance(80) {
		return w.members(schema, depth-1)
	}
	return w.anything()
}
