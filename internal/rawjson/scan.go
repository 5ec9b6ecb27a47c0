package rawjson

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// lenient reads what peers really send: repeated names and lone surrogates in
// nested values are theirs to answer for, and are handed on as they are.
var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// check says why src is not one JSON value.
func check(src []byte) error {
	if jsontext.Value(src).IsValid(lenient...) {
		return nil
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(src), lenient...)
	if _, err := dec.ReadValue(); err != nil {
		return err
	}
	return end(dec)
}

// end makes sure that nothing but white space follows the value.
func end(dec *jsontext.Decoder) error {
	rest := dec.UnreadBuffer()
	if i := bytes.IndexFunc(rest, func(r rune) bool { return r != ' ' && r != '\t' && r != '\r' && r != '\n' }); i >= 0 {
		return fmt.Errorf("unexpected data after the JSON value at byte %d", int(dec.InputOffset())+i)
	}
	return nil
}

// A scanner finds where the parts of a JSON value begin and end. It relies on check:
// in a text that is no JSON value it would get lost.
type scanner struct {
	src []byte
	at  int
}

// next moves to the first byte of the next value, name or closing bracket, and
// returns it.
func (s *scanner) next() byte {
	for {
		switch c := s.src[s.at]; c {
		case ' ', '\t', '\r', '\n', ',', ':':
			s.at++
		default:
			return c
		}
	}
}

// skip moves behind the value that begins here.
func (s *scanner) skip() {
	depth := 0
	for {
		switch s.src[s.at] {
		case '"':
			s.skipString()
		case '{', '[':
			depth++
			s.at++
		case '}', ']':
			depth--
			s.at++
		default:
			s.skipToken()
		}
		if depth == 0 {
			return
		}
	}
}

// skipString moves behind the string that begins here.
func (s *scanner) skipString() {
	for {
		s.at += 1 + bytes.IndexByte(s.src[s.at+1:], '"')
		before := s.at
		for s.src[before-1] == '\\' {
			before--
		}
		if (s.at-before)%2 == 0 { // else the quote is escaped
			s.at++
			return
		}
	}
}

// skipToken moves to the end of a number, a literal, or what stands between values.
func (s *scanner) skipToken() {
	for s.at++; s.at < len(s.src); s.at++ {
		switch s.src[s.at] {
		case ' ', '\t', '\r', '\n', ',', ':', '"', '{', '}', '[', ']':
			return
		}
	}
}

// name moves behind the name that begins here, and returns its text.
func (s *scanner) name() string {
	start := s.at
	s.skipString()
	text, _ := Unquote(s.src[start:s.at]) // it is a string
	return text
}

// Unquote returns the text of a JSON string; ok is false for any other value.
func Unquote(value []byte) (text string, ok bool) {
	if len(value) == 0 || value[0] != '"' {
		return "", false
	}
	if isPlain(value) {
		return string(value[1 : len(value)-1]), true
	}
	unquoted, err := jsontext.AppendUnquote(nil, value)
	return string(unquoted), err == nil || unquoted != nil
}

// isPlain reports whether what begins with a quote is a string without escapes, in
// ASCII.
func isPlain(quoted []byte) bool {
	last := len(quoted) - 1
	if last == 0 || quoted[last] != '"' {
		return false
	}
	for _, c := range quoted[1:last] {
		if c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
