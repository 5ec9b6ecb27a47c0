package toolschema

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// A NativeKey is a property of a tool's own that takes an idempotency key.
// Whether the upstream honours it is another question: only the operator can
// say so, with class DEDUPLICATE.
type NativeKey struct {
	// Path are the names from the arguments down to the property.
	Path []string
	// Shown says that the property stands in the offered schema. A hidden one is
	// only filled in on the way upstream.
	Shown bool
	// Raw says that the property gets the caller's key as it is, in place of the
	// one derived from it.
	Raw bool
	// Configured says that the operator has named it; else it was found by its
	// name.
	Configured bool
}

// String returns the path as ParseNativeRule reads it: params.client_token,
// meta["idempotency-key"].
func (k NativeKey) String() string {
	var b strings.Builder
	for i, name := range k.Path {
		switch {
		case !plainStep.MatchString(name):
			b.WriteString(`[` + string(rawjson.Quote(name)) + `]`)
		case i > 0:
			b.WriteString("." + name)
		default:
			b.WriteString(name)
		}
	}
	return b.String()
}

var plainStep = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$-]*$`)

// A NativeRule is the operator's word on the native key of the tools that its
// pattern names.
type NativeRule struct {
	Pattern string   // as of an Override
	Path    []string // nil: what looks like a native key is none
	Shown   bool     // see NativeKey
	Raw     bool
}

// ParseNativeRule reads "GLOB=PATH", with ",shown" or ",raw" behind it where
// wanted. PATH is names joined by dots, or none; a name that has other
// characters than letters, digits, - and _ is written ["so.so"].
func ParseNativeRule(s string) (NativeRule, error) {
	pattern, rest, ok := strings.Cut(s, "=")
	if !ok || pattern == "" {
		return NativeRule{}, fmt.Errorf("native key %q: want GLOB=PATH", s)
	}
	if !validGlob(pattern) {
		return NativeRule{}, fmt.Errorf("native key %q: bad glob %q", s, pattern)
	}
	rule := NativeRule{Pattern: pattern}
	for {
		before, word, ok := cutLast(rest, ",")
		if !ok || word != "shown" && word != "raw" {
			break
		}
		rule.Shown, rule.Raw, rest = rule.Shown || word == "shown", rule.Raw || word == "raw", before
	}
	if rest == "none" {
		return rule, nil
	}
	var err error
	if rule.Path, err = parsePath(rest); err != nil {
		return NativeRule{}, fmt.Errorf("native key %q: %w", s, err)
	}
	return rule, nil
}

func cutLast(s, sep string) (before, after string, ok bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

var pathStep = regexp.MustCompile(`^(?:\.?([A-Za-z_$][A-Za-z0-9_$-]*)|\[("(?:[^"\\]|\\.)*")\])`)

func parsePath(s string) (path []string, err error) {
	if s == "" || s[0] == '.' {
		return nil, fmt.Errorf("%q is no path to a property: want for instance body.idempotency_key", s)
	}
	for rest := s; rest != ""; {
		m := pathStep.FindStringSubmatch(rest)
		if m == nil || len(path) > 0 && m[1] != "" && rest[0] != '.' {
			return nil, fmt.Errorf("%q is no path to a property, from %q on: want for instance body.idempotency_key", s, rest)
		}
		name := m[1]
		if m[2] != "" {
			if name, _ = rawjson.Unquote([]byte(m[2])); name == "" {
				return nil, fmt.Errorf("%q has an empty name", s)
			}
		}
		path, rest = append(path, name), rest[len(m[0]):]
	}
	return path, nil
}

// A native is a native key with the place of its property in the schema.
type native struct {
	NativeKey
	holder *rawjson.Value // the schema in whose properties it stands; nil where it stands in none
	schema *rawjson.Value
}

// isKey reports whether it is the very property that the caller's key comes in.
func (k NativeKey) isKey() bool { return len(k.Path) == 1 && k.Path[0] == KeyProperty }

// natives finds the native keys of a tool: the one that the operator names, else
// those whose names are known.
func (p Policy) natives(name string, input *rawjson.Value) []native {
	if rules := Naming(p.Natives, name, func(r NativeRule) string { return r.Pattern }); len(rules) > 0 {
		rule := rules[len(rules)-1]
		if rule.Path == nil {
			return nil
		}
		n := native{NativeKey: NativeKey{Path: rule.Path, Shown: rule.Shown, Raw: rule.Raw, Configured: true}}
		if n.holder, n.schema = propertyAt(input, rule.Path); n.holder == nil {
			n.Shown = true // if it is there at all
		}
		return []native{n}
	}
	return findNatives(input)
}

func propertyAt(schema *rawjson.Value, path []string) (holder, property *rawjson.Value) {
	for _, name := range path {
		holder, schema = schema, schema.Get("properties").Get(name)
	}
	if schema == nil {
		return nil, nil
	}
	return holder, schema
}

// MinNativeLength is the shortest maxLength, in characters, that a native key's
// property may have: a derived key is a UUID in text form.
const MinNativeLength = 36

// sampleKeys are texts as derived keys look: UUIDs of version 8.
var sampleKeys = []string{"0b1f6e1c-3d2a-8f4e-9a6b-7c5d4e3f2a1b", "fedcba98-7654-8321-bfed-cba987654321"}

// takesKeys says why a property does not take any derived key, or nil.
func takesKeys(schema *rawjson.Value) error {
	switch {
	case schema.Is("true"):
		return nil
	case !schema.IsObject():
		return errors.New("is no schema that can be described")
	case !hasType(schema, "string"):
		return errors.New("does not take any string")
	}
	for _, f := range schema.Fields() {
		if err := takesKeysBy(f.Name, f.Value); err != nil {
			return err
		}
	}
	return nil
}

func takesKeysBy(keyword string, value *rawjson.Value) error {
	n, _ := count(value)
	text, _ := value.Text()
	switch keyword {
	case "enum", "const", "$ref", "$dynamicRef", "$recursiveRef", "allOf", "not", "if":
		return fmt.Errorf("has %s, by which it may not take every key", keyword)
	case "anyOf", "oneOf": // as in the usual "string or null"
		if !slices.ContainsFunc(value.Elements(), func(branch *rawjson.Value) bool { return takesKeys(branch) == nil }) {
			return fmt.Errorf("has %s, none of which takes every key", keyword)
		}
	case "maxLength":
		if n < MinNativeLength {
			return fmt.Errorf("takes no more than %s characters", shorten(string(value.Raw())))
		}
	case "minLength":
		if n > MinNativeLength {
			return fmt.Errorf("takes no fewer than %s characters", shorten(string(value.Raw())))
		}
	case "format":
		if text != "uuid" {
			return fmt.Errorf("has a format %q that a UUID is not of", shorten(text))
		}
	case "pattern":
		re, err := compilePattern(text)
		if err != nil || !re.MatchString(sampleKeys[0]) || !re.MatchString(sampleKeys[1]) {
			return fmt.Errorf("has a pattern %q that a UUID may not match", shorten(text))
		}
	}
	return nil
}

// checkConfigured refuses a native key of the operator's that does not take what
// it would get.
func checkConfigured(natives []native) error {
	for _, n := range natives {
		if !n.Configured || n.Raw || n.schema == nil {
			continue
		}
		if err := takesKeys(n.schema); err != nil {
			return fmt.Errorf("has a native key %s that %w", n, err)
		}
	}
	return nil
}

// longestKey is how long a caller's key may be, in characters: no longer than a
// property takes that gets it as it is.
func longestKey(natives []native) int {
	longest := MaxKeyLength
	for _, n := range natives {
		if most := n.schema.Get("maxLength"); n.Raw && most != nil {
			if limit, ok := count(most); ok && limit >= MinKeyLength {
				longest = min(longest, int(min(limit, MaxKeyLength)))
			}
		}
	}
	return longest
}

// hide takes the property out of the offered schema, as far as that is safe:
// nothing else in the schema may speak of it, count it, or refer to what holds
// it.
func (n *native) hide(input *rawjson.Value, refs *references, edits *rawjson.Edits) {
	name := n.Path[len(n.Path)-1]
	required := n.holder.Get("required")
	names, isList := required.Texts()
	at := slices.Index(names, name)
	mentions := 1
	if at >= 0 {
		mentions++
	}
	counted := n.holder.Get("minProperties") != nil || n.holder.Get("maxProperties") != nil
	if n.Shown = counted || present(required) && !isList || timesNamed(input, name) != mentions || refs.reach(n.holder); n.Shown {
		return
	}
	edits.RemoveMembers(n.holder.Get("properties"), name)
	switch {
	case at < 0:
	case len(names) > 1 || n.holder == input: // to which our key comes
		edits.RemoveElements(required, at)
	default: // an empty list is not lawful in draft 04
		edits.RemoveMembers(n.holder, "required")
	}
}

// timesNamed counts the members and strings in a value that are the name.
func timesNamed(v *rawjson.Value, name string) (n int) {
	for inner := range v.All() {
		for _, f := range inner.Fields() {
			if f.Name == name {
				n++
			}
		}
		if text, ok := inner.Text(); ok && text == name {
			n++
		}
	}
	return n
}
