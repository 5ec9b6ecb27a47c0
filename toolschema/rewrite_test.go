package toolschema

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func rewrite(t *testing.T, p Policy, definition string) Tool {
	t.Helper()
	tool, err := p.Rewrite([]byte(definition))
	require.NoError(t, err, definition)
	return tool
}

func TestRewriteAddsAndKeepsEveryOtherByte(t *testing.T) {
	t.Parallel()
	p := Policy{Window: 168 * time.Hour, StatusTool: "idempotency_status"}
	tool := rewrite(t, p, `{ "name":"create_x","description":"Makes \u0041n x.","x-y":1.0,
 "inputSchema":{"type":"object","properties":{"n":{"maximum":1e400}} , "required":["n"],"additionalProperties":false},
 "annotations":{"readOnlyHint":false,"odd":null},"_meta":{"a":1}}`)
	assert.Equal(t, `{ "name":"create_x","description":"Makes \u0041n x.\n\n`+p.policyText()+`","x-y":1.0,
 "inputSchema":{"type":"object","properties":{"n":{"maximum":1e400},"idempotency_key":`+string(keySchema())+
		`,"idempotency_repeat_of":`+string(repeatSchema())+`} , "required":["idempotency_key","n"],"additionalProperties":false},
 "annotations":{"readOnlyHint":false,"odd":null},"_meta":{"a":1,"mcp-idem/policy":`+
		`{"class":"NON_RETRYABLE","window_seconds":604800,"near_duplicate":"confirm","status_tool":"idempotency_status"}}}`, string(tool.Definition))
	assert.Equal(t, "create_x", tool.Name)
	assert.True(t, tool.Keyed())
	assert.True(t, tool.AnnotatesOutput)
	assert.False(t, tool.HasOutputSchema)
}

func TestRewriteCreatesWhatIsAbsent(t *testing.T) {
	t.Parallel()
	tool := rewrite(t, Policy{}, `{"name":"click","inputSchema":{"type":"object"}}`)
	assert.Equal(t, `{"name":"click","inputSchema":{"type":"object","properties":{"idempotency_key":`+string(keySchema())+
		`},"required":["idempotency_key"]},"description":"`+Policy{}.policyText()+
		`","_meta":{"mcp-idem/policy":{"class":"NON_RETRYABLE","window_seconds":0,"near_duplicate":"off"}}}`, string(tool.Definition))
}

func TestTheKeySchemaSaysWhatItHasTo(t *testing.T) {
	t.Parallel()
	var schema struct {
		Type, Description    string
		MinLength, MaxLength int
		Pattern, Format      *string
	}
	require.NoError(t, json.Unmarshal(keySchema(), &schema))
	assert.Equal(t, "string", schema.Type)
	assert.Equal(t, []int{MinKeyLength, MaxKeyLength}, []int{schema.MinLength, schema.MaxLength})
	assert.Nil(t, schema.Pattern)
	assert.Nil(t, schema.Format)
	for _, part := range []string{ExampleKey, "verb:thing:occurrence", "one key per intended effect", "SAME key", "new intent", "personal data"} {
		assert.Contains(t, schema.Description, part)
	}
}

func TestWindowIsSpelledInItsLargestWholeUnit(t *testing.T) {
	t.Parallel()
	for window, want := range map[time.Duration]string{
		168 * time.Hour: "7 days", 24 * time.Hour: "1 day", 36 * time.Hour: "36 hours", time.Hour: "1 hour",
		90 * time.Minute: "90 minutes", 61 * time.Second: "61 seconds", 0: "0 seconds",
	} {
		assert.Equal(t, want, spell(window))
		assert.Contains(t, Policy{Window: window}.policyText(), want)
	}
}

func TestReadOnlyToolsAreNeverRewritten(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{`{"$ref":"#/$defs/x"}`, `true`, `null`, `{"type":"object","properties":{"idempotency_key":{}}}`} {
		definition := `{"name":"get_x","inputSchema":` + schema + `,"outputSchema":{"additionalProperties":false}}`
		tool := rewrite(t, Policy{}, definition)
		assert.Equal(t, definition, string(tool.Definition))
		assert.Empty(t, tool.Problem)
		assert.False(t, tool.Keyed())
		assert.Empty(t, tool.Natives)
		assert.False(t, tool.AnnotatesOutput)
		call := parseCall(t, `{"name":"get_x","arguments":{"idempotency_key":"k"}}`)
		kept := strings.Contains(string(call.Forward(tool, "", "")), "idempotency_key")
		assert.Equal(t, strings.Contains(schema, "idempotency_key"), kept, "a key stays only where the schema has it")
	}
}

func TestUnreadableDefinitionsAreErrors(t *testing.T) {
	t.Parallel()
	for _, definition := range []string{``, `[]`, `{}`, `{"name":1}`, `{"name":""}`, `{"name":"a","name":"b"}`} {
		_, err := Policy{}.Rewrite([]byte(definition))
		require.Error(t, err, definition)
	}
}

func TestShapesThatCannotTakeAKeyAreNamed(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		`null`:                              "is unreadable",
		`true`:                              "is unreadable",
		`{"type":"string"}`:                 "type other than object",
		`{"type":["array","null"]}`:         "type other than object",
		`{"properties":[]}`:                 "properties that are no object",
		`{"properties":{"a":{},"a":{}}}`:    "property \"a\" twice",
		`{"type":"object","type":"object"}`: "member \"type\" twice",
		`{"required":true}`:                 "required that is not a list",
		`{"required":["idempotency_key"]}`:  "has a required with idempotency_key",
		`{"const":{}}`:                      "has const with an object",
		`{"enum":[null,{}]}`:                "has enum with an object",
		`{"anyOf":[{"const":{"a":1}}]}`:     "has const with an object",
		`{"anyOf":{}}`:                      "anyOf that is no list",
		`{"not":7}`:                         "subschema that is none",
		`{"$ref":"#/$defs/a"}`:              "has $ref at its root",
		`{"$ref":"https://a.example/b"}`:    "has $ref at its root",
		`{"$ref":"#/$defs/a","required":["b"],"$defs":{"a":{}}}`:              "has $ref at its root",
		`{"allOf":[{"$ref":"https://a.example/b"}]}`:                          "cannot be followed",
		`{"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"$ref":"#/$defs/a"}}}`: "leads to itself",
		`{"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"$id":"https://a.example/x","additionalProperties":false,"properties":{"b":{"$ref":"#/$defs/a"}}}}}`: "has an id, and references relative to it",
		`{"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"$dynamicAnchor":"x","additionalProperties":false,"properties":{"b":{"$dynamicRef":"#x"}}}}}`:        "dynamic references",
		`{"allOf":[{"$dynamicRef":"#x"}]}`:                                                                     "has $dynamicRef where",
		`{"allOf":[{"additionalProperties":false}],"properties":{"a":{"$ref":"#/allOf/0"}}}`:                   "recursive reference",
		`{"propertyNames":{"maxLength":5,"anyOf":[{}]},"properties":{"a":{"$ref":"#/propertyNames/anyOf/0"}}}`: "into propertyNames",
		`{"$defs":[],"allOf":[{"$ref":"#/x"}],"x":{"additionalProperties":false}}`:                             "has $defs that are no object",
		`{"if":{"properties":{"idempotency_key":{}}}}`:                                                         "property idempotency_key of its own in one place",
		`{"oneOf":[{"required":["idempotency_repeat_of"]}]}`:                                                   "has a required with idempotency_key",
		`{"dependentRequired":{"a":["idempotency_key"]}}`:                                                      "dependentRequired",
		`{"dependentSchemas":[]}`:                                                                              "dependentSchemas that is no object",
		`{"dependencies":{"idempotency_key":["a"]}}`:                                                           "dependencies",
		`{"patternProperties":{"_key$":{"type":"integer"}}}`:                                                   "patternProperties",
		`{"patternProperties":{"_key$":{"minLength":9}}}`:                                                      "patternProperties",
		`{"patternProperties":{"_key$":{"format":"uuid"}}}`:                                                    "patternProperties",
		`{"patternProperties":{"(?!x)":{"type":"integer"}}}`:                                                   "patternProperties",
		`{"patternProperties":{"\\Akey":false}}`:                                                               "patternProperties",
		`{"patternProperties":[]}`:                                                                             "patternProperties",
		`{"patternProperties":{"(?!\n` + strings.Repeat("long", 30) + `)":false}}`:                             "patternProperties",
		`{"maxProperties":1.5}`:                                                                                "maxProperties of 1.5",
		`{"minProperties":-1}`:                                                                                 "minProperties of -1",
		`{"minProperties":"1"}`:                                                                                "minProperties of",
		`{"$schema":"http://json-schema.org/draft-03/schema#"}`:                                                "draft 03",
		`{"properties":{"a":{"items":{"$ref":"#"}}}}`:                                                          "recursive reference",
		`{"properties":{"a":{"items":{"$\u0072ef":"#"}}}}`:                                                     "recursive reference",
		`{"properties":{"a":{"$recursiveRef":"#"}}}`:                                                           "recursive reference",
		`{"$anchor":"me","properties":{"a":{"$ref":"#me"}}}`:                                                   "recursive reference",
		`{"$dynamicAnchor":"me","properties":{"a":{"$dynamicRef":"#me"}}}`:                                     "recursive reference",
		`{"$id":"https://a.example/s.json","properties":{"a":{"$ref":"s.json"}}}`:                              "recursive reference",
		`{"$id":"https://a.example/s.json","properties":{"a":{"$ref":"https://a.example/s.json#"}}}`:           "recursive reference",
		`{"id":"https://a.example/s.json#","properties":{"a":{"$ref":"/x/s.json#"}}}`:                          "recursive reference",
		`{"$id":"%zz","properties":{"a":{"$ref":"s.json"}}}`:                                                   "recursive reference",
		`{"properties":{"idempotency_repeat_of":{}}}`:                                                          "property idempotency_repeat_of of its own",
		`{"properties":{"idempotency_key":{"type":"integer"}}}`:                                                "does not take any string",
		`{"properties":{"idempotency_key":{"enum":["a"]}}}`:                                                    "has enum, by which it may not",
		`{"properties":{"idempotency_key":{"anyOf":[{"type":"null"}]}}}`:                                       "none of which takes every key",
		`{"properties":{"idempotency_key":{"maxLength":20}}}`:                                                  "no more than 20 characters",
		`{"properties":{"idempotency_key":{"minLength":40}}}`:                                                  "no fewer than 40 characters",
		`{"properties":{"idempotency_key":{"pattern":"^ik_"}}}`:                                                "a UUID may not match",
		`{"properties":{"idempotency_key":{}},"not":{"required":["idempotency_key"]}}`:                         "of its own, of which not says more",
		`{"properties":{"idempotency_key":{}},"dependentRequired":{"idempotency_key":["a"]}}`:                  "of its own, of which dependentRequired says more",
		`{"properties":{"idempotency_key":{}},"allOf":[{"additionalProperties":false}]}`:                       "of its own, of which allOf says more",
		`{"properties":{"idempotency_key":{}},"propertyNames":{"maxLength":5}}`:                                "of its own, of which propertyNames says more",
		`{"properties":{"idempotency_key":{"description":"key of the operation to cancel"}}}`:                  "names an earlier call",
		`{"properties":{"idempotency_key":{"$ref":"#/$defs/k"}},"$defs":{"k":{"type":"string"}}}`:              "has $ref, by which it may not",
		`{"properties":{"idempotency_key":false}}`:                                                             "no schema that can be described",
	} {
		definition := `{"name":"create_x","inputSchema":` + schema + `}`
		tool := rewrite(t, Policy{OnProblem: OnProblemHarness}, definition)
		assert.Contains(t, tool.Problem, "inputSchema ", schema)
		assert.Contains(t, tool.Problem, want, schema)
		assert.NotContains(t, tool.Problem, "\n")
		assert.Equal(t, definition, string(tool.Definition), "what has a problem is not touched")
		assert.Empty(t, tool.Natives)
	}
	for definition, want := range map[string]string{
		`{"name":"create_x"}`: "inputSchema",
		`{"name":"create_x","inputSchema":{},"description":7}`: "description is not a string",
		`{"name":"create_x","inputSchema":{},"_meta":7}`:       "_meta is unreadable",
	} {
		assert.Contains(t, rewrite(t, Policy{}, definition).Problem, want)
	}
}

func TestOrdinaryShapesTakeAKey(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{
		`{}`,
		`{"type":["object","null"]}`,
		`{"$schema":"http://json-schema.org/draft-04/schema#","id":"https://a.example/s","properties":{"a":{"$ref":"#/definitions/d"}},"definitions":{"d":{}}}`,
		`{"$id":"https://a.example/s.json","properties":{"a":{"$ref":"#/$defs/d"}},"$defs":{"d":{}}}`,
		`{"properties":{"a":{"$ref":"#other","description":"#"},"$ref":{"type":"string"}}}`,
		`{"anyOf":[{"required":["a"]},{"required":["b"],"title":"B"}]}`,
		`{"not":{"required":["a","b"]},"unevaluatedProperties":false}`,
		`{"patternProperties":{"^x-":{}},"propertyNames":{"pattern":"^[a-z_-]+$","minLength":1}}`,
		`{"dependentRequired":{"a":["b"]},"dependentSchemas":{"a":{"required":["c"]}},"dependencies":{"a":["b"]}}`,
		`{"minProperties":1,"maxProperties":3}`,
		`{"properties":null,"required":null}`,
		`{"anyOf":[{"required":null,"properties":null,"additionalProperties":false}]}`,
		`{"propertyNames":{"type":"string","title":"Name","minLength":1,"maxLength":40}}`,
		`{"propertyNames":{"enum":["a","idempotency_key","idempotency_repeat_of"]}}`,
	} {
		tool := rewrite(t, Policy{}, `{"name":"create_x","inputSchema":`+schema+`}`)
		assert.Empty(t, tool.Problem, schema)
		assert.Contains(t, string(tool.Definition), `"required":["idempotency_key"`)
	}
}

func TestCountedSchemasCountTheKeyAndDoWithoutRepeat(t *testing.T) {
	t.Parallel()
	tool := rewrite(t, Policy{}, `{"name":"create_x","inputSchema":{"minProperties":1,"maxProperties":9}}`)
	assert.Contains(t, string(tool.Definition), `{"minProperties":2,"maxProperties":10,`)
	assert.NotContains(t, string(tool.Definition), RepeatProperty)
	assert.Equal(t, NearDuplicateWarn, tool.NearDuplicate)
	assert.Contains(t, string(tool.Definition), `"near_duplicate":"warn"`)
}

func TestItsOwnKeyBecomesRequiredAndKeepsItsSchema(t *testing.T) {
	t.Parallel()
	for own, want := range map[string]string{
		`{"type":"string","description":"Theirs.","x-y":1.0}`:                `{"type":"string","description":%q,"x-y":1.0}`,
		`{"type":"string","description":"Theirs.","pattern":"^[0-9a-f-]+$"}`: `{"type":"string","minLength":8,"maxLength":255,"description":%q}`,
		`{"type":"string","format":"uuid"}`:                                  `{"type":"string","minLength":8,"maxLength":255,"description":%q}`,
		`{"anyOf":[{"type":"string"},{"type":"null"}]}`:                      `{"anyOf":[{"type":"string"},{"type":"null"}],"description":%q}`,
	} {
		tool := rewrite(t, Policy{}, `{"name":"update_x","inputSchema":{"properties":{"idempotency_key":`+own+`,"a":{}},"maxProperties":2}}`)
		require.Empty(t, tool.Problem)
		assert.Equal(t, ownKey.Natives, tool.Natives)
		text := keyText
		if strings.Contains(own, "Theirs.") {
			text += "\n\nTheirs."
		}
		assert.Contains(t, string(tool.Definition),
			`"inputSchema":{"properties":{"idempotency_key":`+fmt.Sprintf(want, text)+`,"a":{}},"maxProperties":2,"required":["idempotency_key"]}`)
	}
	tool := rewrite(t, Policy{}, `{"name":"update_x","inputSchema":{"properties":{"idempotency_key":true},"required":["a","idempotency_key"]}}`)
	assert.Contains(t, string(tool.Definition), `"required":["a","idempotency_key"]`)
	assert.Equal(t, ownKey.Natives, tool.Natives)
}

func TestOutputSchemas(t *testing.T) {
	t.Parallel()
	added := `"idempotency":` + string(outcomeSchema())
	for schema, want := range map[string]string{ // "" where the outcome cannot be allowed
		`{"type":"object"}`:                                              `{"type":"object"}`,
		`{"additionalProperties":true}`:                                  `{"additionalProperties":true}`,
		`{"additionalProperties":false}`:                                 `{"additionalProperties":false,"properties":{` + added + `}}`,
		`{"properties":{"a":{}},"additionalProperties":{"type":"null"}}`: `{"properties":{"a":{},` + added + `},"additionalProperties":{"type":"null"}}`,
		`{"unevaluatedProperties":false}`:                                `{"unevaluatedProperties":false,"properties":{` + added + `}}`,
		`{"properties":{"idempotency":{}}}`:                              "",
		`{"maxProperties":3}`:                                            "",
		`{"$ref":"#/$defs/a","$defs":{"a":{}}}`:                          `{"$ref":"#/$defs/a","$defs":{"a":{}}}`,
		`{"$ref":"#/$defs/a"}`:                                           "",
		`{"anyOf":[{"additionalProperties":false}]}`:                     `{"anyOf":[{"additionalProperties":false,"properties":{"idempotency":{}}}]}`,
		`{"anyOf":[{"const":{}}]}`:                                       "",
		`{"patternProperties":{"^i":{"type":"object"}}}`:                 `{"patternProperties":{"^i":{"type":"object"}}}`,
		`{"properties":{"a":{"$ref":"#"}}}`:                              `{"properties":{"a":{"$ref":"#"}}}`,
		`{"properties":{"a":{"$ref":"#"}},"additionalProperties":false}`: "",
		`{"type":"array"}`:                                               "",
		`{"patternProperties":{"^i":{"type":"string"}}}`:                 "",
	} {
		tool := rewrite(t, Policy{}, `{"name":"create_x","inputSchema":{},"outputSchema":`+schema+`}`)
		require.Empty(t, tool.Problem)
		assert.True(t, tool.HasOutputSchema)
		assert.Equal(t, want != "", tool.AnnotatesOutput, schema)
		if want == "" {
			want = schema
		}
		assert.Contains(t, string(tool.Definition), `"outputSchema":`+want, schema)
		if tool.AnnotatesOutput && schema != "" {
			requireOutcomeRule(t, []byte(`{"outputSchema":`+schema+`}`), tool.Definition)
		}
	}
}

func TestWithKeysFromAHarnessNothingIsRewritten(t *testing.T) {
	t.Parallel()
	p := Policy{HarnessKeys: true, Window: time.Hour, StatusTool: "status"}
	for _, definition := range []string{
		`{"name":"refund","inputSchema":{"type":"object","properties":{"idempotency_key":{"type":"string"}}}}`,
		`{"name":"refund","inputSchema":{"$ref":"#/$defs/x"},"outputSchema":{"type":"object"}}`,
	} {
		tool, err := p.Rewrite([]byte(definition))
		require.NoError(t, err)
		assert.Equal(t, definition, string(tool.Definition))
		assert.Empty(t, tool.Problem)
		assert.True(t, tool.Keyed())
		for _, n := range tool.Natives {
			assert.True(t, n.Shown)
		}
		assert.Equal(t, strings.Contains(definition, KeyProperty), len(tool.Natives) == 1)
		assert.Equal(t, !tool.HasOutputSchema, tool.AnnotatesOutput)
	}
}

func TestLimitsThatNoObjectReachesStayAsTheyAre(t *testing.T) {
	t.Parallel()
	tool := rewrite(t, Policy{}, `{"name":"update_x","inputSchema":{"maxProperties":1e300,"minProperties":2.0}}`)
	assert.Contains(t, string(tool.Definition), `{"maxProperties":1e300,"minProperties":3,`)
}

// What is hostile costs no more than its size is worth, and is said to be too much.
func TestSchemasThatAskForTooMuchAreRefused(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<16)
	var branches, definitions, containers []string
	for i := range 5 {
		branches = append(branches, fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, i))
		definitions = append(definitions, fmt.Sprintf(`"d%d":{"additionalProperties":false,"description":%q}`, i, long))
	}
	tool := rewrite(t, Policy{}, `{"name":"update_x","inputSchema":{"anyOf":[`+strings.Join(branches, ",")+`],"$defs":{`+strings.Join(definitions, ",")+`}}}`)
	assert.Contains(t, tool.Problem, "too many schemas")
	tool = rewrite(t, Policy{}, `{"name":"update_x","inputSchema":{"anyOf":[`+strings.Join(branches[:3], ",")+`],"$defs":{`+strings.Join(definitions, ",")+`}}}`)
	assert.Empty(t, tool.Problem)

	refs := strings.Repeat(`{"$ref":"#/$defs/d"},`, maxReferences)
	tool = rewrite(t, Policy{}, `{"name":"update_x","inputSchema":{"properties":{"a":{"anyOf":[`+refs+`{"$ref":"#/$defs/d"}]}},"$defs":{"d":{}}}}`)
	assert.Contains(t, tool.Problem, fmt.Sprintf("more than %d references", maxReferences))

	for i := range 1000 {
		containers = append(containers, fmt.Sprintf(`"c%d":{"properties":{"idempotencyKey":{}}}`, i))
	}
	tool = rewrite(t, Policy{}, `{"name":"update_x","inputSchema":{"properties":{`+strings.Join(containers, ",")+`}}}`)
	assert.Len(t, tool.Natives, maxNatives)

	var patterns []string
	for i := range maxPatterns + 1 {
		patterns = append(patterns, fmt.Sprintf(`"^x%d":{"type":"integer"}`, i))
	}
	tool = rewrite(t, Policy{}, `{"name":"update_x","inputSchema":{"patternProperties":{`+strings.Join(patterns, ",")+`}}}`)
	assert.Contains(t, tool.Problem, "patternProperties")
	tool = rewrite(t, Policy{}, `{"name":"update_x","inputSchema":{"patternProperties":{`+strings.Join(patterns[1:], ",")+`}}}`)
	assert.Empty(t, tool.Problem)
}
