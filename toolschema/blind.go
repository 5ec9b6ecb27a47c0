package toolschema

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// An addition is a member that the described object gets besides its own.
type addition struct {
	name     string
	schema   []byte // what the root's properties are to say of it
	required bool
	object   bool // its values are objects; else strings of MinKeyLength to MaxKeyLength characters
}

// A blinding edits a schema so that it says of an object with the additions
// what it said of the object without them.
//
// JSON Schema is compositional: what a schema says of an object depends on its
// keywords and on what the subschemas that apply to the same object (in place
// applicators: 2020-12 core, 10.2) say. So it is enough to make every keyword
// blind for the additions, in the root and in every subschema that applies to
// the same object. A name in a schema's own properties satisfies its
// additionalProperties and unevaluatedProperties (core, 10.3.2.3 and 11.3);
// limits of the number of members go up; propertyNames admits the names; and
// what cannot be edited in place is an error. Subschemas for nested values never
// see the additions and are not touched.
type blinding struct {
	root   *rawjson.Value
	added  []addition
	refs   *references
	edits  rawjson.Edits // in place
	copied map[*rawjson.Value]*definition
	order  []*definition
	named  int                     // the last number in a copy's name
	tried  int                     // patterns
	size   int                     // of all copies
	seen   map[*rawjson.Value]bool // the references that blind has dealt with
	moved  []*rawjson.Value        // what stands one level deeper than before
}

// A definition is the edited copy of a schema that a reference refers to. The
// original stays for those that refer to it from elsewhere.
type definition struct {
	pointer string // empty while it is made, and where nothing had to be edited
	name    string
	text    []byte
	made    bool
}

// What one schema may have, so that a hostile one costs no more time than its size
// is worth. Published schemas have less than a hundredth of it.
const (
	maxCopied     = 1 << 18 // bytes of copied definitions
	maxReferences = 2000
	maxPatterns   = 30
	maxPattern    = 300 // bytes
)

// errCounted says that a schema counts members, and an optional addition cannot
// be counted.
var errCounted = errors.New("limits the number of members")

func newBlinding(root *rawjson.Value, added []addition) *blinding {
	return &blinding{
		root: root, added: added, refs: findReferences(root),
		copied: map[*rawjson.Value]*definition{}, seen: map[*rawjson.Value]bool{},
	}
}

// blind edits a schema that applies to the object. An error says in a few words
// what in it cannot be edited.
func (b *blinding) blind(schema *rawjson.Value, edits *rawjson.Edits) error {
	if schema.Is("true") || schema.Is("false") {
		return nil
	}
	if !schema.IsObject() {
		return fmt.Errorf("has a subschema that is none: %s", shorten(string(schema.Raw())))
	}
	if name, ok := schema.Repeated(); ok {
		return fmt.Errorf("has the member %q twice in one schema", shorten(name))
	}
	for _, f := range schema.Fields() {
		if err := b.blindKeyword(f.Name, f.Value, edits); err != nil {
			return err
		}
	}
	return nil
}

// blindBranch is blind for a schema other than the root: closed for other
// members, it admits the additions.
func (b *blinding) blindBranch(schema *rawjson.Value, edits *rawjson.Edits) error {
	if err := b.blind(schema, edits); err != nil {
		return err
	}
	if !closed(schema) || len(b.added) == 0 {
		return nil
	}
	var members []byte
	for i, a := range b.added {
		if i > 0 {
			members = append(members, ',')
		}
		members = append(append(members, rawjson.Quote(a.name)...), ":{}"...)
	}
	appendTo(schema, "properties", members, edits)
	return nil
}

// closed reports whether a schema says something of members that it does not
// name.
func closed(schema *rawjson.Value) bool {
	for _, keyword := range []string{"additionalProperties", "unevaluatedProperties"} {
		if rest := schema.Get(keyword); rest != nil && !rest.Is("true") {
			return true
		}
	}
	return false
}

// present reports whether a member is there. Encoders write null for what is not.
func present(value *rawjson.Value) bool { return value != nil && !value.Is("null") }

// appendTo adds members to an object that is a member of another, or makes it.
func appendTo(object *rawjson.Value, name string, members []byte, edits *rawjson.Edits) {
	switch inner := object.Get(name); {
	case inner.IsObject():
		edits.Append(inner, members)
		return
	case inner != nil: // null
		edits.Replace(inner.Start, inner.End, slices.Concat([]byte("{"), members, []byte("}")))
		return
	}
	edits.Append(object, slices.Concat(rawjson.Quote(name), []byte(":{"), members, []byte("}")))
}

func (b *blinding) blindKeyword(name string, value *rawjson.Value, edits *rawjson.Edits) error {
	if !present(value) && (name == "properties" || name == "required") {
		return nil // as encoders write an empty list or map that was never made
	}
	switch name {
	case "allOf", "anyOf", "oneOf":
		return b.blindAll(name, value, edits)
	case "not", "if", "then", "else":
		return b.blindBranch(value, edits)
	case "dependentSchemas", "dependentRequired", "dependencies":
		return b.blindDependencies(name, value, edits)
	case "$ref":
		return b.blindReference(value, edits)
	case "properties":
		return b.checkProperties(value)
	case "required":
		return b.checkRequired(value)
	case "patternProperties":
		return b.checkPatterns(value)
	case "propertyNames":
		return b.blindNames(value, edits)
	case "minProperties", "maxProperties":
		return b.blindCount(name, value, edits)
	case "const":
		return checkNoObjects(name, []*rawjson.Value{value})
	case "enum":
		return checkNoObjects(name, value.Elements())
	case "$schema":
		if text, _ := value.Text(); strings.Contains(text, "draft-03") {
			return errors.New("is of draft 03")
		}
	case "$dynamicRef", "$recursiveRef", "extends", "disallow", "propertyDependencies":
		return fmt.Errorf("has %s where %s has to be admitted", name, KeyProperty)
	}
	return nil
}

func (b *blinding) blindAll(name string, value *rawjson.Value, edits *rawjson.Edits) error {
	if !value.IsArray() {
		return fmt.Errorf("has %s that is no list", name)
	}
	for _, branch := range value.Elements() {
		if err := b.blindBranch(branch, edits); err != nil {
			return err
		}
	}
	return nil
}

// blindDependencies takes all three spellings: what hangs on a member is a list
// of names or a schema for the whole object.
func (b *blinding) blindDependencies(name string, value *rawjson.Value, edits *rawjson.Edits) error {
	if !value.IsObject() {
		return fmt.Errorf("has %s that is no object", name)
	}
	for _, f := range value.Fields() {
		names, isList := f.Value.Texts()
		if b.isAdded(f.Name) || slices.ContainsFunc(names, b.isAdded) {
			return fmt.Errorf("has %s that involves %s", name, KeyProperty)
		}
		if isList || f.Value.Kind == '"' { // draft 03 and 04 know a single name
			continue
		}
		if err := b.blindBranch(f.Value, edits); err != nil {
			return err
		}
	}
	return nil
}

func (b *blinding) isAdded(name string) bool {
	return slices.ContainsFunc(b.added, func(a addition) bool { return a.name == name })
}

func (b *blinding) checkProperties(value *rawjson.Value) error {
	if !value.IsObject() {
		return errors.New("has properties that are no object")
	}
	if name, ok := value.Repeated(); ok {
		return fmt.Errorf("has the property %q twice", shorten(name))
	}
	for _, f := range value.Fields() {
		if b.isAdded(f.Name) {
			return fmt.Errorf("has a property %s of its own in one place", f.Name)
		}
	}
	return nil
}

func (b *blinding) checkRequired(value *rawjson.Value) error {
	names, ok := value.Texts()
	switch {
	case !ok:
		return errors.New("has a required that is not a list of names")
	case slices.ContainsFunc(names, b.isAdded):
		return fmt.Errorf("has a required with %s, and no such property", KeyProperty)
	}
	return nil
}

// checkPatterns refuses a pattern that the name of an addition matches, unless
// it takes whatever the addition may be.
func (b *blinding) checkPatterns(value *rawjson.Value) error {
	if !value.IsObject() {
		return errors.New("has patternProperties that are no object")
	}
	for _, f := range value.Fields() {
		for _, a := range b.added {
			if !a.alwaysTaken(f.Value) && b.mayMatch(f.Name, a.name) {
				return fmt.Errorf("has a patternProperties %q that may match %s", shorten(f.Name), a.name)
			}
		}
	}
	return nil
}

// alwaysTaken reports whether a schema is known to take every value that the
// addition may have.
func (a addition) alwaysTaken(schema *rawjson.Value) bool {
	if schema.Is("true") {
		return true
	}
	if !schema.IsObject() {
		return false
	}
	return !slices.ContainsFunc(schema.Fields(), func(f rawjson.Field) bool { return !a.takenBy(f.Name, f.Value, schema) })
}

func (a addition) takenBy(keyword string, value, schema *rawjson.Value) bool {
	n, isNumber := count(value)
	switch keyword {
	case "title", "description", "$comment", "default", "examples", "deprecated", "readOnly", "writeOnly":
		return true
	case "type":
		return a.object && hasType(schema, "object") || !a.object && hasType(schema, "string")
	case "minLength":
		return a.object || isNumber && n <= MinKeyLength
	case "maxLength":
		return a.object || isNumber && n >= MaxKeyLength
	}
	return false
}

// foreignSyntax is syntax that means something else, or nothing, in regular
// expressions of ECMA-262, which are those of JSON Schema.
var foreignSyntax = regexp.MustCompile(`\\[AzQECpPaZG]|\(\?[a-zA-Z]|\[\[:|\\[1-9]`)

// mayMatch reports whether a pattern matches the name. A pattern that Go does
// not know as ECMA-262 does is taken to, and so is one too many or too long.
func (b *blinding) mayMatch(pattern, name string) bool {
	if b.tried++; b.tried > maxPatterns {
		return true
	}
	re, err := compilePattern(pattern)
	return err != nil || re.MatchString(name)
}

// compilePattern compiles a pattern that means the same in Go as in ECMA-262.
func compilePattern(pattern string) (*regexp.Regexp, error) {
	if len(pattern) > maxPattern || foreignSyntax.MatchString(pattern) {
		return nil, errors.New("a pattern that cannot be tried")
	}
	return regexp.Compile(pattern)
}

// blindNames lets propertyNames take the names of the additions. Those of the
// object's own members are judged as before.
func (b *blinding) blindNames(value *rawjson.Value, edits *rawjson.Edits) error {
	if b.takesNames(value) {
		return nil
	}
	names := make([]string, len(b.added))
	for i, a := range b.added {
		names[i] = string(rawjson.Quote(a.name))
	}
	edits.Insert(value.Start, fmt.Appendf(nil, `{"anyOf":[{"enum":[%s]},`, strings.Join(names, ",")))
	edits.Insert(value.End, []byte("]}"))
	b.moved = append(b.moved, value)
	return nil
}

// takesNames reports whether the most usual kinds of propertyNames are known to
// take the names as they are.
func (b *blinding) takesNames(schema *rawjson.Value) bool {
	if schema.Is("true") {
		return true
	}
	if !schema.IsObject() {
		return false
	}
	for _, f := range schema.Fields() {
		for _, a := range b.added {
			if !takesName(f, schema, a.name) {
				return false
			}
		}
	}
	return true
}

func takesName(f rawjson.Field, schema *rawjson.Value, name string) bool {
	n, isNumber := count(f.Value)
	switch f.Name {
	case "title", "description", "$comment":
		return true
	case "type":
		return hasType(schema, "string")
	case "minLength":
		return isNumber && n <= float64(len(name))
	case "maxLength":
		return isNumber && n >= float64(len(name))
	case "pattern":
		text, ok := f.Value.Text()
		re, err := compilePattern(text)
		return ok && err == nil && re.MatchString(name)
	}
	return false
}

// blindCount raises a limit by the number of members that always come along.
func (b *blinding) blindCount(name string, value *rawjson.Value, edits *rawjson.Edits) error {
	n, ok := count(value)
	switch {
	case !ok || n < 0 || n != math.Trunc(n):
		return fmt.Errorf("has a %s of %s", name, shorten(string(value.Raw())))
	case slices.ContainsFunc(b.added, func(a addition) bool { return !a.required }):
		return errCounted
	case len(b.added) == 0 || n > 1<<50: // no object has as many
		return nil
	}
	edits.Replace(value.Start, value.End, strconv.AppendInt(nil, int64(n)+int64(len(b.added)), 10))
	return nil
}

// count reads a number that limits a number of things.
func count(value *rawjson.Value) (n float64, ok bool) {
	if value.Kind != '0' {
		return 0, false
	}
	n, err := strconv.ParseFloat(string(value.Raw()), 64)
	return n, err == nil || errors.Is(err, strconv.ErrRange)
}

// checkNoObjects refuses values that an object with additions cannot equal any
// more.
func checkNoObjects(name string, values []*rawjson.Value) error {
	if slices.ContainsFunc(values, (*rawjson.Value).IsObject) {
		return fmt.Errorf("has %s with an object where %s has to be admitted", name, KeyProperty)
	}
	return nil
}

// hasType reports whether the schema's type, where it states one, includes the
// given one.
func hasType(schema *rawjson.Value, typ string) bool {
	value := schema.Get("type")
	if value == nil {
		return true
	}
	if one, ok := value.Text(); ok {
		return one == typ
	}
	types, ok := value.Texts()
	return ok && slices.Contains(types, typ)
}
