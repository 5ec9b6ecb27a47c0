package toolschema

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

func both(problem string) []Refusal {
	return []Refusal{{APIAnthropic, problem}, {APIOpenAI, problem}}
}

func anthropic(problem string) []Refusal { return []Refusal{{APIAnthropic, problem}} }

func openai(problem string) []Refusal { return []Refusal{{APIOpenAI, problem}} }

func withName(name string) string {
	return fmt.Sprintf(`{"name":%s,"inputSchema":{"type":"object","properties":{}}}`, rawjson.Quote(name))
}

func TestRefusalsOfNames(t *testing.T) {
	t.Parallel()
	const characters = " is not made of A-Z a-z 0-9 _ - alone"
	for fact, test := range map[string]struct {
		name string
		want []Refusal
	}{
		"letters, digits, underscore and hyphen are taken": {"Get_user-2", nil},
		"64 characters are taken":                          {strings.Repeat("x", 64), nil},
		"65 are too many for OpenAI":                       {strings.Repeat("x", 65), openai("/name has 65 characters, more than 64")},
		"129 are too many for both": {strings.Repeat("x", 129), slices.Concat(
			anthropic("/name has 129 characters, more than 128"), openai("/name has 129 characters, more than 64"))},
		"a dot is refused":            {"users.get", both(`/name "users.get"` + characters)},
		"a space is refused":          {"get user", both(`/name "get user"` + characters)},
		"a line end is refused":       {"get\n", both(`/name "get "` + characters)},
		"a letter beyond ASCII, too":  {"größe", both(`/name "größe"` + characters)},
		"an empty name is no name":    {"", both(`/name ""` + characters)},
		"a name is measured in runes": {strings.Repeat("é", 64), both(`/name "` + strings.Repeat("é", 60) + `…"` + characters)},
	} {
		t.Run(fact, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, Refusals([]byte(withName(test.name))))
		})
	}
}

// refusalsOf returns those of a well-named tool with the input schema.
func refusalsOf(schema string) []Refusal {
	return Refusals([]byte(`{"name":"t","inputSchema":` + schema + `}`))
}

func TestRefusalsOfRootSchemas(t *testing.T) {
	t.Parallel()
	for fact, test := range map[string]struct {
		schema string
		want   []Refusal
	}{
		"an object with properties is taken": {`{"type":"object","properties":{"a.b-c_D9":{"type":"string"}}}`, nil},
		"a type is demanded":                 {`{"properties":{}}`, both(`/inputSchema has no type "object"`)},
		"two types are not the one":          {`{"type":["object","null"],"properties":{}}`, both(`/inputSchema has no type "object"`)},
		"oneOf is refused":                   {`{"type":"object","properties":{},"oneOf":[{}]}`, both("/inputSchema has a root oneOf")},
		"allOf is refused":                   {`{"type":"object","properties":{},"allOf":[{}]}`, both("/inputSchema has a root allOf")},
		"anyOf is refused":                   {`{"type":"object","properties":{},"anyOf":[{}]}`, both("/inputSchema has a root anyOf")},
		"not is refused by OpenAI":           {`{"type":"object","properties":{},"not":{}}`, openai("/inputSchema has a root not")},
		"enum is refused by OpenAI":          {`{"type":"object","properties":{},"enum":[{}]}`, openai("/inputSchema has a root enum")},
		"if, then and else are taken":        {`{"type":"object","properties":{},"if":{},"then":{},"else":{}}`, nil},
		"OpenAI demands properties":          {`{"type":"object"}`, openai("/inputSchema has no properties, not even an empty object")},
		"Anthropic limits property names": {`{"type":"object","properties":{"filter[id]":{}}}`,
			anthropic(`/inputSchema/properties has a name "filter[id]" that is not 1 to 64 of A-Z a-z 0-9 _ . -`)},
		"a property name ends with its last character": {`{"type":"object","properties":{"a\n":{}}}`,
			anthropic(`/inputSchema/properties has a name "a " that is not 1 to 64 of A-Z a-z 0-9 _ . -`)},
		"deeper property names are free": {`{"type":"object","properties":{"a":{"properties":{"b c":{}}}}}`, nil},
		"combinators below are taken":    {`{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"not":{"enum":[1]}}]}}}`, nil},
		"an object below needs no properties": {
			`{"type":"object","properties":{"a":{"type":"object"}}}`, nil},
	} {
		t.Run(fact, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, refusalsOf(test.schema))
		})
	}
}

func TestRefusalsOfSchemasAtAnyDepth(t *testing.T) {
	t.Parallel()
	invalid := func(at, want string) []Refusal {
		return both("/inputSchema/properties/a" + at + " is not " + want + ", as draft 2020-12 of JSON Schema demands")
	}
	pattern := func(at, pattern, construct string) []Refusal {
		return openai(fmt.Sprintf("/inputSchema/properties/a/%s %q uses %s", at, pattern, construct))
	}
	for fact, test := range map[string]struct {
		schema string // of the property a
		want   []Refusal
	}{
		"schemas of all kinds are taken": {`{"type":["string","null"],"enum":[],"const":null,"default":{"type":1},"format":"x","x-own":{"type":"any"}}`, nil},
		"a boolean schema is taken":      {`true`, nil},
		"null is no schema":              {`null`, invalid("", "a schema")},
		"a reference need not resolve":   {`{"$ref":"#/$defs/absent"}`, nil},
		"a property may be called type":  {`{"properties":{"type":{"type":"string"},"required":{}}}`, nil},

		"a tuple of the older drafts": {`{"type":"array","items":[{"type":"number"},{"type":"number"}]}`, invalid("/items", "a schema")},
		"a boolean exclusiveMinimum":  {`{"minimum":0,"exclusiveMinimum":true}`, invalid("/exclusiveMinimum", "a number")},
		"an unknown type":             {`{"type":"any"}`, invalid("/type", "a type or a list of different types")},
		"a type twice":                {`{"type":["string","string"]}`, invalid("/type", "a type or a list of different types")},
		"no type at all":              {`{"type":[]}`, invalid("/type", "a type or a list of different types")},
		"required as a flag":          {`{"required":true}`, invalid("/required", "a list of different names")},
		"required as null":            {`{"required":null}`, invalid("/required", "a list of different names")},
		"a name required twice":       {`{"required":["x","x"]}`, invalid("/required", "a list of different names")},
		"properties as a list":        {`{"properties":[]}`, invalid("/properties", "an object")},
		"a minimum as text":           {`{"minimum":"2024-01-01"}`, invalid("/minimum", "a number")},
		"a length below 0":            {`{"minLength":-1}`, invalid("/minLength", "a whole number from 0")},
		"a length of a half":          {`{"minLength":0.5}`, invalid("/minLength", "a whole number from 0")},
		"a length as text":            {`{"minLength":"1"}`, invalid("/minLength", "a whole number from 0")},
		"a step of 0":                 {`{"multipleOf":0.0}`, invalid("/multipleOf", "a number above 0")},
		"an empty choice":             {`{"anyOf":[]}`, invalid("/anyOf", "a list of schemas")},
		"a description that is null":  {`{"description":null}`, invalid("/description", "a string")},
		"uniqueItems as text":         {`{"uniqueItems":"yes"}`, invalid("/uniqueItems", "true or false")},
		"an enum of one":              {`{"enum":"one"}`, invalid("/enum", "a list")},
		"whole numbers as written":    {`{"minLength":1.0,"maxLength":1e2,"minItems":-0,"multipleOf":1e-9}`, nil},

		"in a branch":             {`{"anyOf":[{},{"type":"x"}]}`, invalid("/anyOf/1/type", "a type or a list of different types")},
		"in a definition":         {`{"$defs":{"p/q~":{"type":"x"}}}`, invalid("/$defs/p~1q~0/type", "a type or a list of different types")},
		"in a dependency":         {`{"dependencies":{"x":["y"],"z":{"type":"x"}}}`, invalid("/dependencies/z/type", "a type or a list of different types")},
		"names that depend":       {`{"dependentRequired":{"x":{}}}`, invalid("/dependentRequired/x", "a list of different names")},
		"not in a default":        {`{"default":{"type":"x"},"examples":[{"type":"x"}],"const":{"type":"x"}}`, nil},
		"not in a foreign member": {`{"x-type":{"type":"x"}}`, nil},

		"an array without items":          {`{"type":"array"}`, openai("/inputSchema/properties/a is an array without items")},
		"an array or null without items":  {`{"type":["null","array"]}`, openai("/inputSchema/properties/a is an array without items")},
		"a tuple without items":           {`{"type":"array","prefixItems":[{}]}`, openai("/inputSchema/properties/a is an array without items")},
		"an array of arrays, no items":    {`{"items":{"type":"array"}}`, openai("/inputSchema/properties/a/items is an array without items")},
		"items that say nothing suffice":  {`{"type":"array","items":{}}`, nil},
		"a Unicode property":              {`{"pattern":"^\\p{L}+$"}`, pattern("pattern", `^\p{L}+$`, `\p`)},
		"a Unicode property in a class":   {`{"pattern":"[^\\P{Cc}]"}`, pattern("pattern", `[^\P{Cc}]`, `\P`)},
		"a code point in braces":          {`{"pattern":"\\u{1F600}"}`, pattern("pattern", `\u{1F600}`, `\u`)},
		"a look ahead":                    {`{"pattern":"^(?!\\.)x"}`, pattern("pattern", `^(?!\.)x`, "look-around")},
		"a look behind":                   {`{"pattern":"(?<=a)b"}`, pattern("pattern", `(?<=a)b`, "look-around")},
		"a named group":                   {`{"pattern":"(?<year>\\d{4})"}`, pattern("pattern", `(?<year>\d{4})`, "(?<name>")},
		"a pattern of names":              {`{"patternProperties":{"^(?=x)":{}}}`, pattern("patternProperties", `^(?=x)`, "look-around")},
		"plain groups are taken":          {`{"pattern":"^(?:a|b)+(c)\\u00e9$"}`, nil},
		"escaped constructs are taken":    {`{"pattern":"\\\\p{L}\\(?=x"}`, nil},
		"a class of such characters, too": {`{"pattern":"[(?=<!]]"}`, nil},
		"a pattern that is no string":     {`{"pattern":1}`, invalid("/pattern", "a string")},
	} {
		t.Run(fact, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, refusalsOf(`{"type":"object","properties":{"a":`+test.schema+`}}`))
		})
	}
}

func TestNoRefusalsOfWhatNoHostHandsOn(t *testing.T) {
	t.Parallel()
	for _, definition := range []string{``, `{`, `[]`, `null`, `{"name":"a b"}`, `{"name":"a b","inputSchema":null}`,
		`{"name":"a b","inputSchema":true}`, `{"name":"a b","inputSchema":{}}x`} {
		assert.Empty(t, Refusals([]byte(definition)), definition)
	}
}

func TestRefusalsAreBounded(t *testing.T) {
	t.Parallel()
	nested := func(levels int) string {
		return strings.Repeat(`{"items":`, levels) + `{"type":"x"}` + strings.Repeat(`}`, levels)
	}
	property := func(schema string) string { return `{"type":"object","properties":{"a":` + schema + `}}` }
	assert.Len(t, refusalsOf(property(nested(maxRefusalDepth-1))), 2)
	assert.Empty(t, refusalsOf(property(nested(maxRefusalDepth))), "deeper than is looked at")
	assert.Empty(t, refusalsOf(property(nested(1_000_000))), "deeper than JSON is read")

	many := strings.Repeat(`{"type":"x"},`, 10*maxRefusals)
	assert.Len(t, refusalsOf(property(`{"anyOf":[`+many+`{}]}`)), maxRefusals)

	for _, r := range refusalsOf(property(`{"properties":{"` + strings.Repeat("x", 1_000_000) + `":{"type":"x"}}}`)) {
		assert.Less(t, len(r.Problem), 300)
	}
}

// metaSchema is that of draft 2020-12 as an independent library has it.
func metaSchema(t require.TestingT) *jsonschema.Schema {
	meta, err := jsonschema.NewCompiler().Compile("https://json-schema.org/draft/2020-12/schema")
	require.NoError(t, err)
	return meta
}

// isInvalid reports whether the refusals say that the schema is none of draft
// 2020-12.
func isInvalid(refusals []Refusal) bool {
	return slices.ContainsFunc(refusals, func(r Refusal) bool { return strings.Contains(r.Problem, "2020-12") })
}

func TestSchemasAreInvalidExactlyByTheMetaSchema(t *testing.T) {
	t.Parallel()
	meta := metaSchema(t)
	names := slices.Sorted(maps.Keys(keywords))
	// Anchors, identifiers and references have patterns that are not checked.
	names = slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, "$") && name != "$defs" && name != "$comment" })
	values := []string{`null`, `true`, `0`, `-0.0`, `-1`, `1.5`, `15e-1`, `10e-1`, `"x"`, `"string"`, `[]`, `["x"]`, `["x","x"]`, `["null","array"]`,
		`{}`, `[{}]`, `[true,1]`, `{"x":{}}`, `{"x":["y"]}`, `{"x":null}`, `{"x":{"type":"x"}}`, `[{"minimum":"x"}]`}
	rapid.Check(t, func(r *rapid.T) {
		member := rapid.Custom(func(r *rapid.T) string {
			return fmt.Sprintf("%q:%s", rapid.SampledFrom(names).Draw(r, "keyword"), rapid.SampledFrom(values).Draw(r, "value"))
		})
		schema := `{"properties":{"a":{` + member.Draw(r, "member") + `}}}`
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
		require.NoError(r, err)
		require.Equal(r, meta.Validate(doc) != nil, isInvalid(refusalsOf(schema)), schema)
	})
}

// requireNoneAdded checks that the tool as it is offered is refused for no more
// than the original.
func requireNoneAdded(t require.TestingT, definition []byte) Tool {
	tool, err := guardAll.Rewrite(definition)
	require.NoError(t, err)
	require.Subset(t, Refusals(definition), Refusals(tool.Definition), "%s", definition)
	return tool
}

func TestRewritingAddsNoRefusalToRealTools(t *testing.T) {
	t.Parallel()
	meta := metaSchema(t)
	for server, page := range corpusPages(t) {
		for _, definition := range corpusTools(t, page) {
			requireNoneAdded(t, definition)
			found := Refusals(definition)
			for _, r := range found {
				t.Logf("%s: %s: %s", server, r.API, r.Problem)
			}
			doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(inputSchema(t, definition))))
			require.NoError(t, err)
			require.Equal(t, meta.Validate(doc) != nil, isInvalid(found), "%s: %s", server, definition)
		}
	}
}

func TestRewritingAddsNoRefusal(t *testing.T) {
	t.Parallel()
	for fact, schema := range map[string]string{
		"no properties":              `{"type":"object"}`,
		"no type":                    `{}`,
		"closed":                     `{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}`,
		"closed, unevaluated":        `{"type":"object","properties":{"a":{}},"unevaluatedProperties":false}`,
		"counted":                    `{"type":"object","properties":{"a":{}},"minProperties":1,"maxProperties":1}`,
		"required":                   `{"type":"object","properties":{"a":{}},"required":["a"]}`,
		"root choice":                `{"type":"object","properties":{"a":{}},"oneOf":[{"required":["a"]},{"properties":{"b":{}},"additionalProperties":false}]}`,
		"root condition":             `{"type":"object","properties":{"a":{}},"if":{"required":["a"]},"then":{"properties":{"b":{}},"additionalProperties":false}}`,
		"root reference":             `{"type":"object","$ref":"#/$defs/d","$defs":{"d":{"type":"object","properties":{"a":{}},"additionalProperties":false}}}`,
		"recursive":                  `{"type":"object","properties":{"a":{"$ref":"#"}}}`,
		"names by pattern":           `{"type":"object","properties":{},"patternProperties":{"^\\p{L}":{}},"propertyNames":{"pattern":"^[a-z_]+$"}}`,
		"bad already":                `{"type":"object","properties":{"a b":{"type":"array"},"c":{"items":[{}],"exclusiveMinimum":true}}}`,
		"with a key of its own":      `{"type":"object","properties":{"idempotency_key":{"type":"string"}}}`,
		"with a bare key of its own": `{"type":"object","properties":{"idempotency_key":true}}`,
		"with a key in an object":    `{"type":"object","properties":{"params":{"type":"object","properties":{"idempotency_key":{"type":"string"}}}}}`,
	} {
		t.Run(fact, func(t *testing.T) {
			t.Parallel()
			requireNoneAdded(t, []byte(`{"name":"create_thing","inputSchema":`+schema+`}`))
		})
	}
}

func TestWhatIsAddedFitsADescription(t *testing.T) {
	t.Parallel()
	for _, text := range []string{guardAll.policyText(), keyText, repeatText} {
		assert.Less(t, utf8.RuneCountInString(text), maxDescription/2, "as the whole description, and beside a short one")
	}
}

// FuzzRefusals checks that any bytes give the same few refusals each time, and
// that rewriting gives no more.
func FuzzRefusals(f *testing.F) {
	for _, schema := range []string{`{}`, `{"type":"object","properties":{"a":{"type":["array"],"pattern":"(?<x>\\p{L})"}}}`,
		`{"allOf":[{"required":["x","x"]}],"properties":{"\ud800":null}}`, `{"dependencies":{"a":[1]},"multipleOf":1e-99999}`} {
		f.Add([]byte(`{"name":"make","inputSchema":` + schema + `}`))
	}
	f.Fuzz(func(t *testing.T, definition []byte) {
		found := Refusals(definition)
		assert.LessOrEqual(t, len(found), maxRefusals)
		assert.Equal(t, found, Refusals(definition))
		tool, err := guardAll.Rewrite(definition)
		if err != nil || len(found) == maxRefusals {
			return
		}
		for _, r := range Refusals(tool.Definition) {
			assert.Contains(t, found, r)
		}
	})
}
