package toolschema

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A schemaCase is one small schema of testdata/schemas, written to break the
// rewriting. Accepts and Rejects say what the original does, so that the case
// cannot pass by describing something else than its name says.
type schemaCase struct {
	Name   string
	Schema json.RawMessage
	Raw    string   // in place of Schema, where that would not be kept as written
	Draft  []string // in which Accepts and Rejects hold, unless $schema decides; nil for draft-07 and 2020-12
	// Accepts and Rejects are objects without any of the additions.
	Accepts, Rejects []map[string]any
	// Expect is "rewritten", "problem", or "either" where both are lawful. In
	// every case the rule holds if it is rewritten.
	Expect string
	Reason string // part of the Problem
	// Repeat is Expect for a tool that is offered the repeat member as well.
	Repeat string
	// Output is "annotated", "left" or "either"; absent for what Expect implies.
	Output string
}

var dialects = map[string]*jsonschema.Draft{
	"draft-04": jsonschema.Draft4, "draft-06": jsonschema.Draft6, "draft-07": jsonschema.Draft7,
	"2019-09": jsonschema.Draft2019, "2020-12": jsonschema.Draft2020,
}

// usualDialects are those in which clients read a schema that names none: the
// rule has to hold in both.
var usualDialects = []string{"draft-07", "2020-12"}

// keywordsByDraft are the words that each draft's meta-schema added.
var keywordsByDraft = map[string]string{
	"draft-04": "id $schema $ref title description default multipleOf maximum exclusiveMaximum minimum exclusiveMinimum maxLength " +
		"minLength pattern additionalItems items maxItems minItems uniqueItems maxProperties minProperties required " +
		"additionalProperties definitions properties patternProperties dependencies enum type format allOf anyOf oneOf not",
	"draft-06": "$id const contains examples propertyNames",
	"draft-07": "$comment if then else readOnly writeOnly contentMediaType contentEncoding",
	"2019-09": "$anchor $recursiveRef $recursiveAnchor $vocabulary $defs dependentSchemas dependentRequired unevaluatedItems " +
		"unevaluatedProperties maxContains minContains contentSchema deprecated",
	"2020-12": "prefixItems $dynamicRef $dynamicAnchor",
}

func schemaCases(t testing.TB) []schemaCase {
	t.Helper()
	files, err := filepath.Glob("testdata/schemas/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var all []schemaCase
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		dec := json.NewDecoder(bytes.NewReader(content))
		dec.DisallowUnknownFields()
		dec.UseNumber()
		var cases []schemaCase
		require.NoError(t, dec.Decode(&cases), file)
		all = append(all, cases...)
	}
	return all
}

func (c schemaCase) source() []byte {
	if c.Raw != "" {
		return []byte(c.Raw)
	}
	return c.Schema
}

// honestIn are the dialects in which Accepts and Rejects hold.
func (c schemaCase) honestIn() []string {
	if c.Draft == nil {
		return usualDialects
	}
	return c.Draft
}

// expectation is what has to become of the schema in the role.
func (c schemaCase) expectation(r role) string {
	switch {
	case r.output && c.Output != "":
		return map[string]string{"annotated": "rewritten", "left": "problem", "either": "either"}[c.Output]
	case r.repeat && c.Repeat != "":
		return c.Repeat
	}
	return c.Expect
}

// objects are those that the case names, and their neighbours.
func (c schemaCase) objects() []map[string]any {
	out := neighbours(map[string]any{})
	for _, o := range slices.Concat(c.Accepts, c.Rejects) {
		out = append(out, neighbours(o)...)
	}
	return out
}

func TestSchemaCasesSayWhatTheOriginalsDo(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, c := range schemaCases(t) {
		require.False(t, names[c.Name], "named twice: %s", c.Name)
		names[c.Name] = true
		require.Contains(t, []string{"rewritten", "problem", "either"}, c.Expect, c.Name)
		for _, dialect := range c.honestIn() {
			schema, err := compileIn(dialect, c.source())
			require.NoError(t, err, "%s in %s", c.Name, dialect)
			for _, o := range c.Accepts {
				assert.NoError(t, schema.Validate(o), "%s in %s: %v", c.Name, dialect, o)
			}
			for _, o := range c.Rejects {
				assert.Error(t, schema.Validate(o), "%s in %s: %v", c.Name, dialect, o)
			}
			assert.NotEmpty(t, slices.Concat(c.Accepts, c.Rejects), c.Name)
		}
	}
	assert.GreaterOrEqual(t, len(names), 100)
}

func TestSchemaCasesKeepTheRuleInEveryRole(t *testing.T) {
	t.Parallel()
	for _, c := range schemaCases(t) {
		for _, r := range roles {
			t.Run(r.name+"/"+c.Name, func(t *testing.T) {
				t.Parallel()
				o := r.offer(t, newUpstreamSchema(c.source()))
				c.requireExpected(t, o)
				if o.refused != "" {
					return
				}
				checked := 0
				for dialect := range dialects {
					// A schema of no draft is read in the usual ones, whatever the case is about.
					if !slices.Contains(slices.Concat(usualDialects, c.Draft), dialect) {
						continue
					}
					p, ok := o.pledge(t, dialect)
					if !ok {
						continue
					}
					checked++
					for _, object := range c.objects() {
						breach := cmp.Or(p.breach(object), p.keyBreach(object))
						require.Empty(t, breach, "in %s\nbefore %s\nafter  %s", dialect, o.before.text, o.after)
					}
				}
				assert.Positive(t, checked)
			})
		}
	}
}

func (c schemaCase) requireExpected(t *testing.T, o offer) {
	t.Helper()
	switch c.expectation(o.role) {
	case "rewritten":
		require.Empty(t, o.refused, "%s", c.source())
	case "problem":
		require.NotEmpty(t, o.refused, "%s", c.source())
		if !o.output {
			require.Contains(t, o.refused, c.Reason)
		}
	}
}

func TestSchemaCasesHoldEveryKeywordOfEveryDraft(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for _, c := range schemaCases(t) {
		if c.Raw == "" {
			var doc any
			require.NoError(t, json.Unmarshal(c.Schema, &doc))
			countKeywords(doc, seen)
		}
	}
	for draft, words := range keywordsByDraft {
		for word := range strings.FieldsSeq(words) {
			assert.Positive(t, seen[word], "%s of %s", word, draft)
		}
	}
}

// countKeywords counts the words of a schema and of those within it, but not the
// names of members, which may look like words.
func countKeywords(schema any, seen map[string]int) {
	if list, ok := schema.([]any); ok {
		for _, s := range list {
			countKeywords(s, seen)
		}
	}
	object, _ := schema.(map[string]any)
	for word, value := range object {
		seen[word]++
		switch word {
		case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
			named, _ := value.(map[string]any)
			for _, s := range named {
				countKeywords(s, seen)
			}
		case "enum", "const", "default", "examples", "required", "dependentRequired":
		default:
			countKeywords(value, seen)
		}
	}
}

// sensors are schemas that see an added member, one for each word that can.
var sensors = map[string]string{
	"additionalProperties":   `{"properties":{"a":{"type":"string"}},"additionalProperties":false}`,
	"additional type":        `{"properties":{"a":{"type":"string"}},"additionalProperties":{"type":"integer"}}`,
	"unevaluatedProperties":  `{"properties":{"a":{"type":"string"}},"unevaluatedProperties":false}`,
	"unevaluated type":       `{"allOf":[{"properties":{"a":{"type":"string"}}}],"unevaluatedProperties":{"type":"integer"}}`,
	"minProperties":          `{"minProperties":1}`,
	"maxProperties":          `{"maxProperties":1}`,
	"propertyNames":          `{"propertyNames":{"maxLength":1}}`,
	"patternProperties":      `{"patternProperties":{"^b":{"type":"integer"}},"additionalProperties":false}`,
	"a closed definition":    `{"$ref":"#/$defs/closed"}`,
	"a definition of closed": `{"$ref":"#/$defs/branch"}`,
}

// places are where a schema can stand so that it applies to the root object.
var places = map[string]string{
	"root": `%s`, "allOf": `{"allOf":[%s]}`, "anyOf": `{"anyOf":[%s,{"required":["b"]}]}`, "oneOf": `{"oneOf":[%s,{"required":["b"]}]}`,
	"not": `{"not":%s}`, "if": `{"if":%s,"then":{"required":["a"]},"else":{"required":["b"]}}`,
	"then": `{"if":{"required":["a"]},"then":%s}`, "else": `{"if":{"required":["a"]},"else":%s}`,
	"dependentSchemas": `{"dependentSchemas":{"a":%s}}`, "dependencies": `{"dependencies":{"a":%s}}`,
	"definition":         `{"$ref":"#/$defs/own"}`,
	"beside unevaluated": `{"anyOf":[%s,{}],"unevaluatedProperties":false}`,
}

// placed puts a sensor into a place within a place of a root.
func placed(outer, inner, sensor string) string {
	own := sensor
	fill := func(place, schema string) string {
		if !strings.Contains(places[place], "%s") {
			own = schema
			return places[place]
		}
		return fmt.Sprintf(places[place], schema)
	}
	root := fill(outer, fill(inner, sensor))
	const definitions = `"$defs":{"own":%s,"closed":{"properties":{"a":{"$ref":"#/$defs/closed"}},"additionalProperties":false},` +
		`"branch":{"oneOf":[{"$ref":"#/$defs/closed"},{"required":["b"],"properties":{"a":{"$ref":"#/$defs/branch"}}}]}}}`
	return root[:len(root)-1] + "," + fmt.Sprintf(definitions, own)
}

var sensed = []map[string]any{
	{}, {"a": "s"}, {"a": json.Number("1")}, {"b": json.Number("1")}, {"b": "s"}, {"a": "s", "b": json.Number("1")}, {"bb": "s", "b": "s"},
	{"a": map[string]any{}}, {"a": map[string]any{KeyProperty: goodKey}}, {"a": map[string]any{OutcomeProperty: map[string]any{}}, "b": "s"},
	{"a": map[string]any{"a": map[string]any{RepeatProperty: "x"}}},
}

func TestEveryWordThatSeesTheKeyKeepsTheRuleInEveryPlace(t *testing.T) {
	t.Parallel()
	for outer := range places {
		t.Run(outer, func(t *testing.T) {
			t.Parallel()
			for inner := range places {
				for word, sensor := range sensors {
					if inner == outer && inner == "definition" || inner == "root" && outer != "root" {
						continue // the one would be its own branch, the other is tested as root and outer
					}
					requirePlaced(t, word, placed(outer, inner, sensor))
				}
			}
		})
	}
}

func requirePlaced(t *testing.T, word, schema string) {
	t.Helper()
	counts := word == "minProperties" || word == "maxProperties"
	upstream := newUpstreamSchema([]byte(schema))
	for _, r := range roles {
		o := r.offer(t, upstream)
		if counts && r.output {
			assert.NotEmpty(t, o.refused, schema)
			continue
		}
		require.Empty(t, o.refused, schema)
		if counts && r.repeat {
			assert.False(t, o.asks(), schema)
		}
		for _, dialect := range usualDialects {
			p, ok := o.pledge(t, dialect)
			require.True(t, ok, schema)
			for _, object := range sensed {
				require.Empty(t, p.breach(object), "in %s\nbefore %s\nafter  %s", dialect, o.before.text, o.after)
			}
		}
	}
}
