package toolschema

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// A Fingerprint is the SHA-256 of the canonical form of a call's arguments.
// Equal fingerprints of one FingerprintVersion mean equal arguments.
type Fingerprint [sha256.Size]byte

// FingerprintVersion names the canonical form. A fingerprint is compared only
// with those of its own version.
const FingerprintVersion = 1

// MaxDepth is how many objects and arrays may stand inside one another in
// arguments that are fingerprinted.
const MaxDepth = 1000

var errDepth = fmt.Errorf("nested more than %d deep", MaxDepth)

// appendCanonical appends the canonical form of the one JSON value in src.
//
// It is RFC 8785 (members sorted by the UTF-16 code units of their names, no
// white space, the fewest escapes) with two differences. Numbers are exact:
// digits without zeros at either end, and a power of ten, so that 1, 1.0 and
// 10e-1 are one number while 2^53 and 2^53+1, one in plain RFC 8785, are two;
// nothing is ever expanded, so 1e100000000 costs as little as 1. And lone
// surrogates are kept apart from one another instead of being refused.
//
// It fails on a repeated member name (*rawjson.DuplicateError), on nesting
// beyond MaxDepth and on anything but exactly one value.
func appendCanonical(dst, src []byte) ([]byte, error) {
	c := canonicalizer{
		dec: jsontext.NewDecoder(bytes.NewBuffer(src), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)),
		out: dst,
	}
	if err := c.value(0); err != nil {
		return nil, err
	}
	if _, err := c.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	return c.out, nil
}

// A canonicalizer reads from dec and appends to out.
type canonicalizer struct {
	dec *jsontext.Decoder
	out []byte
}

func (c *canonicalizer) value(depth int) error {
	if depth > MaxDepth {
		return errDepth
	}
	switch c.dec.PeekKind() {
	case jsontext.KindBeginObject:
		return c.object(depth)
	case jsontext.KindBeginArray:
		return c.array(depth)
	}
	raw, err := c.dec.ReadValue()
	if err != nil {
		return err
	}
	switch raw.Kind() {
	case '"':
		c.out = appendString(c.out, decodeString(raw))
	case '0':
		c.out = appendNumber(c.out, string(raw))
	default: // true, false, null
		c.out = append(c.out, raw...)
	}
	return nil
}

func (c *canonicalizer) array(depth int) error {
	if _, err := c.dec.ReadToken(); err != nil {
		return err
	}
	c.out = append(c.out, '[')
	for first := true; c.dec.PeekKind() != ']'; first = false {
		if !first {
			c.out = append(c.out, ',')
		}
		if err := c.value(depth + 1); err != nil {
			return err
		}
	}
	c.out = append(c.out, ']')
	_, err := c.dec.ReadToken()
	return err
}

// A span is a member's decoded name and where the written member stands in out,
// without commas.
type span struct {
	name       []byte
	start, end int
}

func (c *canonicalizer) object(depth int) error {
	if _, err := c.dec.ReadToken(); err != nil {
		return err
	}
	c.out = append(c.out, '{')
	start := len(c.out)
	var members []span
	for c.dec.PeekKind() != '}' {
		raw, err := c.dec.ReadValue()
		if err != nil {
			return err
		}
		if len(members) > 0 {
			c.out = append(c.out, ',')
		}
		m := span{name: bytes.Clone(decodeString(raw)), start: len(c.out)}
		c.out = append(appendString(c.out, m.name), ':')
		if err := c.value(depth + 1); err != nil {
			return err
		}
		m.end = len(c.out)
		members = append(members, m)
	}
	if _, err := c.dec.ReadToken(); err != nil {
		return err
	}
	if err := c.sortMembers(start, members); err != nil {
		return err
	}
	c.out = append(c.out, '}')
	return nil
}

// sortMembers puts the members, written from start on, in order.
func (c *canonicalizer) sortMembers(start int, members []span) error {
	byName := func(a, b span) int { return compareUTF16(a.name, b.name) }
	sorted := slices.IsSortedFunc(members, byName)
	if !sorted {
		slices.SortFunc(members, byName)
	}
	for i := 1; i < len(members); i++ {
		if bytes.Equal(members[i-1].name, members[i].name) {
			return &rawjson.DuplicateError{Name: string(members[i].name)}
		}
	}
	if sorted {
		return nil
	}
	asWritten := bytes.Clone(c.out[start:])
	c.out = c.out[:start]
	for i, m := range members {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		c.out = append(c.out, asWritten[m.start-start:m.end-start]...)
	}
	return nil
}

// compareUTF16 orders UTF-8 text by its UTF-16 code units. The two orders differ
// only in that UTF-16 has the surrogates, and so everything that takes four
// bytes in UTF-8, before U+E000 to U+FFFF (RFC 8785, 3.2.3).
func compareUTF16(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return int(unitOrder(a[i])) - int(unitOrder(b[i]))
		}
	}
	return len(a) - len(b)
}

// unitOrder moves the first bytes EE and EF of U+E000 to U+FFFF behind F0 to FF.
func unitOrder(first byte) byte {
	switch {
	case first >= 0xF0:
		return first - 2
	case first >= 0xEE:
		return first + 16
	}
	return first
}

// decodeString returns the text of a valid JSON string in UTF-8. A lone
// surrogate becomes the three bytes that its code point would have, so that
// different ones stay different; bytes that are no UTF-8 stay as they are.
func decodeString(raw []byte) []byte {
	body := raw[1 : len(raw)-1]
	if bytes.IndexByte(body, '\\') < 0 {
		return body
	}
	out := make([]byte, 0, len(body))
	for len(body) > 0 {
		at := bytes.IndexByte(body, '\\')
		if at < 0 {
			return append(out, body...)
		}
		out = append(out, body[:at]...)
		body = body[at:]
		if body[1] != 'u' {
			out = append(out, unescape(body[1]))
			body = body[2:]
			continue
		}
		unit, size := hexUnit(body), 6
		if utf16.IsSurrogate(unit) && len(body) >= 12 && body[6] == '\\' && body[7] == 'u' {
			if pair := utf16.DecodeRune(unit, hexUnit(body[6:])); pair != utf8.RuneError {
				unit, size = pair, 12
			}
		}
		out = appendRune(out, unit)
		body = body[size:]
	}
	return out
}

func unescape(letter byte) byte {
	const letters, meant = "bfnrt", "\b\f\n\r\t"
	if i := strings.IndexByte(letters, letter); i >= 0 {
		return meant[i]
	}
	return letter // " \ /
}

// hexUnit reads the code unit of a \uXXXX escape.
func hexUnit(escape []byte) rune {
	unit, _ := strconv.ParseUint(string(escape[2:6]), 16, 16) // the syntax has been checked
	return rune(unit)
}

// appendRune is utf8.AppendRune, but for surrogates too.
func appendRune(dst []byte, r rune) []byte {
	if utf16.IsSurrogate(r) {
		return append(dst, 0xE0|byte(r>>12), 0x80|byte(r>>6)&0x3F, 0x80|byte(r)&0x3F)
	}
	return utf8.AppendRune(dst, r)
}

// appendString writes a string with the escapes of RFC 8785, 3.2.2.2.
func appendString(dst, text []byte) []byte {
	const letters = "\b\t\n\f\r"
	dst = append(dst, '"')
	for _, b := range text {
		switch {
		case b == '"' || b == '\\':
			dst = append(dst, '\\', b)
		case b >= 0x20:
			dst = append(dst, b)
		case strings.IndexByte(letters, b) >= 0:
			dst = append(dst, '\\', "btnfr"[strings.IndexByte(letters, b)])
		default:
			dst = fmt.Appendf(dst, `\u%04x`, b)
		}
	}
	return append(dst, '"')
}
