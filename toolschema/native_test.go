package toolschema

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// paths are the native keys of a tool, hidden ones in parentheses.
func paths(tool Tool) string {
	var list []string
	for _, n := range tool.Natives {
		text := n.String()
		if n.Raw {
			text += " raw"
		}
		if !n.Shown {
			text = "(" + text + ")"
		}
		list = append(list, text)
	}
	return strings.Join(list, " ")
}

func TestNativeKeysAreFoundByTheirNames(t *testing.T) {
	t.Parallel()
	for properties, want := range map[string]string{
		`"idempotencyKey":{"type":"string"}`:                                                           `(idempotencyKey)`,
		`"client_token":{"type":["string","null"]}`:                                                    `(client_token)`,
		`"clientToken":{"anyOf":[{"type":"string"},{"type":"null"}]}`:                                  `(clientToken)`,
		`"client_request_token":{}`:                                                                    `(client_request_token)`,
		`"requestKey":true`:                                                                            `(requestKey)`,
		`"clientRequestId":{"type":"string","format":"uuid"}`:                                          `(clientRequestId)`,
		`"params":{"properties":{"idempotency_key":{"type":"string"}}}`:                                `(params.idempotency_key)`,
		`"data":{"properties":{"client_token":{"type":"string","maxLength":64}}}`:                      `(data.client_token)`,
		`"meta":{"properties":{"idempotency-key":{"type":"string"}}}`:                                  `(meta.idempotency-key)`,
		`"a":{"properties":{"b":{"properties":{"clientToken":{}}}}}`:                                   `(a.b.clientToken)`,
		`"x y":{"properties":{"clientToken":{}}}`:                                                      `(["x y"].clientToken)`,
		`"idempotency_key":{"type":"string"},"data":{"properties":{"client_token":{}}}`:                `idempotency_key (data.client_token)`,
		`"params":{"properties":{"client_token":{}}},"data":{"properties":{"client_token":{}}}`:        `params.client_token data.client_token`,
		`"a":{"properties":{"b":{"properties":{"c":{"properties":{"clientToken":{}}}}}}}`:              ``,
		`"request_id":{"type":"string"},"clientTokenId":{"type":"string"}`:                             ``,
		`"clientToken":{"type":"integer"}`:                                                             ``,
		`"clientToken":{"type":"string","maxLength":16}`:                                               ``,
		`"clientToken":{"type":"string","pattern":"^ct_"}`:                                             ``,
		`"clientToken":{"type":"string","description":"OAuth token for authentication."}`:              ``,
		`"client_token":{"type":"string","description":"Registration token of the device"}`:            ``,
		`"requestKey":{"type":"string","description":"Key of the request to approve"}`:                 ``,
		`"client_token":{"type":"string","description":"Unique token that makes the call idempotent"}`: `(client_token)`,
		`"client_token":{"type":"string","description":"Use the same value when you retry."}`:          `(client_token)`,
		`"clientToken":{"type":"string","description":"Generate a new UUID for every request."}`:       `(clientToken)`,
		`"idempotencyKey":{"type":"string","description":"The key that the payment was made with."}`:   ``,
		`"idempotencyKey":{"type":"string","pattern":"^(?!.*-)[0-9A-Z]{8,40}$"}`:                       ``,
		`"idempotencyKey":{"anyOf":[{"type":"string","maxLength":20},{"type":"null"}]}`:                ``,
		`"d":{"anyOf":[{"type":"object","properties":{"clientToken":{}}},{"type":"null"}]}`:            `(d.clientToken)`,
		`"d":{"$ref":"#/$defs/d"}`:                                                                     `d.clientToken`,
		`"list":{"items":{"properties":{"clientToken":{}}}}`:                                           ``,
	} {
		defs := ""
		if strings.Contains(properties, "$ref") {
			defs = `,"$defs":{"d":{"properties":{"clientToken":{}}}}`
		}
		tool := rewrite(t, Policy{}, `{"name":"create_x","inputSchema":{"type":"object","properties":{`+properties+`}`+defs+`}}`)
		require.Empty(t, tool.Problem)
		assert.Equal(t, want, paths(tool), properties)
		for _, n := range tool.Natives {
			assert.False(t, n.Configured)
		}
	}
	assert.Empty(t, rewrite(t, Policy{}, `{"name":"get_x","inputSchema":{"properties":{"clientToken":{}}}}`).Natives, "what needs no key gets none")
}

// Of a required property without a word on what it is for nobody knows that it is
// not what the call is about.
func TestARequiredTokenIsOnlyANativeKeyIfItSaysSo(t *testing.T) {
	t.Parallel()
	for property, want := range map[string]string{
		`{"type":"string"}`:                                         ``,
		`{"type":"string","description":"xxxx xxxxx"}`:              ``,
		`{"type":"string","description":"Makes retries safe."}`:     `(client_token)`,
		`{"type":"string","description":"Token of the phone."}`:     ``,
		`{"type":"string","description":"Deduplicates the order."}`: `(client_token)`,
	} {
		tool := rewrite(t, Policy{}, `{"name":"send_push","inputSchema":{"properties":{"client_token":`+property+`},"required":["client_token"]}}`)
		assert.Equal(t, want, paths(tool), property)
	}
}

func TestANativeKeyOfTheOperatorsHasToTakeKeys(t *testing.T) {
	t.Parallel()
	for property, want := range map[string]string{
		`{"type":"integer"}`:                "has a native key ref that does not take any string",
		`{"type":"string","maxLength":10}`:  "has a native key ref that takes no more than 10 characters",
		`{"type":"string","format":"date"}`: "that a UUID is not of",
		`{"type":"string"}`:                 "",
	} {
		definition := `{"name":"create_x","inputSchema":{"properties":{"ref":` + property + `}}}`
		tool := rewrite(t, Policy{Natives: []NativeRule{{Pattern: "*", Path: []string{"ref"}}}}, definition)
		assert.Contains(t, tool.Problem, want, property)
		assert.Equal(t, want == "", tool.Problem == "")
	}
	raw := Policy{Natives: []NativeRule{{Pattern: "*", Path: []string{"ref"}, Raw: true}}}
	tool := rewrite(t, raw, `{"name":"create_x","inputSchema":{"properties":{"ref":{"type":"string","maxLength":40}}}}`)
	assert.Contains(t, string(tool.Definition), `"maxLength":40,"description":"Names`)
}

func TestOfTwoNativeKeysInOneObjectOneIsHidden(t *testing.T) {
	t.Parallel()
	tool := rewrite(t, Policy{}, `{"name":"create_x","inputSchema":{"properties":{"idempotencyKey":{},"idempotency_token":{}}}}`)
	assert.Equal(t, `(idempotencyKey) idempotency_token`, paths(tool))
	_, err := rawjson.Parse(tool.Definition)
	require.NoError(t, err)
}

func TestAHiddenNativeKeyLeavesTheSchemaAndNothingElse(t *testing.T) {
	t.Parallel()
	key := `"idempotency_key":` + string(keySchema())
	for schema, want := range map[string]string{
		`{"properties":{"idempotencyKey":{"type":"string"}}}`:                                                                        `{"properties":{` + key + `},"required":["idempotency_key"]}`,
		`{"properties":{"a":{}, "idempotencyKey":{} , "b":{}},"required":["a", "idempotencyKey", "b"],"additionalProperties":false}`: `{"properties":{"a":{} , "b":{},` + key + `},"required":["idempotency_key","a", "b"],"additionalProperties":false}`,
		`{"properties":{"idempotencyKey":{},"b":{}},"required":["idempotencyKey"]}`:                                                  `{"properties":{"b":{},` + key + `},"required":["idempotency_key"]}`,
		`{"properties":{"d":{"properties":{"idempotencyKey":{}},"required":["idempotencyKey"],"type":"object"}}}`:                    `{"properties":{"d":{"properties":{},"type":"object"},` + key + `},"required":["idempotency_key"]}`,
		`{"properties":{"d":{"required":["idempotencyKey","e"],"properties":{"e":{},"idempotencyKey":{}}}}}`:                         `{"properties":{"d":{"required":["e"],"properties":{"e":{}}},` + key + `},"required":["idempotency_key"]}`,
	} {
		tool := rewrite(t, Policy{}, `{"name":"click","inputSchema":`+schema+`}`)
		assert.Equal(t, want, string(inputSchema(t, tool.Definition)), schema)
		requireHiddenRule(t, tool, []byte(schema))
	}
}

// requireHiddenRule checks that the offered schema takes an object with a key
// exactly when the original takes the object with the native key filled in.
func requireHiddenRule(t *testing.T, tool Tool, schema []byte) {
	t.Helper()
	before, err := compile(schema)
	require.NoError(t, err)
	after, err := compile(inputSchema(t, tool.Definition))
	require.NoError(t, err)
	accepted := 0
	for _, o := range samples(schema) {
		if hasHidden(tool, o) {
			removePath(o, tool.Natives[0].Path)
		}
		text, err := json.Marshal(o)
		require.NoError(t, err)
		call := parseCall(t, `{"name":"click","arguments":`+string(text)+`}`)
		filled, err := rawjson.ParseObject(call.Forward(tool, "the key", sampleKeys[0]))
		require.NoError(t, err)
		arguments, _ := filled.Get("arguments")
		var upstream map[string]any
		require.NoError(t, json.Unmarshal(arguments, &upstream))
		want := before.Validate(upstream) == nil
		keyed := maps.Clone(o)
		keyed[KeyProperty] = goodKey
		assert.Equal(t, want, after.Validate(keyed) == nil, "%s: %s", schema, text)
		if want {
			accepted++
		}
	}
	assert.Positive(t, accepted)
}

func removePath(o map[string]any, path []string) {
	for _, name := range path[:len(path)-1] {
		inner := maps.Clone(o[name].(map[string]any))
		o[name] = inner
		o = inner
	}
	delete(o, path[len(path)-1])
}

func TestANativeKeyOfWhichTheSchemaSaysMoreStaysInIt(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{
		`{"properties":{"clientToken":{}},"dependentRequired":{"clientToken":["a"]}}`,
		`{"properties":{"clientToken":{}},"anyOf":[{"required":["clientToken"]},{}]}`,
		`{"properties":{"d":{"properties":{"clientToken":{}},"maxProperties":3}}}`,
		`{"properties":{"d":{"properties":{"clientToken":{}}},"e":{"$ref":"#/properties/d"}}}`,
		`{"properties":{"d":{"required":7,"properties":{"clientToken":{}}}}}`,
	} {
		tool := rewrite(t, Policy{}, `{"name":"click","inputSchema":`+schema+`}`)
		require.Empty(t, tool.Problem)
		require.NotEmpty(t, tool.Natives)
		for _, n := range tool.Natives {
			assert.True(t, n.Shown, schema)
		}
		assert.Contains(t, string(tool.Definition), `"clientToken":{}`)
	}
}

func TestTheOperatorsWordOnNativeKeysWins(t *testing.T) {
	t.Parallel()
	const definition = `{"name":"create_x","inputSchema":{"properties":{"clientToken":{"type":"string","description":"Generate a new UUID for every request."},"b":{"properties":{"request_id":{}}}}}}`
	for rule, want := range map[string]string{
		"":                                 `(clientToken)`,
		"create_x=none":                    ``,
		"*=clientToken,shown":              `clientToken`,
		"*=clientToken,raw":                `(clientToken raw)`,
		"*=clientToken,shown,raw":          `clientToken raw`,
		"create_*=b.request_id":            `(b.request_id)`,
		`create_x=meta["idempotency-key"]`: `meta.idempotency-key`, // which the schema has not, and so does not hide
		"delete_*=none":                    `(clientToken)`,
	} {
		p := Policy{}
		if rule != "" {
			parsed, err := ParseNativeRule(rule)
			require.NoError(t, err)
			p.Natives = []NativeRule{{Pattern: "*", Path: []string{"other"}}, parsed}[1:]
		}
		tool := rewrite(t, p, definition)
		assert.Equal(t, want, paths(tool), rule)
		if strings.Contains(rule, "shown") {
			assert.NotContains(t, string(tool.Definition), "for every request", "it would have a model mint keys")
		}
	}
}

func TestNativeRulesAreReadAndWritten(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]NativeRule{
		"a=b":                      {Pattern: "a", Path: []string{"b"}},
		"a*=b.c-d.e_f":             {Pattern: "a*", Path: []string{"b", "c-d", "e_f"}},
		`a=["x.y"].z`:              {Pattern: "a", Path: []string{"x.y", "z"}},
		`a=m["k,shown"]["\u0041"]`: {Pattern: "a", Path: []string{"m", "k,shown", "A"}},
		"a=b,raw,shown":            {Pattern: "a", Path: []string{"b"}, Raw: true, Shown: true},
		"a=none":                   {Pattern: "a"},
	} {
		rule, err := ParseNativeRule(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, rule)
		if want.Path == nil {
			continue
		}
		again, err := ParseNativeRule("a=" + NativeKey{Path: rule.Path}.String())
		require.NoError(t, err)
		assert.Equal(t, rule.Path, again.Path)
	}
	for _, text := range []string{"", "a", "=b", "a=", "[=b", "a=.b", "a=b..c", "a=b c", "a=b,", "a=b,hidden", `a=["b"`, `a=[""]`, "a=b[0]", "a=1b", `a=x["y"]z`} {
		_, err := ParseNativeRule(text)
		require.ErrorContains(t, err, "native key", text)
		assert.NotContains(t, err.Error(), "\n")
	}
}

func TestNativeKeysAreFilledInWhereTheyHaveAPlace(t *testing.T) {
	t.Parallel()
	top := Tool{Natives: []NativeKey{{Path: []string{"clientToken"}}}}
	nested := Tool{Natives: []NativeKey{{Path: []string{"data", "client_token"}}}}
	raw := Tool{Natives: []NativeKey{{Path: []string{"data", "client_token"}, Raw: true}, {Path: []string{"k"}}}}
	for _, c := range []struct {
		tool                        Tool
		arguments, want, downstream string
	}{
		{top, `{"a":1.0}`, `{"a":1.0,"clientToken":"DERIVED"}`, "clientToken"},
		{top, `{"clientToken":"theirs","a":1}`, `{"clientToken":"DERIVED","a":1}`, "clientToken"},
		{top, ``, `{"clientToken":"DERIVED"}`, "clientToken"},
		{nested, `{ "data" : { "x":1e3 } }`, `{ "data" : { "x":1e3 ,"client_token":"DERIVED"} }`, "data.client_token"},
		{nested, `{"data":{"client_token":null}}`, `{"data":{"client_token":"DERIVED"}}`, "data.client_token"},
		{nested, `{"data":[]}`, `{"data":[]}`, ""},
		{nested, `{"a":1}`, `{"a":1}`, ""},
		{raw, `{"data":{}}`, `{"data":{"client_token":"the key"},"k":"DERIVED"}`, "data.client_token raw, k"},
		{raw, `{}`, `{"k":"DERIVED"}`, "k"},
		{Tool{}, `{"clientToken":"theirs"}`, `{"clientToken":"theirs"}`, ""},
	} {
		params := `{"name":"t","arguments":` + c.arguments + `}`
		if c.arguments == "" {
			params = `{"name":"t"}`
		}
		call := parseCall(t, params)
		assert.Equal(t, `{"name":"t","arguments":`+c.want+`}`, string(call.Forward(c.tool, "the key", "DERIVED")))
		assert.Equal(t, c.downstream, call.Downstream(c.tool))
	}
	long := Tool{Natives: []NativeKey{{Path: []string{strings.Repeat("k", 300)}}}}
	assert.LessOrEqual(t, len(parseCall(t, `{"name":"t"}`).Downstream(long)), MaxDownstream)
}

func TestNativeKeysAreNoPartOfTheFingerprint(t *testing.T) {
	t.Parallel()
	tool := Tool{Natives: []NativeKey{{Path: []string{"k"}}, {Path: []string{"d", "k"}}}}
	of := func(arguments string) Fingerprint {
		f, err := parseCall(t, `{"name":"t","arguments":`+arguments+`}`).Fingerprint(tool)
		require.NoError(t, err)
		return f
	}
	same := of(`{"a":1,"d":{"b":2}}`)
	for _, arguments := range []string{`{"a":1,"k":"x","d":{"b":2}}`, `{"d":{"k":1,"b":2},"k":2,"a":1}`, `{"d":{"k":{"k":[]},"b":2},"a":1}`} {
		assert.Equal(t, same, of(arguments), arguments)
	}
	assert.NotEqual(t, same, of(`{"a":1,"d":{"b":2,"d":{"k":1}}}`))
	assert.Equal(t, of(`{"d":{}}`), of(`{"d":{"k":1}}`))
	assert.Equal(t, of(`{}`), of(`{"d":{"k":1}}`), "what holds nothing but the key is as good as absent")
	assert.Equal(t, of(`{"a":1}`), of(`{"a":1,"d":{}}`))
}

func TestDescriptionsThatMakeModelsMintKeysAreReplaced(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"A unique key for each request.", "Must be unique for every request", "Generate a fresh UUID per call to ensure uniqueness.",
		"Idempotency key. Use a new value for each API call.", "Each request must have a different idempotency token", "UUID v4, generated anew for every attempt",
		"Random token, one per request; never reuse a key.", "A unique identifier for this request. Do not reuse.", "For every call, send a new key",
	} {
		assert.True(t, mintsKeys(text), text)
		tool := rewrite(t, Policy{}, fmt.Sprintf(`{"name":"click","inputSchema":{"properties":{"idempotency_key":{"type":"string","description":%q}}}}`, text))
		assert.NotContains(t, string(tool.Definition), text)
	}
	for _, text := range []string{
		"", "Makes retries safe.", "A key of yours; repeat it on every retry.", "The idempotency key of the request.", "Use the same key for each retry of a request.",
	} {
		assert.False(t, mintsKeys(text), text)
	}
	tool := rewrite(t, Policy{}, `{"name":"click","description":"Clicks. Pass a new idempotency token with every call.","inputSchema":{}}`)
	assert.Contains(t, string(tool.Definition), mintedText)
	tool = rewrite(t, Policy{}, `{"name":"click","description":"Runs a unique job each time it is called.","inputSchema":{}}`)
	assert.NotContains(t, string(tool.Definition), mintedText, "it is not about keys")
}
