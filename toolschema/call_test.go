package toolschema

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func parseCall(t *testing.T, params string) Call {
	t.Helper()
	c, err := ParseCall([]byte(params))
	require.NoError(t, err, params)
	return c
}

func TestCarriers(t *testing.T) {
	t.Parallel()
	for fact, test := range map[string]struct {
		params, key string
		source      KeySource
		model       string
	}{
		"none":                          {`{"name":"t"}`, "", KeyNone, ""},
		"the model's argument":          {`{"name":"t","arguments":{"idempotency_key":"m"}}`, "m", KeyModel, ""},
		"an escaped name is that name":  {`{"name":"t","arguments":{"idempotency\u005fkey":"m"}}`, "m", KeyModel, ""},
		"null is no key":                {`{"name":"t","arguments":{"idempotency_key":null}}`, "", KeyNone, ""},
		"an empty argument is no key":   {`{"name":"t","arguments":{"idempotency_key":""}}`, "", KeyNone, ""},
		"the harness's in _meta":        {`{"name":"t","_meta":{"mcp-idem/key":"h"}}`, "h", KeyHarness, ""},
		"the harness's beside name":     {`{"name":"t","idempotencyKey":"h"}`, "h", KeyHarness, ""},
		"the harness's wins":            {`{"name":"t","idempotencyKey":"h","arguments":{"idempotency_key":"m"}}`, "h", KeyHarness, "m"},
		"two harness carriers agree":    {`{"name":"t","idempotencyKey":"h","_meta":{"mcp-idem/key":"h"}}`, "h", KeyHarness, ""},
		"a null _meta carries nothing":  {`{"name":"t","_meta":null}`, "", KeyNone, ""},
		"a key nested deeper is no key": {`{"name":"t","arguments":{"a":{"idempotency_key":"m"}}}`, "", KeyNone, ""},
	} {
		t.Run(fact, func(t *testing.T) {
			t.Parallel()
			c := parseCall(t, test.params)
			assert.Equal(t, "t", c.Name)
			assert.Equal(t, test.key, c.Key)
			assert.Equal(t, test.source, c.Source)
			assert.Equal(t, test.model, c.ModelKey)
		})
	}
}

func TestRunAndStepGiveTheSameKeyAgain(t *testing.T) {
	t.Parallel()
	key := func(run, step string) string {
		return parseCall(t, `{"name":"t","_meta":{"mcp-idem/run":"`+run+`","mcp-idem/step":"`+step+`"}}`).Key
	}
	assert.Equal(t, key("r1", "s1"), key("r1", "s1"))
	assert.NotEqual(t, key("r1", "s1"), key("r1", "s2"))
	assert.NotEqual(t, key("ab", "c"), key("a", "bc"), "the parts are kept apart")
	// Pinned: a new version of the program has to derive the old keys.
	assert.Equal(t, "run:cef3537ba10606930c40c4d46d377c9e", key("run-1", "step-1"))
}

func TestCallsThatCannotBeUnderstood(t *testing.T) {
	t.Parallel()
	for params, want := range map[string]CallReason{
		`[]`:                                     ReasonParams,
		``:                                       ReasonParams,
		`{"name":"t","name":"u"}`:                ReasonParams,
		`{"arguments":{}}`:                       ReasonParams,
		`{"name":1}`:                             ReasonParams,
		`{"name":""}`:                            ReasonParams,
		`{"name":"t","_meta":[]}`:                ReasonParams,
		`{"name":"t","arguments":[]}`:            ReasonArguments,
		`{"name":"t","arguments":null}`:          ReasonArguments,
		`{"name":"t","arguments":{"a":1,"a":2}}`: ReasonArguments,
		`{"name":"t","arguments":{"idempotency_key":7}}`:                                     ReasonKeyInvalid,
		`{"name":"t","_meta":{"mcp-idem/key":7}}`:                                            ReasonKeyInvalid,
		`{"name":"t","idempotencyKey":""}`:                                                   ReasonKeyInvalid,
		`{"name":"t","_meta":{"mcp-idem/run":"r"}}`:                                          ReasonKeyInvalid,
		`{"name":"t","_meta":{"mcp-idem/run":"r","mcp-idem/step":2}}`:                        ReasonKeyInvalid,
		`{"name":"t","idempotencyKey":"a","_meta":{"mcp-idem/key":"b"}}`:                     ReasonKeyConflict,
		`{"name":"t","idempotencyKey":"a","_meta":{"mcp-idem/run":"r","mcp-idem/step":"s"}}`: ReasonKeyConflict,
		`{"name":"t","arguments":{"idempotency_key":"m","idempotency_repeat_of":{}}}`:        ReasonRepeatUnknown,
	} {
		_, err := ParseCall([]byte(params))
		var callErr *CallError
		require.ErrorAs(t, err, &callErr, params)
		assert.Equal(t, want, callErr.Reason, params)
		assert.Equal(t, string(want)+": "+callErr.Message, err.Error())
	}
}

func TestABadKeyDoesNotKeepAnUnkeyedToolFromBeingCalled(t *testing.T) {
	t.Parallel()
	c, err := ParseCall([]byte(`{"name":"get_x","arguments":{"idempotency_key":7,"a":1},"_meta":{"mcp-idem/key":8,"progressToken":3}}`))
	require.Error(t, err)
	assert.Equal(t, "get_x", c.Name)
	assert.Equal(t, `{"name":"get_x","arguments":{"a":1},"_meta":{"progressToken":3}}`, string(c.Forward(Tool{}, "", "")))
}

func TestRepeatAndProgressToken(t *testing.T) {
	t.Parallel()
	c := parseCall(t, `{"name":"t","arguments":{"idempotency_repeat_of":"op_1"},"_meta":{"progressToken":9007199254740993}}`)
	assert.Equal(t, "op_1", c.RepeatOf)
	assert.Equal(t, "9007199254740993", string(c.ProgressToken))
	assert.Nil(t, parseCall(t, `{"name":"t"}`).ProgressToken)
}

func fingerprint(t *testing.T, arguments string) Fingerprint {
	t.Helper()
	f, err := parseCall(t, `{"name":"t"`+arguments+`}`).Fingerprint(Tool{})
	require.NoError(t, err)
	return f
}

func TestFingerprintIsOfTheArgumentsOnly(t *testing.T) {
	t.Parallel()
	same := fingerprint(t, `,"arguments":{"a":1,"b":[null]}`)
	for _, arguments := range []string{
		`,"arguments":{ "b" : [null], "a" : 1.0 }`,
		`,"arguments":{"idempotency_key":"k","a":1,"b":[null]}`,
		`,"arguments":{"a":1,"idempotency_repeat_of":"op_1","b":[null],"idempotency_key":"k2"}`,
		`,"_meta":{"mcp-idem/key":"h"},"arguments":{"a":1,"b":[null]}`,
	} {
		assert.Equal(t, same, fingerprint(t, arguments), arguments)
	}
	assert.NotEqual(t, same, fingerprint(t, `,"arguments":{"a":1,"b":[]}`))
	assert.NotEqual(t, same, fingerprint(t, `,"arguments":{"a":1,"b":[null],"c":{"idempotency_key":"k"}}`))
	assert.Equal(t, fingerprint(t, `,"arguments":{}`), fingerprint(t, ``))
	assert.Equal(t, fingerprint(t, ``), fingerprint(t, `,"arguments":{"idempotency_key":"k"}`))
}

func TestFingerprintRefusesNestedRepetition(t *testing.T) {
	t.Parallel()
	for _, arguments := range []string{`{"a":{"x":1,"x":1}}`, `{"a":` + strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1) + `}`} {
		_, err := parseCall(t, `{"name":"t","arguments":`+arguments+`}`).Fingerprint(Tool{})
		var callErr *CallError
		require.ErrorAs(t, err, &callErr)
		assert.Equal(t, ReasonArguments, callErr.Reason)
	}
}

func TestForwardKeepsEveryByteThatIsNotOurs(t *testing.T) {
	t.Parallel()
	native := ownKey
	for fact, test := range map[string]struct {
		tool         Tool
		params, want string
	}{
		"nothing to take out":           {Tool{}, ` {"name" : "t", "arguments":{"n":1.0,"n2":9007199254740993} ,"x":null} `, ` {"name" : "t", "arguments":{"n":1.0,"n2":9007199254740993} ,"x":null} `},
		"the key goes":                  {Tool{}, `{"name":"t","arguments":{"a":1.0, "idempotency_key":"k"}}`, `{"name":"t","arguments":{"a":1.0}}`},
		"key and repeat go":             {Tool{}, `{"name":"t","arguments":{"idempotency_key":"k","a":1,"idempotency_repeat_of":"op"}}`, `{"name":"t","arguments":{"a":1}}`},
		"arguments may become empty":    {Tool{}, `{"name":"t","arguments":{"idempotency_key":"k"}}`, `{"name":"t","arguments":{}}`},
		"absent arguments stay absent":  {Tool{}, `{"name":"t","idempotencyKey":"k"}`, `{"name":"t"}`},
		"an emptied _meta goes":         {Tool{}, `{"_meta":{"mcp-idem/run":"r","mcp-idem/step":"s"},"name":"t"}`, `{"name":"t"}`},
		"an empty _meta stays":          {Tool{}, `{"_meta":{},"name":"t"}`, `{"_meta":{},"name":"t"}`},
		"others' _meta stays":           {Tool{}, `{"_meta":{"mcp-idem/key":"k", "p/q":1e2},"name":"t"}`, `{"_meta":{"p/q":1e2},"name":"t"}`},
		"its own key gets the derived":  {native, `{"name":"t","arguments":{"idempotency_key":"k","a":1}}`, `{"name":"t","arguments":{"idempotency_key":"DERIVED","a":1}}`},
		"its own key is added":          {native, `{"name":"t","arguments":{"a":1},"idempotencyKey":"k"}`, `{"name":"t","arguments":{"a":1,"idempotency_key":"DERIVED"}}`},
		"even without arguments":        {native, `{"name":"t","idempotencyKey":"k"}`, `{"name":"t","arguments":{"idempotency_key":"DERIVED"}}`},
		"an unkeyed tool keeps its own": {Tool{ownsKey: true, ownsRepeat: true}, `{"name":"t","arguments":{"idempotency_key":"k","idempotency_repeat_of":"o"}}`, `{"name":"t","arguments":{"idempotency_key":"k","idempotency_repeat_of":"o"}}`},
		"nested members are not ours":   {Tool{}, `{"name":"t","arguments":{"a":{"idempotency_key":"k"}}}`, `{"name":"t","arguments":{"a":{"idempotency_key":"k"}}}`},
		"nested repetition is theirs":   {Tool{}, `{"name":"t","arguments":{"idempotency_key":"k","a":{"x":1,"x":2},"s":"\ud800"}}`, `{"name":"t","arguments":{"a":{"x":1,"x":2},"s":"\ud800"}}`},
	} {
		t.Run(fact, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, string(parseCall(t, test.params).Forward(test.tool, "the key", "DERIVED")))
		})
	}
}
