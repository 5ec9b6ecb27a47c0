package toolschema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

const goodKey = "refund:order-9:1"

// guardAll makes every tool a keyed one, so that every schema is rewritten.
var guardAll = Policy{Overrides: []Override{{Pattern: "*", Class: ClassNonRetryable}}, StatusTool: "idempotency_status"}

// nothingHidden is guardAll without native keys.
var nothingHidden = Policy{Overrides: guardAll.Overrides, Natives: []NativeRule{{Pattern: "*"}}, StatusTool: "idempotency_status"}

func compile(schema []byte) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseRegexpEngine(lenientRegexp)
	if err := c.AddResource("tool.json", doc); err != nil {
		return nil, err
	}
	return c.Compile("tool.json")
}

// lenientRegexp takes a pattern that Go does not know for one that matches
// nothing: the corpus masks letters in patterns, too.
func lenientRegexp(pattern string) (jsonschema.Regexp, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		re = regexp.MustCompile(`[^\s\S]`)
	}
	return re, nil
}

// ruleBreach checks the rule for one object, and returns how it is broken or "".
func ruleBreach(t Tool, before, after *jsonschema.Schema, o map[string]any) string {
	with := func(members ...string) map[string]any {
		out := maps.Clone(o)
		for i := 0; i < len(members); i += 2 {
			out[members[i]] = members[i+1]
		}
		return out
	}
	want := before.Validate(o) == nil
	if t.ownsKey {
		want = before.Validate(with(KeyProperty, goodKey)) == nil
	}
	switch {
	case after.Validate(with(KeyProperty, goodKey)) == nil != want:
		return fmt.Sprintf("with a key: want accepted=%v", want)
	case after.Validate(o) == nil:
		return "accepted without a key"
	case (t.NearDuplicate == NearDuplicateConfirm) &&
		after.Validate(with(KeyProperty, goodKey, RepeatProperty, "op_1")) == nil != want:
		return fmt.Sprintf("with a key and a repeat: want accepted=%v", want)
	}
	return ""
}

// sampleValue makes a value that the schema's own type, enum or first branch
// suggests. It need not be valid.
func sampleValue(schema any, depth int) any {
	s, ok := schema.(map[string]any)
	if !ok || depth > 8 {
		return "x"
	}
	if values, ok := s["enum"].([]any); ok && len(values) > 0 {
		return values[0]
	}
	if value, ok := s["const"]; ok {
		return value
	}
	for _, choice := range []string{"anyOf", "oneOf", "allOf"} {
		if branches, ok := s[choice].([]any); ok && len(branches) > 0 {
			return sampleValue(branches[0], depth+1)
		}
	}
	switch s["type"] {
	case "integer", "number":
		return json.Number("1")
	case "boolean":
		return true
	case "array":
		return []any{sampleValue(s["items"], depth+1)}
	case "object":
		return sampleObject(s, depth+1, true)
	}
	return "sample-text"
}

func sampleObject(schema map[string]any, depth int, all bool) map[string]any {
	required, _ := schema["required"].([]any)
	o := map[string]any{}
	properties, _ := schema["properties"].(map[string]any)
	for name, property := range properties {
		if all || slices.Contains(required, any(name)) {
			o[name] = sampleValue(property, depth)
		}
	}
	return o
}

// samples makes objects around the schema: full, minimal, each with an unknown
// member, each member missing or of another type.
func samples(schema []byte) []map[string]any {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil
	}
	s, _ := doc.(map[string]any)
	full, least := sampleObject(s, 0, true), sampleObject(s, 0, false)
	out := []map[string]any{full, least, {}}
	for _, o := range []map[string]any{full, least} {
		extra := maps.Clone(o)
		extra["zz_unknown"] = "x"
		out = append(out, extra)
		for name := range o {
			missing, wrong := maps.Clone(o), maps.Clone(o)
			delete(missing, name)
			wrong[name] = map[string]any{"wrong": nil}
			out = append(out, missing, wrong)
		}
	}
	for _, o := range out {
		delete(o, KeyProperty)
	}
	return out
}

func inputSchema(t require.TestingT, definition []byte) []byte {
	def, err := rawjson.ParseObject(definition)
	require.NoError(t, err)
	schema, ok := def.Get("inputSchema")
	require.True(t, ok)
	return schema
}

// hasHidden reports whether the object has a native key that is not offered, of
// which the offered schema says nothing any more.
func hasHidden(tool Tool, o map[string]any) bool {
	return slices.ContainsFunc(tool.Natives, func(n NativeKey) bool {
		at := any(o)
		for _, name := range n.Path {
			inner, _ := at.(map[string]any)
			at = inner[name]
		}
		return at != nil && !n.Shown
	})
}

func TestCorpusSchemasKeepTheRule(t *testing.T) {
	t.Parallel()
	for server, page := range corpusPages(t) {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			checked, accepted := 0, 0
			for _, definition := range corpusTools(t, page) {
				tool, err := guardAll.Rewrite(definition)
				require.NoError(t, err)
				require.Empty(t, tool.Problem, tool.Name)
				schema := inputSchema(t, definition)
				before, err := compile(schema)
				require.NoError(t, err, tool.Name)
				after, err := compile(inputSchema(t, tool.Definition))
				require.NoError(t, err, tool.Name)
				for _, o := range samples(schema) {
					if hasHidden(tool, o) {
						continue
					}
					require.Empty(t, ruleBreach(tool, before, after, o), "%s: %v", tool.Name, o)
					checked++
					if before.Validate(o) == nil {
						accepted++
					}
				}
			}
			t.Logf("%d objects, of which %d are valid", checked, accepted)
			require.Positive(t, accepted, "a test with rejected objects only proves little")
		})
	}
}

// withoutAdditions takes out of an offered definition the very text that Rewrite
// is to have put in, whichever form it needed.
func withoutAdditions(p Policy, tool Tool) string {
	key := fmt.Sprintf("%q:%s", KeyProperty, keySchema())
	both := key
	if tool.NearDuplicate == NearDuplicateConfirm {
		both += fmt.Sprintf(",%q:%s", RepeatProperty, repeatSchema())
	}
	policy := fmt.Sprintf("%q:%s", PolicyMeta, p.policyMeta(tool.Decision))
	outcome := fmt.Sprintf("%q:%s", OutcomeProperty, outcomeSchema())
	text := p.policyText()
	out := strings.Replace(string(tool.Definition), `\n\n`+shortPolicyText, `\n\n`+text, 1)
	for _, forms := range [][]string{
		{`,"_meta":{` + policy + `}`, "," + policy, policy},
		{`,"description":"` + text + `"`, `\n\n` + text, text},
		{`,"properties":{` + both + `}`, "," + both, both},
		{`,"required":["idempotency_key"]`, `"idempotency_key",`, `"idempotency_key"`},
		{`,"properties":{` + outcome + `}`, "," + outcome, outcome},
	} {
		for _, form := range forms {
			if strings.Contains(out, form) {
				out = strings.Replace(out, form, "", 1)
				break
			}
		}
	}
	return out
}

func TestTakingTheAdditionsOutGivesTheOriginalBack(t *testing.T) {
	t.Parallel()
	count := 0
	for _, page := range corpusPages(t) {
		for _, definition := range corpusTools(t, page) {
			tool, err := nothingHidden.Rewrite(definition)
			require.NoError(t, err)
			require.Equal(t, string(definition), withoutAdditions(nothingHidden, tool), tool.Name)
			require.NotEqual(t, string(definition), string(tool.Definition))
			count++
		}
	}
	t.Logf("%d tools", count)
}

func TestCorpusOutputSchemasAdmitTheOutcome(t *testing.T) {
	t.Parallel()
	count := 0
	for _, page := range corpusPages(t) {
		for _, definition := range corpusTools(t, page) {
			tool, err := guardAll.Rewrite(definition)
			require.NoError(t, err)
			if !tool.HasOutputSchema {
				continue
			}
			require.True(t, tool.AnnotatesOutput, tool.Name)
			requireOutcomeRule(t, definition, tool.Definition)
			count++
		}
	}
	t.Logf("%d output schemas", count)
	require.Positive(t, count)
}

// requireOutcomeRule checks that the outcome is optional and changes nothing.
func requireOutcomeRule(t *testing.T, original, offered []byte) {
	t.Helper()
	schema := func(definition []byte) []byte {
		def, err := rawjson.ParseObject(definition)
		require.NoError(t, err)
		raw, ok := def.Get("outputSchema")
		require.True(t, ok)
		return raw
	}
	before, err := compile(schema(original))
	require.NoError(t, err)
	after, err := compile(schema(offered))
	require.NoError(t, err)
	for _, o := range samples(schema(original)) {
		want := before.Validate(o) == nil
		annotated := maps.Clone(o)
		annotated[OutcomeProperty] = map[string]any{"outcome": "COMPLETED"}
		assert.Equal(t, want, after.Validate(o) == nil, "%v", o)
		assert.Equal(t, want, after.Validate(annotated) == nil, "%v", annotated)
	}
}
