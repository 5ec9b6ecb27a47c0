package rawjson

import (
	"iter"
	"math"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// A Value is one value of a parsed document, with the place where it stands.
// It is read-only and safe for concurrent use.
type Value struct {
	// Kind is the first byte of the value, with 'f' and 't' for booleans and '0'
	// for all numbers.
	Kind jsontext.Kind
	// Start and End are offsets in the document: the value is src[Start:End].
	Start, End int

	src     []byte
	fields  []Field  // of an object, in the order of the source
	entries []*Value // of an array
}

// A Field is one member of an object of a parsed document.
type Field struct {
	Name  string // unescaped
	Start int    // where the quoted name begins
	Value *Value
}

// Parse reads the one JSON value in src, whole. Repeated member names and
// strings that are no UTF-8 are taken as they are; see Value.Repeated.
func Parse(src []byte) (*Value, error) { return ParseTo(src, math.MaxInt) }

// ParseTo is Parse for who looks only so deep: objects and arrays deeper than
// depth levels, the outermost being at level 1, are checked for syntax, and have
// no members or elements.
func ParseTo(src []byte, depth int) (*Value, error) {
	if err := check(src); err != nil {
		return nil, err
	}
	s := scanner{src: src}
	return s.value(depth), nil
}

// value moves behind the value that comes next, and returns it.
func (s *scanner) value(depth int) *Value {
	first := s.next()
	v := &Value{Kind: kindOf(first), Start: s.at, src: s.src}
	switch {
	case depth == 0:
		s.skip()
	case v.Kind == jsontext.KindBeginObject:
		for s.at++; s.next() != '}'; {
			f := Field{Start: s.at}
			f.Name = s.name()
			f.Value = s.value(depth - 1)
			v.fields = append(v.fields, f)
		}
		s.at++
	case v.Kind == jsontext.KindBeginArray:
		for s.at++; s.next() != ']'; {
			v.entries = append(v.entries, s.value(depth-1))
		}
		s.at++
	default:
		s.skip()
	}
	v.End = s.at
	return v
}

// kindOf returns the kind of the value whose first byte is c.
func kindOf(c byte) jsontext.Kind {
	if c == '-' || '0' <= c && c <= '9' {
		return '0'
	}
	return jsontext.Kind(c)
}

// Raw returns the value as written, sharing the document's memory.
func (v *Value) Raw() []byte { return v.src[v.Start:v.End:v.End] }

// Holds reports whether another value of the same document is the value itself
// or stands in it.
func (v *Value) Holds(other *Value) bool { return v.Start <= other.Start && other.End <= v.End }

// IsObject reports whether the value is an object. No value is none.
func (v *Value) IsObject() bool { return v != nil && v.Kind == jsontext.KindBeginObject }

// IsArray reports whether the value is an array. No value is none.
func (v *Value) IsArray() bool { return v != nil && v.Kind == jsontext.KindBeginArray }

// Fields returns the members of an object in the order of the source, none for
// any other value. They must not be changed.
func (v *Value) Fields() []Field {
	if v == nil {
		return nil
	}
	return v.fields
}

// Elements returns the elements of an array, none for any other value. They
// must not be changed.
func (v *Value) Elements() []*Value {
	if v == nil {
		return nil
	}
	return v.entries
}

// Get returns the member of an object, the last of several of one name, or nil.
func (v *Value) Get(name string) *Value {
	fields := v.Fields()
	for i := len(fields) - 1; i >= 0; i-- {
		if fields[i].Name == name {
			return fields[i].Value
		}
	}
	return nil
}

// Repeated returns a member name that stands twice in the object itself.
func (v *Value) Repeated() (name string, ok bool) {
	fields := v.Fields()
	if len(fields) <= fewMembers {
		for i, f := range fields {
			if slices.ContainsFunc(fields[:i], func(before Field) bool { return before.Name == f.Name }) {
				return f.Name, true
			}
		}
		return "", false
	}
	seen := make(map[string]bool, len(fields))
	for _, f := range fields {
		if seen[f.Name] {
			return f.Name, true
		}
		seen[f.Name] = true
	}
	return "", false
}

// Text returns the text of a string; ok is false for any other value, and for
// no value.
func (v *Value) Text() (text string, ok bool) {
	if v == nil || v.Kind != '"' {
		return "", false
	}
	return Unquote(v.Raw())
}

// Texts returns the texts of an array of strings.
func (v *Value) Texts() (texts []string, ok bool) {
	if !v.IsArray() {
		return nil, false
	}
	texts = make([]string, len(v.entries))
	for i, e := range v.entries {
		if texts[i], ok = e.Text(); !ok {
			return nil, false
		}
	}
	return texts, true
}

// Is reports whether the value is written as the literal: true, false or null.
func (v *Value) Is(literal string) bool { return v != nil && string(v.Raw()) == literal }

// All yields the value and everything in it, each before what it contains.
func (v *Value) All() iter.Seq[*Value] {
	return func(yield func(*Value) bool) { v.visit(yield) }
}

func (v *Value) visit(yield func(*Value) bool) bool {
	if v == nil {
		return true
	}
	if !yield(v) {
		return false
	}
	for _, f := range v.fields {
		if !f.Value.visit(yield) {
			return false
		}
	}
	for _, e := range v.entries {
		if !e.visit(yield) {
			return false
		}
	}
	return true
}
