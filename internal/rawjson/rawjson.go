// Package rawjson finds the members of a JSON object and edits them in place,
// so that every byte that is not edited stays as it came: member order, white
// space, escapes, and numbers of any size.
//
// Decoding into Go values and encoding again would lose all of that, and a
// gateway has no business rewriting what it merely hands on.
package rawjson

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// ErrNotObject is returned by ParseObject for a value that is valid JSON but
// not an object.
var ErrNotObject = errors.New("not a JSON object")

// ErrNotArray is returned by ParseArray for a value that is valid JSON but not
// an array.
var ErrNotArray = errors.New("not a JSON array")

// A DuplicateError says that an object has two members of one name. Readers of
// such an object disagree about what it says, so it is never guessed.
type DuplicateError struct{ Name string }

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("member %q stands twice in one object", e.Name)
}

// A Member is one name and value of an object.
type Member struct {
	Name  string // unescaped
	Value []byte // as written; shares memory with the source
}

// An Object is a parsed view of a JSON object. It is read-only and safe for
// concurrent use as long as its source is not changed.
type Object struct {
	src     []byte
	members []member
	index   map[string]int // into members; nil for the few that are found as quickly without
	close   int            // offset of the closing brace
}

// A member is where one stands in the source.
type member struct {
	name  string // unescaped
	start int    // where the quoted name begins
	value int    // where the value begins
	end   int    // where the value ends
}

// fewMembers is how many members are looked through one by one.
const fewMembers = 16

// usualMembers is how many members most objects have at most: those of a message.
const usualMembers = 4

// ParseObject reads the members of the one JSON object in src. Nested values
// are checked for syntax only. It fails on anything but exactly one object, and
// with a *DuplicateError when a member name is repeated at the top level.
func ParseObject(src []byte) (Object, error) {
	if err := check(src); err != nil {
		return Object{}, err
	}
	s := scanner{src: src}
	if s.next() != '{' {
		return Object{}, ErrNotObject
	}
	o := Object{src: src, members: make([]member, 0, usualMembers)}
	for s.at++; s.next() != '}'; {
		m := member{start: s.at}
		m.name = s.name()
		if o.find(m.name) >= 0 {
			return Object{}, &DuplicateError{Name: m.name}
		}
		s.next()
		m.value = s.at
		s.skip()
		m.end = s.at
		o.add(m)
	}
	o.close = s.at
	return o, nil
}

func (o *Object) add(m member) {
	o.members = append(o.members, m)
	switch {
	case o.index != nil:
		o.index[m.name] = len(o.members) - 1
	case len(o.members) > fewMembers:
		o.index = make(map[string]int, 4*fewMembers)
		for i, m := range o.members {
			o.index[m.name] = i
		}
	}
}

// find returns the member's place, or -1.
func (o Object) find(name string) int {
	if o.index != nil {
		if i, ok := o.index[name]; ok {
			return i
		}
		return -1
	}
	return slices.IndexFunc(o.members, func(m member) bool { return m.name == name })
}

// ParseArray returns the elements of the one JSON array in src, sharing its
// memory.
func ParseArray(src []byte) ([][]byte, error) {
	if err := check(src); err != nil {
		return nil, err
	}
	s := scanner{src: src}
	if s.next() != '[' {
		return nil, ErrNotArray
	}
	var elements [][]byte
	for s.at++; s.next() != ']'; {
		start := s.at
		s.skip()
		elements = append(elements, src[start:s.at:s.at])
	}
	return elements, nil
}

// AppendElement returns the array src with one more element at its end.
func AppendElement(src, element []byte) ([]byte, error) {
	elements, err := ParseArray(src)
	if err != nil {
		return nil, err
	}
	at := bytes.LastIndexByte(src, ']')
	out := make([]byte, 0, len(src)+len(element)+1)
	out = append(out, src[:at]...)
	if len(elements) > 0 {
		out = append(out, ',')
	}
	out = append(out, element...)
	return append(out, src[at:]...), nil
}

// Raw returns the object as written.
func (o Object) Raw() []byte { return o.src }

// Members returns the members in the order of the source.
func (o Object) Members() []Member {
	members := make([]Member, len(o.members))
	for i, m := range o.members {
		members[i] = Member{m.name, o.valueOf(m)}
	}
	return members
}

func (o Object) valueOf(m member) []byte { return o.src[m.value:m.end:m.end] }

// Get returns the value of the member, as written.
func (o Object) Get(name string) ([]byte, bool) {
	if i := o.find(name); i >= 0 {
		return o.valueOf(o.members[i]), true
	}
	return nil, false
}

// String returns the member's value where it is a JSON string.
func (o Object) String(name string) (string, bool) {
	value, ok := o.Get(name)
	if !ok {
		return "", false
	}
	return Unquote(value)
}

// Set is With for those who want the bytes alone.
func (o Object) Set(name string, value []byte) []byte { return o.With(name, value).src }

// With returns the object with the member's value replaced, or with the member
// added at the end. Everything else keeps its bytes. The value must be one JSON
// value; it is not checked.
func (o Object) With(name string, value []byte) Object {
	i := o.find(name)
	if i < 0 {
		return o.plus(name, value)
	}
	m := o.members[i]
	o.src = slices.Concat(o.src[:m.value], value, o.src[m.end:])
	moved := m.value + len(value) - m.end
	o.members = slices.Clone(o.members)
	o.members[i].end += moved
	for i++; i < len(o.members); i++ {
		later := &o.members[i]
		later.start, later.value, later.end = later.start+moved, later.value+moved, later.end+moved
	}
	o.close += moved
	return o
}

// plus returns the object with one more member at its end.
func (o Object) plus(name string, value []byte) Object {
	comma := ""
	if len(o.members) > 0 {
		comma = ","
	}
	quoted := Quote(name)
	m := member{name: name, start: o.close + len(comma)}
	m.value = m.start + len(quoted) + 1
	m.end = m.value + len(value)
	o.src = slices.Concat(o.src[:o.close], []byte(comma), quoted, []byte(":"), value, o.src[o.close:])
	o.members, o.index, o.close = slices.Clone(o.members), maps.Clone(o.index), m.end
	o.add(m)
	return o
}

// Without returns the object less the named members, each with the one comma
// that it no longer needs. Without any of them it returns the source itself.
func (o Object) Without(names ...string) []byte {
	out := make([]byte, 0, len(o.src))
	from, kept := 0, 0
	for i, m := range o.members {
		if !slices.Contains(names, m.name) {
			kept++
			continue
		}
		switch {
		case kept > 0: // with the comma before it
			out = append(out, o.src[from:o.members[i-1].end]...)
			from = m.end
		case i+1 < len(o.members): // with the comma after it
			out = append(out, o.src[from:m.start]...)
			from = o.members[i+1].start
		default:
			out = append(out, o.src[from:m.start]...)
			from = m.end
		}
	}
	if from == 0 {
		return o.src
	}
	return append(out, o.src[from:]...)
}

// Quote returns s as a JSON string with no more escapes than JSON demands.
func Quote(s string) []byte {
	quoted, _ := jsontext.AppendQuote(nil, s) // the error is about invalid UTF-8, which it replaces
	return quoted
}

// Extend returns a JSON string with a paragraph of text added at its end; what
// stands there keeps its escapes.
func Extend(quoted []byte, text string) []byte {
	body := quoted[:len(quoted)-1]
	if len(body) > 1 {
		text = "\n\n" + text
	}
	return slices.Concat(body, Quote(text)[1:])
}
