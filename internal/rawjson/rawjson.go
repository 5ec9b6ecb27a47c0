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

// A Member is one name and value of an object. The offsets count bytes of the
// object's source.
type Member struct {
	Name  string // unescaped
	Value []byte // as written; shares memory with the source
	start int    // where the quoted name begins
	value int    // where the value begins
	end   int    // where the value ends
}

// An Object is a parsed view of a JSON object. It is read-only and safe for
// concurrent use as long as its source is not changed.
type Object struct {
	src     []byte
	members []Member
	index   map[string]int // into members; nil for the few that are found as quickly without
	close   int            // offset of the closing brace
}

// fewMembers is how many members are looked through one by one.
const fewMembers = 16

// lenient reads what peers really send: repeated names and lone surrogates in
// nested values are theirs to answer for, and are handed on as they are.
var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// ParseObject reads the members of the one JSON object in src. Nested values
// are checked for syntax only. It fails on anything but exactly one object, and
// with a *DuplicateError when a member name is repeated at the top level.
func ParseObject(src []byte) (Object, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(src), lenient...)
	if err := open(dec, jsontext.KindBeginObject, ErrNotObject); err != nil {
		return Object{}, err
	}
	o := Object{src: src}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadValue()
		if err != nil {
			return Object{}, err
		}
		m := Member{start: int(dec.InputOffset()) - len(name)}
		unquoted, err := jsontext.AppendUnquote(nil, name)
		if err != nil && unquoted == nil {
			return Object{}, err
		}
		m.Name = string(unquoted)
		if _, ok := o.Get(m.Name); ok {
			return Object{}, &DuplicateError{Name: m.Name}
		}
		value, err := dec.ReadValue()
		if err != nil {
			return Object{}, err
		}
		m.end = int(dec.InputOffset())
		m.value = m.end - len(value)
		m.Value = src[m.value:m.end:m.end]
		o.add(m)
	}
	if err := shut(dec); err != nil {
		return Object{}, err
	}
	o.close = int(dec.InputOffset()) - 1
	return o, end(dec)
}

func (o *Object) add(m Member) {
	o.members = append(o.members, m)
	switch {
	case o.index != nil:
		o.index[m.Name] = len(o.members) - 1
	case len(o.members) > fewMembers:
		o.index = make(map[string]int, 4*fewMembers)
		for i, m := range o.members {
			o.index[m.Name] = i
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
	return slices.IndexFunc(o.members, func(m Member) bool { return m.Name == name })
}

// ParseArray returns the elements of the one JSON array in src, sharing its
// memory.
func ParseArray(src []byte) ([][]byte, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(src), lenient...)
	if err := open(dec, jsontext.KindBeginArray, ErrNotArray); err != nil {
		return nil, err
	}
	var elements [][]byte
	for k := dec.PeekKind(); k != ']' && k != 0; k = dec.PeekKind() {
		value, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		stop := int(dec.InputOffset())
		elements = append(elements, src[stop-len(value):stop:stop])
	}
	if err := shut(dec); err != nil {
		return nil, err
	}
	return elements, end(dec)
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

// Members returns the members in the order of the source.
func (o Object) Members() []Member { return slices.Clone(o.members) }

// Get returns the value of the member, as written.
func (o Object) Get(name string) ([]byte, bool) {
	if i := o.find(name); i >= 0 {
		return o.members[i].Value, true
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

// Set returns the object with the member's value replaced, or with the member
// added at the end. Everything else keeps its bytes.
func (o Object) Set(name string, value []byte) []byte {
	if i := o.find(name); i >= 0 {
		m := o.members[i]
		return slices.Concat(o.src[:m.value], value, o.src[m.end:])
	}
	comma := ""
	if len(o.members) > 0 {
		comma = ","
	}
	return slices.Concat(o.src[:o.close], []byte(comma), Quote(name), []byte(":"), value, o.src[o.close:])
}

// Without returns the object less the named members, each with the one comma
// that it no longer needs. Without any of them it returns the source itself.
func (o Object) Without(names ...string) []byte {
	out := make([]byte, 0, len(o.src))
	from, kept := 0, 0
	for i, m := range o.members {
		if !slices.Contains(names, m.Name) {
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

// Unquote returns the text of a JSON string; ok is false for any other value.
func Unquote(value []byte) (text string, ok bool) {
	if len(value) == 0 || value[0] != '"' {
		return "", false
	}
	unquoted, err := jsontext.AppendUnquote(nil, value)
	return string(unquoted), err == nil || unquoted != nil
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

func open(dec *jsontext.Decoder, kind jsontext.Kind, other error) error {
	if got := dec.PeekKind(); got != kind {
		if err := dec.SkipValue(); err != nil {
			return err
		}
		return other
	}
	_, err := dec.ReadToken()
	return err
}

func shut(dec *jsontext.Decoder) error {
	_, err := dec.ReadToken()
	return err
}

// end makes sure that nothing but white space follows the value.
func end(dec *jsontext.Decoder) error {
	rest := dec.UnreadBuffer()
	if i := bytes.IndexFunc(rest, func(r rune) bool { return r != ' ' && r != '\t' && r != '\r' && r != '\n' }); i >= 0 {
		return fmt.Errorf("unexpected data after the JSON value at byte %d", int(dec.InputOffset())+i)
	}
	return nil
}
