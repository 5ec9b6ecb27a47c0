package config

import (
	"bytes"
	"errors"
	"io"
	"regexp"

	"github.com/go-json-experiment/json/jsontext"
)

// parseJSON reads JSON with comments and trailing commas. It returns nil for a text
// that has no value in it, and where it has added an error.
func parseJSON(data []byte, f *faults) *node {
	plain := plainJSON(data)
	p := jsonParser{source: newSource(data), faults: f}
	if len(bytes.TrimSpace(plain)) == 0 {
		return nil
	}
	// Repeated names are told apart here, where they are all found.
	p.dec = jsontext.NewDecoder(bytes.NewReader(plain), jsontext.AllowDuplicateNames(true))
	root, err := p.value(0)
	if err == nil {
		if _, more := p.dec.ReadToken(); more == nil {
			f.add(p.position(int(p.dec.InputOffset())-1), "there is more after the end of the object; a file is one object")
			return nil
		} else if !errors.Is(more, io.EOF) {
			err = more
		}
	}
	if err != nil {
		p.syntax(err)
		return nil
	}
	return root
}

type jsonParser struct {
	source
	dec    *jsontext.Decoder
	faults *faults
}

var errTooDeep = errors.New("nested too deep")

func (p *jsonParser) value(depth int) (*node, error) {
	if depth > MaxDepth {
		return nil, errTooDeep
	}
	switch p.dec.PeekKind() {
	case jsontext.KindBeginObject:
		return p.object(depth)
	case jsontext.KindBeginArray:
		return p.list(depth)
	}
	raw, err := p.dec.ReadValue()
	if err != nil {
		return nil, err
	}
	n := &node{text: string(raw), at: p.position(int(p.dec.InputOffset()) - len(raw))}
	switch raw.Kind() {
	case jsontext.KindString:
		n.kind = kindText
		n.text, err = unquote(raw)
	case jsontext.KindNumber:
		n.kind = kindNumber
	case jsontext.KindTrue, jsontext.KindFalse:
		n.kind = kindBool
	}
	return n, err
}

func (p *jsonParser) object(depth int) (*node, error) {
	n, err := p.open(kindObject)
	if err != nil {
		return nil, err
	}
	names := seen{}
	for p.dec.PeekKind() != jsontext.KindEndObject {
		raw, err := p.dec.ReadValue()
		if err != nil {
			return nil, err
		}
		m := member{at: p.position(int(p.dec.InputOffset()) - len(raw))}
		if m.name, err = unquote(raw); err != nil {
			return nil, err
		}
		if m.value, err = p.value(depth + 1); err != nil {
			return nil, err
		}
		if !names.twice(m.name, m.at, p.faults) {
			n.members = append(n.members, m)
		}
	}
	_, err = p.dec.ReadToken()
	return n, err
}

func (p *jsonParser) list(depth int) (*node, error) {
	n, err := p.open(kindList)
	if err != nil {
		return nil, err
	}
	for p.dec.PeekKind() != jsontext.KindEndArray {
		item, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		n.items = append(n.items, item)
	}
	_, err = p.dec.ReadToken()
	return n, err
}

func (p *jsonParser) open(k kind) (*node, error) {
	_, err := p.dec.ReadToken()
	return &node{kind: k, at: p.position(int(p.dec.InputOffset()) - 1)}, err
}

func unquote(raw jsontext.Value) (string, error) {
	text, err := jsontext.AppendUnquote(nil, raw)
	return string(text), err
}

// quoted are what the decoder's errors hold of the text, which may be a secret.
var quoted = regexp.MustCompile("(invalid character|invalid escape sequence|invalid surrogate pair) ('[^']+'|`[^`]*`|\"(?:[^\"\\\\]|\\\\.)*\")")

// syntax adds an error of the decoder's.
func (p *jsonParser) syntax(err error) {
	var broken *jsontext.SyntacticError
	switch {
	case errors.Is(err, errTooDeep):
		p.faults.add(p.position(int(p.dec.InputOffset())), "lists and objects are nested more than %d deep", MaxDepth)
	case errors.Is(err, io.ErrUnexpectedEOF):
		p.faults.add(p.position(len(p.data)), "the file ends in the middle of a value; a closing bracket or quote is missing")
	case errors.As(err, &broken) && broken.Err != nil:
		p.faults.add(p.position(int(broken.ByteOffset)), "no JSON: %s", quoted.ReplaceAllString(broken.Err.Error(), "$1"))
	default:
		p.faults.add(p.position(int(p.dec.InputOffset())), "no JSON from here on")
	}
}

// plainJSON puts spaces in place of comments and trailing commas, so that every
// other byte stays where it is. What it does not understand it leaves to the
// decoder.
func plainJSON(data []byte) []byte {
	out := bytes.Clone(data)
	comma, before := -1, byte(0) // the last comma if nothing has followed it, and what stands before it
	last := byte(0)
	for i := 0; i < len(out); {
		length, isComment := unit(out[i:])
		end := i + length
		c := out[i]
		switch {
		case isComment:
			blank(out[i:end])
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
		case c == ',':
			comma, before, last = i, last, c
		default:
			trailing := (c == '}' || c == ']') && comma >= 0
			if trailing && before != '{' && before != '[' && before != ',' && before != ':' && before != 0 {
				out[comma] = ' '
			}
			comma, last = -1, c
		}
		i = end
	}
	return out
}

// unit is how long the comment, the string or the single byte is that a text begins
// with.
func unit(text []byte) (length int, isComment bool) {
	switch {
	case bytes.HasPrefix(text, []byte("//")):
		if end := bytes.IndexByte(text, '\n'); end >= 0 {
			return end, true
		}
		return len(text), true
	case bytes.HasPrefix(text, []byte("/*")):
		if end := bytes.Index(text[2:], []byte("*/")); end >= 0 {
			return end + 4, true
		}
	case text[0] == '"':
		for i := 1; i < len(text); i++ {
			switch text[i] {
			case '\\':
				i++
			case '"':
				return i + 1, false
			}
		}
		return len(text), false
	}
	return 1, false
}

func blank(text []byte) {
	for i, c := range text {
		if c != '\n' && c != '\r' {
			text[i] = ' '
		}
	}
}
