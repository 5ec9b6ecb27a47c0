package toolschema

import (
	"regexp"
	"slices"

	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// keyNames are names that a property has for no other reason than that it takes
// an idempotency key.
var keyNames = []string{KeyProperty, "idempotencyKey", "idempotency-key", "idempotency_token", "idempotencyToken"}

// tokenNames are names under which some APIs take an idempotency key, and others
// the token of a device or the key of a request. So it is the description that
// counts. request_id is not among them: it is mere correlation, mostly.
var tokenNames = []string{
	"client_token", "clientToken", "client_request_token", "clientRequestToken", "requestKey", "clientRequestId",
}

// The words of descriptions that tell what such a property is for.
var (
	repetition = regexp.MustCompile(`(?i)idempot|duplicat|\bdedup|\bretr(y|ies|ied)|\brepeat|(exactly|at most|only) once|unique\w*\b.{0,60}\b(request|call|operation)`)
	earlier    = regexp.MustCompile(`(?i)\b(of|for|from) (the|an?|that) \w+ to (cancel|check|find|look|get|approve|void|abort|query|retrieve|fetch|confirm|resume|undo|revert)|` +
		`\b(previous|previously|earlier|original)\b|\bwas (created|made|sent|submitted|used) with\b`)
	// prose has a letter other than x, with which tool lists are masked.
	prose = regexp.MustCompile(`(?i)[a-wyz]`)
)

// Where native keys are looked for, and how many are taken.
const (
	maxNativeDepth = 3 // names from the arguments down
	maxNatives     = 8
	maxSearched    = 2000 // schemas
)

// A search looks for native keys by name.
type search struct {
	refs  *references
	found []native
	seen  int
}

func findNatives(input *rawjson.Value) []native {
	s := search{refs: findReferences(input)}
	s.in(input, nil)
	return s.found
}

// in looks through the properties of a schema, and of those that it is made of.
func (s *search) in(schema *rawjson.Value, path []string) {
	if s.seen++; s.seen > maxSearched || len(s.found) >= maxNatives || !schema.IsObject() {
		return
	}
	required, _ := schema.Get("required").Texts()
	for _, f := range schema.Get("properties").Fields() {
		at := append(slices.Clone(path), f.Name)
		switch {
		case takesKeyByName(f.Name, f.Value, slices.Contains(required, f.Name)):
			s.add(native{NativeKey: NativeKey{Path: at}, holder: schema, schema: f.Value})
		case len(at) < maxNativeDepth:
			s.in(f.Value, at)
		}
	}
	for _, keyword := range []string{"anyOf", "oneOf", "allOf"} {
		for _, branch := range schema.Get(keyword).Elements() {
			s.in(branch, path)
		}
	}
	if ref, ok := schema.Get("$ref").Text(); ok {
		s.in(s.refs.resolve(ref), path)
	}
}

// add keeps a native key, once for each path.
func (s *search) add(n native) {
	known := slices.ContainsFunc(s.found, func(other native) bool { return slices.Equal(other.Path, n.Path) })
	if !known && len(s.found) < maxNatives {
		s.found = append(s.found, n)
	}
}

// takesKeyByName reports whether a property is a native key, by its name and by
// what its description says of it. Filling in anything else would change what
// the caller has asked for.
func takesKeyByName(name string, schema *rawjson.Value, required bool) bool {
	text, _ := schema.Get("description").Text()
	switch {
	case slices.Contains(keyNames, name):
		return !earlier.MatchString(text) && takesKeys(schema) == nil
	case !slices.Contains(tokenNames, name):
		return false
	case prose.MatchString(text):
		return (repetition.MatchString(text) || minting.MatchString(text)) && !earlier.MatchString(text) && takesKeys(schema) == nil
	}
	return !required && takesKeys(schema) == nil
}
