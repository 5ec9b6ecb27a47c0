package jsonrpc

import (
	"bytes"
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// SameID reports whether two raw ids name the same request. Strings are
// compared unescaped. Numbers are compared by their exact decimal value: 1, 1.0
// and 1e0 are one id, since some peers know only floating-point numbers, and
// 9007199254740992 and 9007199254740993 are two. A string is never a number.
func SameID(a, b []byte) bool { return IDKey(a) == IDKey(b) }

// IDKey returns a text that is equal for two ids exactly when SameID says that
// they are the same: a key for maps of open requests.
func IDKey(id []byte) string {
	if text, ok := rawjson.Unquote(id); ok {
		return `"` + text
	}
	if !isID(id) {
		return string(id) // absent, or null
	}
	return decimal(string(id))
}

// decimal writes a JSON number as its significant digits and an exponent. One
// whose exponent is beyond all use stays as it is written.
func decimal(number string) string {
	sign, rest := "", number
	if strings.HasPrefix(rest, "-") {
		sign, rest = "-", rest[1:]
	}
	exponent := 0
	if i := strings.IndexAny(rest, "eE"); i >= 0 {
		e, err := strconv.Atoi(rest[i+1:])
		if err != nil || e > math.MaxInt32 || e < math.MinInt32 {
			return number
		}
		rest, exponent = rest[:i], e
	}
	whole, fraction, _ := strings.Cut(rest, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	exponent -= len(fraction)
	significant := strings.TrimRight(digits, "0")
	if significant == "" {
		return "0"
	}
	exponent += len(digits) - len(significant)
	return sign + significant + "e" + strconv.Itoa(exponent)
}

// isID reports whether the value is of a type that a request's id may have.
func isID(value []byte) bool {
	if len(value) == 0 {
		return false
	}
	c := value[0]
	return c == '"' || c == '-' || '0' <= c && c <= '9'
}

// peek returns the id and the method from the top level of an object that is
// broken, or cut off at the end of src, as far as they stand there whole.
func peek(src []byte) (id []byte, method string) {
	dec := jsontext.NewDecoder(bytes.NewReader(src),
		jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if token, err := dec.ReadToken(); err != nil || token.Kind() != '{' {
		return nil, ""
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return id, method
		}
		member := name.String()
		value, err := dec.ReadValue()
		if err != nil || dec.InputOffset() == int64(len(src)) { // cut: a number may go on
			return id, method
		}
		switch {
		case member == "id" && isID(value):
			id = value.Clone()
		case member == "method":
			method, _ = rawjson.Unquote(value)
		}
	}
	return id, method
}
