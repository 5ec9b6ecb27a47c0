package toolschema

import (
	"bytes"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// A rootSchema is the schema of an object about to get members injected.
//
// The rule for an edited schema is that it accepts an object with the injected
// members exactly when the original accepts it without them. Members that stand
// in the root's own properties satisfy additionalProperties and
// unevaluatedProperties by themselves (JSON Schema 2020-12 core, 10.3.2.3 and
// 11.3); every other keyword that can see them is either counted up here or
// reported by problem.
type rootSchema struct {
	raw        []byte
	object     rawjson.Object
	properties rawjson.Object
	injected   []string // names about to be added to properties
}

// parseRoot reads the schema. Its error says in a few words what is not
// ordinary about it.
func parseRoot(raw []byte) (rootSchema, error) {
	s := rootSchema{raw: raw}
	var err error
	if s.object, err = rawjson.ParseObject(raw); err != nil {
		return s, fmt.Errorf("is unreadable: %w", err)
	}
	if !admits(s.object, "object") {
		return s, fmt.Errorf("is of a type other than object")
	}
	properties, ok := s.object.Get("properties")
	if !ok {
		properties = []byte("{}")
	}
	if s.properties, err = rawjson.ParseObject(properties); err != nil {
		return s, fmt.Errorf("has unreadable properties: %w", err)
	}
	return s, nil
}

func (s rootSchema) has(name string) bool {
	_, ok := s.properties.Get(name)
	return ok
}

// counted reports whether the schema limits the number of members.
func (s rootSchema) counted() bool {
	_, least := s.object.Get("minProperties")
	_, most := s.object.Get("maxProperties")
	return least || most
}

// check reports the first keyword that would see the injected members and
// cannot be edited in place.
func (s rootSchema) check() error {
	for _, m := range s.object.Members() {
		if err := s.checkKeyword(m.Name, m.Value); err != nil {
			return err
		}
	}
	return s.checkReferences()
}

func (s rootSchema) checkKeyword(name string, value []byte) error {
	switch name {
	case "$ref", "$dynamicRef", "$recursiveRef", "const", "enum", "extends", "disallow", "propertyDependencies":
		return fmt.Errorf("has %s at its root", name)
	case "anyOf", "oneOf", "allOf", "not", "if", "then", "else":
		if !s.indifferentKeyword(name, value) {
			return fmt.Errorf("has a root %s that may not admit the key", name)
		}
	case "dependentSchemas", "dependentRequired", "dependencies":
		if !s.indifferentKeyword(name, value) {
			return fmt.Errorf("has %s that may involve the key", name)
		}
	case "required":
		return s.checkRequired(value)
	case "patternProperties":
		return s.checkPatterns(value)
	case "propertyNames":
		if !admitsNames(value, s.injected) {
			return fmt.Errorf("has propertyNames that may refuse the key")
		}
	case "$schema":
		if old, _ := rawjson.Unquote(value); strings.Contains(old, "draft-03") {
			return fmt.Errorf("is of draft 03")
		}
	}
	return nil
}

func (s rootSchema) checkRequired(value []byte) error {
	names, ok := stringList(value)
	if !ok {
		return fmt.Errorf("has a required that is not a list of names")
	}
	for _, name := range s.injected {
		if slices.Contains(names, name) {
			return fmt.Errorf("requires %s, which its properties lack", name)
		}
	}
	return nil
}

func (s rootSchema) checkPatterns(value []byte) error {
	patterns, err := rawjson.ParseObject(value)
	if err != nil {
		return fmt.Errorf("has unreadable patternProperties: %w", err)
	}
	for _, m := range patterns.Members() {
		if mayMatch(m.Name, s.injected) {
			return fmt.Errorf("has a patternProperties %q that may match the key", shorten(m.Name))
		}
	}
	return nil
}

// indifferentKeyword reports whether the keyword says the same of an object
// with and without the injected members.
func (s rootSchema) indifferentKeyword(name string, value []byte) bool {
	switch name {
	case "title", "description", "$comment", "default", "examples", "deprecated", "type":
		return true
	case "additionalProperties", "unevaluatedProperties":
		return string(value) == "true"
	case "required":
		names, ok := stringList(value)
		return ok && !slices.ContainsFunc(names, s.isInjected)
	case "not", "if", "then", "else":
		return s.indifferent(value)
	case "anyOf", "oneOf", "allOf":
		branches, err := rawjson.ParseArray(value)
		return err == nil && !slices.ContainsFunc(branches, func(b []byte) bool { return !s.indifferent(b) })
	case "properties":
		o, err := rawjson.ParseObject(value)
		return err == nil && !slices.ContainsFunc(o.Members(), func(m rawjson.Member) bool { return s.isInjected(m.Name) })
	case "dependentRequired", "dependentSchemas", "dependencies":
		o, err := rawjson.ParseObject(value)
		return err == nil && !slices.ContainsFunc(o.Members(), s.mayDepend)
	}
	return false
}

// indifferent is indifferentKeyword for a whole schema.
func (s rootSchema) indifferent(schema []byte) bool {
	if text := string(schema); text == "true" || text == "false" {
		return true
	}
	o, err := rawjson.ParseObject(schema)
	return err == nil && !slices.ContainsFunc(o.Members(), func(m rawjson.Member) bool {
		return !s.indifferentKeyword(m.Name, m.Value)
	})
}

// mayDepend reports whether a dependency, a list of names or a schema, hangs on
// the injected members or sees them.
func (s rootSchema) mayDepend(m rawjson.Member) bool {
	if s.isInjected(m.Name) {
		return true
	}
	if names, ok := stringList(m.Value); ok {
		return slices.ContainsFunc(names, s.isInjected)
	}
	return !s.indifferent(m.Value)
}

func (s rootSchema) isInjected(name string) bool { return slices.Contains(s.injected, name) }

// checkReferences refuses a reference from anywhere to the root, since what it
// stands for would demand the injected members of a nested object as well.
func (s rootSchema) checkReferences() error {
	if !bytes.Contains(s.raw, []byte(`ef"`)) && !bytes.Contains(s.raw, []byte(`\u`)) {
		return nil // no $ref, $dynamicRef or $recursiveRef, however spelled
	}
	var names, ids []string // by which the root is referred to
	for _, keyword := range []string{"$anchor", "$dynamicAnchor"} {
		if name, ok := s.object.String(keyword); ok {
			names = append(names, "#"+name)
		}
	}
	for _, keyword := range []string{"$id", "id"} {
		if id, ok := s.object.String(keyword); ok {
			ids = append(ids, id)
		}
	}
	for _, ref := range references(s.raw) {
		toRoot := ref == "" || ref == "#" || slices.Contains(names, ref) ||
			slices.ContainsFunc(ids, func(id string) bool { return mayBeSame(ref, id) })
		if toRoot {
			return fmt.Errorf("has a recursive reference %q to its root", shorten(ref))
		}
	}
	return nil
}

// mayBeSame compares the last path segments of a reference and of the root's
// id: nested ids may change what the reference is relative to, but not that.
func mayBeSame(ref, id string) bool {
	r, errRef := url.Parse(ref)
	i, errID := url.Parse(id)
	if errRef != nil || errID != nil {
		return true
	}
	if r.Path == "" && r.Opaque == "" && r.Host == "" {
		return false // a mere fragment, compared by name elsewhere
	}
	return path.Base(r.Path) == path.Base(i.Path) && r.Opaque == i.Opaque && !strings.HasPrefix(r.Fragment, "/")
}

// references returns the targets of all references in the schema, at any depth.
func references(schema []byte) []string {
	dec := jsontext.NewDecoder(bytes.NewBuffer(schema), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	var refs []string
	refers := false
	for {
		token, err := dec.ReadToken()
		if err != nil {
			return refs // the end: the schema has been parsed before
		}
		if token.Kind() == '"' && refers {
			refs = append(refs, token.String())
		}
		kind, length := dec.StackIndex(dec.StackDepth())
		isName := kind == jsontext.KindBeginObject && length%2 == 1 && token.Kind() == '"'
		refers = isName && slices.Contains([]string{"$ref", "$dynamicRef", "$recursiveRef"}, token.String())
	}
}

// admits reports whether the schema's type, where it states one, includes the
// given one.
func admits(schema rawjson.Object, typ string) bool {
	value, ok := schema.Get("type")
	if !ok {
		return true
	}
	if one, ok := rawjson.Unquote(value); ok {
		return one == typ
	}
	types, ok := stringList(value)
	return ok && slices.Contains(types, typ)
}

// admitsNames reports whether a propertyNames schema is known to accept all the
// names.
func admitsNames(schema []byte, names []string) bool {
	if string(schema) == "true" {
		return true
	}
	o, err := rawjson.ParseObject(schema)
	if err != nil {
		return false
	}
	return !slices.ContainsFunc(o.Members(), func(m rawjson.Member) bool {
		return slices.ContainsFunc(names, func(name string) bool { return !admitsName(m, name, o) })
	})
}

func admitsName(m rawjson.Member, name string, schema rawjson.Object) bool {
	switch m.Name {
	case "title", "description", "$comment":
		return true
	case "type":
		return admits(schema, "string")
	case "minLength":
		n, err := strconv.Atoi(string(m.Value))
		return err == nil && n <= len(name)
	case "maxLength":
		n, err := strconv.Atoi(string(m.Value))
		return err == nil && n >= len(name)
	case "enum":
		list, ok := stringList(m.Value)
		return ok && slices.Contains(list, name)
	case "pattern":
		text, ok := rawjson.Unquote(m.Value)
		re, err := regexp.Compile(text)
		return ok && err == nil && re.MatchString(name)
	}
	return false
}

// mayMatch reports whether a pattern matches one of the names. A pattern that
// only other dialects of regular expressions know is taken to.
func mayMatch(pattern string, names []string) bool {
	re, err := regexp.Compile(pattern)
	return err != nil || slices.ContainsFunc(names, re.MatchString)
}

// stringList reads an array of strings.
func stringList(value []byte) ([]string, bool) {
	elements, err := rawjson.ParseArray(value)
	if err != nil {
		return nil, false
	}
	list := make([]string, len(elements))
	for i, e := range elements {
		var ok bool
		if list[i], ok = rawjson.Unquote(e); !ok {
			return nil, false
		}
	}
	return list, true
}
