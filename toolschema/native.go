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

// nativeNames are the names by which native keys are found. request_id is not
// among them: it is mere correlation as often.
var nativeNames = []string{
	KeyProperty, "idempotencyKey", "idempotency-key", "idempotency_token", "idempotencyToken",
	"client_token", "clientToken", "client_request_token", "clientRequestToken", "requestKey", "clientRequestId",
}

// credential are words by which the description of a client_token tells that it
// is no idempotency key.
var credential = regexp.MustCompile(`(?i)\b(auth\w*|credentials?|secret|session|login|log in|sign in|bearer|access token|api token|jwt|oauth)\b`)

// maxNativeDepth is how deep in the arguments native keys are looked for.
const maxNativeDepth = 3

// A native is a native key with the place of its property in the schema.
type native struct {
	NativeKey
	holder *rawjson.Value // the schema in whose properties it stands; nil where it stands in none
	schema *rawjson.Value
}

// natives finds the native keys of a tool: the one that the operator names, else
// those whose names are known.
func (p Policy) natives(name string, input *rawjson.Value) []native {
	if rule, ok := choose(p.Natives, name, func(r NativeRule) string { return r.Pattern }); ok {
		if rule.Path == nil {
			return nil
		}
		n := native{NativeKey: NativeKey{Path: rule.Path, Shown: rule.Shown, Raw: rule.Raw, Configured: true}}
		n.holder, n.schema = propertyAt(input, rule.Path)
		return []native{n}
	}
	return appendNatives(nil, input, nil)
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

func appendNatives(list []native, holder *rawjson.Value, path []string) []native {
	for _, f := range holder.Get("properties").Fields() {
		at := append(slices.Clone(path), f.Name)
		switch {
		case isNativeName(f.Name, f.Value):
			list = append(list, native{NativeKey: NativeKey{Path: at}, holder: holder, schema: f.Value})
		case len(at) < maxNativeDepth:
			list = appendNatives(list, f.Value, at)
		}
	}
	return list
}

// isNativeName reports whether a property is a native key by its name, unless
// its schema tells otherwise.
func isNativeName(name string, schema *rawjson.Value) bool {
	if !slices.Contains(nativeNames, name) || takesKeys(schema) != nil {
		return false
	}
	text, _ := schema.Get("description").Text()
	return !strings.HasPrefix(strings.ToLower(name), "client") || !credential.MatchString(text)
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
	case !admitsString(schema):
		return errors.New("does not take any string")
	}
	if most := schema.Get("maxLength"); most != nil {
		if n, ok := count(most); !ok || n < MinNativeLength {
			return fmt.Errorf("takes no more than %s characters", shorten(string(most.Raw())))
		}
	}
	if least := schema.Get("minLength"); least != nil {
		if n, ok := count(least); !ok || n > MinNativeLength {
			return fmt.Errorf("takes no fewer than %s characters", shorten(string(least.Raw())))
		}
	}
	if pattern, ok := schema.Get("pattern").Text(); ok {
		if re, err := regexp.Compile(pattern); err == nil && !(re.MatchString(sampleKeys[0]) && re.MatchString(sampleKeys[1])) {
			return fmt.Errorf("has a pattern %q that a UUID does not match", shorten(pattern))
		}
	}
	return nil
}

// admitsString reports whether a property's schema takes strings in general:
// by its own type, or by a branch, as in the usual "string or null".
func admitsString(schema *rawjson.Value) bool {
	if schema.Is("true") {
		return true
	}
	for _, narrowing := range []string{"enum", "const", "$ref", "$dynamicRef", "$recursiveRef", "allOf", "not", "if"} {
		if schema.Get(narrowing) != nil {
			return false
		}
	}
	if !schema.IsObject() || !hasType(schema, "string") {
		return false
	}
	for _, choice := range []string{"anyOf", "oneOf"} {
		if branches := schema.Get(choice); branches != nil && !slices.ContainsFunc(branches.Elements(), admitsString) {
			return false
		}
	}
	return true
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
	if n.Shown = counted || required != nil && !isList || timesNamed(input, name) != mentions || refs.reach(n.holder); n.Shown {
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
