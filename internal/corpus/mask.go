package main

import (
	"bytes"
	"strconv"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// longText is the number of characters above which a string that is neither
// prose by its place nor kept by it is taken for prose.
const longText = 40

// A place is what a value is for, which decides what of it is masked.
type place int

const (
	inSchema place = iota // a schema or a tool: its members are keywords
	inNames               // an object whose members are named as the server likes, and are schemas
	inData                // anything: long strings are masked
	inProse               // all strings are masked
	inKept                // nothing is masked
)

// keywords has the places of the members of schemas and tools. Others are data.
var keywords = map[string]place{
	"tools": inSchema, "annotations": inSchema, "inputSchema": inSchema, "outputSchema": inSchema, "execution": inSchema,

	"properties": inNames, "patternProperties": inNames, "dependentSchemas": inNames, "dependencies": inNames,
	"$defs": inNames, "definitions": inNames,

	"items": inSchema, "prefixItems": inSchema, "additionalItems": inSchema, "contains": inSchema,
	"additionalProperties": inSchema, "propertyNames": inSchema,
	"unevaluatedItems": inSchema, "unevaluatedProperties": inSchema, "contentSchema": inSchema,
	"allOf": inSchema, "anyOf": inSchema, "oneOf": inSchema, "not": inSchema,
	"if": inSchema, "then": inSchema, "else": inSchema,

	"name": inKept, "nextCursor": inKept, "type": inKept, "format": inKept, "enum": inKept, "const": inKept,
	"pattern": inKept, "required": inKept, "dependentRequired": inKept, "discriminator": inKept,
	"contentEncoding": inKept, "contentMediaType": inKept,
	"$schema": inKept, "$id": inKept, "id": inKept, "$ref": inKept, "$anchor": inKept,
	"$dynamicRef": inKept, "$dynamicAnchor": inKept, "$recursiveRef": inKept, "$vocabulary": inKept,

	"title": inProse, "description": inProse, "examples": inProse, "example": inProse, "$comment": inProse,
	"summary": inProse, "markdownDescription": inProse, "deprecationMessage": inProse,
	"errorMessage": inProse, "enumNames": inProse, "enumDescriptions": inProse,
}

// member returns the place of an object's member.
func (p place) member(name string) place {
	keyword, known := keywords[name]
	switch p {
	case inNames:
		return inSchema
	case inSchema:
		if known {
			return keyword
		}
		return inData
	case inData:
		if keyword == inProse {
			return inProse
		}
	}
	return p
}

// masks reports whether a quoted string is masked.
func (p place) masks(quoted []byte) bool {
	text, _ := rawjson.Unquote(quoted)
	return p == inProse || p == inData && utf8.RuneCountInString(text) > longText
}

// mask returns a result of tools/list in which prose is made unreadable: the
// letters of descriptions, titles, examples, and of other strings longer than 40
// characters. Each is replaced by an x, or an X where it is upper case; digits,
// punctuation and spaces stay. So does every byte of names, schemas, enums,
// patterns, references and hints, and all white space of the JSON.
func mask(result []byte) ([]byte, error) {
	m := masker{src: result, dec: jsontext.NewDecoder(bytes.NewBuffer(result),
		jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
	if err := m.value(inSchema); err != nil {
		return nil, err
	}
	return append(m.out, m.src[m.copied:]...), nil
}

type masker struct {
	dec    *jsontext.Decoder
	src    []byte
	out    []byte
	copied int // bytes of src that are in out, as they were or masked
}

// value masks the next value.
func (m *masker) value(p place) error {
	switch m.dec.PeekKind() {
	case jsontext.KindBeginObject:
		return m.members(p)
	case jsontext.KindBeginArray:
		return m.elements(p)
	case jsontext.KindString:
		return m.text(p)
	}
	return m.dec.SkipValue()
}

func (m *masker) members(p place) error {
	if _, err := m.dec.ReadToken(); err != nil {
		return err
	}
	for m.dec.PeekKind() == jsontext.KindString {
		quoted, err := m.dec.ReadValue()
		if err != nil {
			return err
		}
		name, _ := rawjson.Unquote(quoted)
		if err := m.value(p.member(name)); err != nil {
			return err
		}
	}
	_, err := m.dec.ReadToken()
	return err
}

func (m *masker) elements(p place) error {
	if _, err := m.dec.ReadToken(); err != nil {
		return err
	}
	for k := m.dec.PeekKind(); k != jsontext.KindEndArray && k != jsontext.KindInvalid; k = m.dec.PeekKind() {
		if err := m.value(p); err != nil {
			return err
		}
	}
	_, err := m.dec.ReadToken()
	return err
}

func (m *masker) text(p place) error {
	quoted, err := m.dec.ReadValue()
	if err != nil || !p.masks(quoted) {
		return err
	}
	end := int(m.dec.InputOffset())
	m.out = append(m.out, m.src[m.copied:end-len(quoted)]...)
	m.out = appendMasked(m.out, quoted)
	m.copied = end
	return nil
}

// appendMasked appends a quoted string with its letters masked. Escapes that
// stand for no letter are kept.
func appendMasked(out, quoted []byte) []byte {
	for len(quoted) > 0 {
		size, r := character(quoted)
		switch {
		case !unicode.IsLetter(r):
			out = append(out, quoted[:size]...)
		case unicode.IsUpper(r):
			out = append(out, 'X')
		default:
			out = append(out, 'x')
		}
		quoted = quoted[size:]
	}
	return out
}

// character returns the size and the meaning of the first character of a part of
// a quoted string, which is utf8.RuneError where it is no letter anyway.
func character(quoted []byte) (size int, r rune) {
	if quoted[0] != '\\' {
		r, size = utf8.DecodeRune(quoted)
		return size, r
	}
	if quoted[1] != 'u' {
		return len(`\n`), utf8.RuneError
	}
	first := codeUnit(quoted)
	if !utf16.IsSurrogate(first) {
		return escapeSize, first
	}
	r = utf8.RuneError
	if rest := quoted[escapeSize:]; bytes.HasPrefix(rest, []byte(`\u`)) {
		r = utf16.DecodeRune(first, codeUnit(rest))
	}
	if r == utf8.RuneError { // half of a pair
		return escapeSize, r
	}
	return 2 * escapeSize, r
}

const escapeSize = len(`\u00e9`)

// codeUnit returns the UTF-16 code unit of an escape, which the decoder has
// found to be well-formed.
func codeUnit(escape []byte) rune {
	unit, _ := strconv.ParseUint(string(escape[2:escapeSize]), 16, 16)
	return rune(unit)
}
