package jsonrpc_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

func TestParseTellsTheKindsApart(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		line string
		kind string
		want jsonrpc.Message
	}{
		"request":                    {`{"jsonrpc":"2.0","id":1,"method":"ping"}`, "request", jsonrpc.Message{ID: []byte("1"), Method: "ping"}},
		"request with a string id":   {`{"jsonrpc":"2.0","id":"\u0061","method":"ping"}`, "request", jsonrpc.Message{ID: []byte(`"\u0061"`), Method: "ping"}},
		"request with a big id":      {`{"jsonrpc":"2.0","id":9007199254740993,"method":"a"}`, "request", jsonrpc.Message{ID: []byte("9007199254740993"), Method: "a"}},
		"request with null params":   {`{"jsonrpc":"2.0","id":1,"method":"ping","params":null}`, "request", jsonrpc.Message{ID: []byte("1"), Method: "ping"}},
		"request with array params":  {`{"jsonrpc":"2.0","id":1,"method":"a","params":[1]}`, "request", jsonrpc.Message{ID: []byte("1"), Method: "a", Params: []byte("[1]")}},
		"notification":               {`{"jsonrpc":"2.0","method":"a\u002fb","params":{"x": 1}}`, "notification", jsonrpc.Message{Method: "a/b", Params: []byte(`{"x": 1}`)}},
		"result":                     {`{"result":{},"jsonrpc":"2.0","id":1}`, "response", jsonrpc.Message{ID: []byte("1"), Result: []byte("{}")}},
		"null result":                {`{"result":null,"jsonrpc":"2.0","id":1}`, "response", jsonrpc.Message{ID: []byte("1"), Result: []byte("null")}},
		"error":                      {`{"jsonrpc":"2.0","id":1,"error":{"code":-1}}`, "response", jsonrpc.Message{ID: []byte("1"), Error: []byte(`{"code":-1}`)}},
		"error for nobody":           {`{"jsonrpc":"2.0","id":null,"error":{"code":-1}}`, "response", jsonrpc.Message{ID: []byte("null"), Error: []byte(`{"code":-1}`)}},
		"error without an id":        {`{"jsonrpc":"2.0","error":{"code":-1}}`, "response", jsonrpc.Message{Error: []byte(`{"code":-1}`)}},
		"null error beside a result": {`{"jsonrpc":"2.0","id":1,"result":{},"error":null}`, "response", jsonrpc.Message{ID: []byte("1"), Result: []byte("{}")}},
		"null result beside error":   {`{"jsonrpc":"2.0","id":1,"result":null,"error":{}}`, "response", jsonrpc.Message{ID: []byte("1"), Error: []byte("{}")}},
		"white space and more":       {` { "jsonrpc" : "2.0" , "id" : -1.5e3, "method":"a","x":1} `, "request", jsonrpc.Message{ID: []byte("-1.5e3"), Method: "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, err := jsonrpc.Parse([]byte(test.line))
			require.NoError(t, err)
			assert.Equal(t, test.kind == "request", m.IsRequest(), "request")
			assert.Equal(t, test.kind == "notification", m.IsNotification(), "notification")
			assert.Equal(t, test.kind == "response", m.IsResponse(), "response")
			assert.Equal(t, test.line, string(m.Raw()))
			assertSameMembers(t, test.want, m)
		})
	}
}

func TestParseRefusesWhatIsNoMessage(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		line string
		code int
		id   string
	}{
		"not JSON":                {`hello`, -32700, ""},
		"cut off":                 {`{"jsonrpc":"2.0","id":1`, -32700, ""},
		"two values":              {`{"jsonrpc":"2.0","id":1,"method":"a"} {}`, -32700, ""},
		"empty":                   {``, -32700, ""},
		"batch":                   {`[{"jsonrpc":"2.0","id":1,"method":"a"}]`, -32600, ""},
		"string":                  {`"a"`, -32600, ""},
		"null":                    {`null`, -32600, ""},
		"no version":              {`{"id":1,"method":"a"}`, -32600, "1"},
		"other version":           {`{"jsonrpc":"1.0","id":"x","method":"a"}`, -32600, `"x"`},
		"number as version":       {`{"jsonrpc":2.0,"id":1,"method":"a"}`, -32600, "1"},
		"no method and no answer": {`{"jsonrpc":"2.0","id":1}`, -32600, "1"},
		"empty method":            {`{"jsonrpc":"2.0","id":1,"method":""}`, -32600, "1"},
		"method of a wrong type":  {`{"jsonrpc":"2.0","id":1,"method":7}`, -32600, "1"},
		"id is an object":         {`{"jsonrpc":"2.0","id":{},"method":"a"}`, -32600, ""},
		"id is an array":          {`{"jsonrpc":"2.0","id":[1],"result":{}}`, -32600, ""},
		"id is a bool":            {`{"jsonrpc":"2.0","id":true,"method":"a"}`, -32600, ""},
		"id of a request is null": {`{"jsonrpc":"2.0","id":null,"method":"a"}`, -32600, ""},
		"repeated method":         {`{"jsonrpc":"2.0","id":7,"method":"a","method":"b"}`, -32600, "7"},
		"repeated params, id last": {`{"jsonrpc":"2.0","method":"a","params":{"id":1},"params":{"id":2},"id":7}`,
			-32600, "7"},
		"repeated id":             {`{"jsonrpc":"2.0","id":7,"id":8,"method":"a"}`, -32600, ""},
		"repeated id, escaped":    {`{"jsonrpc":"2.0","id":7,"\u0069d":8,"method":"a"}`, -32600, ""},
		"params is a string":      {`{"jsonrpc":"2.0","id":1,"method":"a","params":"x"}`, -32600, "1"},
		"params is a number":      {`{"jsonrpc":"2.0","id":1,"method":"a","params":5}`, -32600, "1"},
		"method and result":       {`{"jsonrpc":"2.0","id":1,"method":"a","result":{}}`, -32600, "1"},
		"result and error":        {`{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1}}`, -32600, "1"},
		"result without an id":    {`{"jsonrpc":"2.0","result":{}}`, -32600, ""},
		"notification, no method": {`{"jsonrpc":"2.0","params":{}}`, -32600, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, err := jsonrpc.Parse([]byte(test.line))
			var wire *jsonrpc.Error
			require.ErrorAs(t, err, &wire)
			assert.Equal(t, test.code, wire.Code)
			assert.Equal(t, test.id, string(m.ID))
			assert.False(t, m.IsResponse())

			reply := jsonrpc.ErrorReply(m.ID, wire)
			if test.id == "" {
				test.id = "null"
			}
			back, err := jsonrpc.Parse(reply.Raw())
			require.NoError(t, err)
			assert.Equal(t, test.id, string(back.ID))
		})
	}
}

func TestWithChangesOneMemberAndNoOtherByte(t *testing.T) {
	t.Parallel()
	const line = ` { "params" : {"n": 9007199254740993.10} , "id":"\u0061" ,"method":"a", "jsonrpc":"2.0"} `
	m, err := jsonrpc.Parse([]byte(line))
	require.NoError(t, err)

	once := m.With("id", []byte("12345"))
	assert.Equal(t, ` { "params" : {"n": 9007199254740993.10} , "id":12345 ,"method":"a", "jsonrpc":"2.0"} `, string(once.Raw()))
	twice := once.With("params", []byte("{}")).With("method", []byte(`"b\/c"`))
	assert.Equal(t, ` { "params" : {} , "id":12345 ,"method":"b\/c", "jsonrpc":"2.0"} `, string(twice.Raw()))
	assertSameMembers(t, jsonrpc.Message{ID: []byte("12345"), Params: []byte("{}"), Method: "b/c"}, twice)
	assert.Equal(t, line, string(m.Raw()), "the original is unchanged")

	answer := jsonrpc.Result([]byte("1"), []byte("{}")).With("result", []byte(`{"a":1}`)).With("id", []byte(`"x"`))
	assertSameMembers(t, jsonrpc.Message{ID: []byte(`"x"`), Result: []byte(`{"a":1}`)}, answer)
	failed := jsonrpc.ErrorReply(nil, &jsonrpc.Error{Code: 1}).With("error", []byte(`{"code":2}`))
	assert.Equal(t, `{"jsonrpc":"2.0","id":null,"error":{"code":2}}`, string(failed.Raw()))
	added := jsonrpc.Notification("n", nil).With("params", []byte(`{}`))
	assert.Equal(t, `{"jsonrpc":"2.0","method":"n","params":{}}`, string(added.Raw()))
}

func TestBuiltMessagesReadBack(t *testing.T) {
	t.Parallel()
	data := []byte(`{"n":9007199254740993}`)
	for want, m := range map[string]jsonrpc.Message{
		`{"jsonrpc":"2.0","id":1,"method":"a","params":{"n":9007199254740993}}`:                               jsonrpc.Request([]byte("1"), "a", data),
		`{"jsonrpc":"2.0","id":"x","method":"<\"a\">"}`:                                                       jsonrpc.Request([]byte(`"x"`), `<"a">`, nil),
		`{"jsonrpc":"2.0","method":"a","params":{"n":9007199254740993}}`:                                      jsonrpc.Notification("a", data),
		`{"jsonrpc":"2.0","id":1,"result":{"n":9007199254740993}}`:                                            jsonrpc.Result([]byte("1"), data),
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no \"x\"","data":{"n":9007199254740993}}}`: jsonrpc.ErrorReply([]byte("1"), &jsonrpc.Error{Code: -32601, Message: `no "x"`, Data: data}),
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":""}}`:                                    jsonrpc.ErrorReply(nil, &jsonrpc.Error{Code: -32700}),
	} {
		assert.Equal(t, want, string(m.Raw()))
		back, err := jsonrpc.Parse(m.Raw())
		require.NoError(t, err, want)
		assertSameMembers(t, back, m)
	}
}

func TestParseError(t *testing.T) {
	t.Parallel()
	e, ok := jsonrpc.ParseError([]byte(`{"data":[1.0],"code":-32602,"message":"b\u0061d"}`))
	require.True(t, ok)
	assert.Equal(t, &jsonrpc.Error{Code: -32602, Message: "bad", Data: []byte("[1.0]")}, e)
	assert.Equal(t, "bad (JSON-RPC error -32602)", e.Error())

	e, ok = jsonrpc.ParseError([]byte(`{"code":1,"message":7}`))
	require.True(t, ok)
	assert.Equal(t, &jsonrpc.Error{Code: 1}, e)

	for _, raw := range []string{``, `null`, `"boom"`, `{}`, `{"code":"ECONNRESET"}`, `{"code":1.5}`, `{"code":1,"code":2}`, `{"code":99999999999999999999}`} {
		_, ok := jsonrpc.ParseError([]byte(raw))
		assert.False(t, ok, raw)
	}
}

func TestSameID(t *testing.T) {
	t.Parallel()
	for _, same := range [][2]string{
		{`1`, `1`}, {`1`, `1.0`}, {`1`, `1e0`}, {`10`, `1E+1`}, {`0`, `-0`}, {`0`, `0.0e5`}, {`0.1`, `1e-1`}, {`"a"`, `"\u0061"`},
		{`9007199254740993`, `9007199254740993.0`}, {`1200`, `1.2e3`}, {`"é"`, `"\u00e9"`}, {`null`, `null`},
		{`1e99999999999999999999`, `1e99999999999999999999`},
	} {
		assert.True(t, jsonrpc.SameID([]byte(same[0]), []byte(same[1])), "%s and %s", same[0], same[1])
	}
	for _, other := range [][2]string{
		{`1`, `2`}, {`1`, `"1"`}, {`1`, `10`}, {`1`, `-1`}, {`1`, `1.1`}, {`9007199254740992`, `9007199254740993`},
		{`"a"`, `"A"`}, {`"null"`, `null`}, {``, `0`}, {``, `null`}, {`""`, `0`}, {`"1e0"`, `1`}, {`1e99999999999999999999`, `1e99999999999999999998`},
	} {
		assert.False(t, jsonrpc.SameID([]byte(other[0]), []byte(other[1])), "%s and %s", other[0], other[1])
	}
}

func assertSameMembers(t *testing.T, want, got jsonrpc.Message) {
	t.Helper()
	assert.Equal(t, string(want.ID), string(got.ID), "id")
	assert.Equal(t, want.Method, got.Method, "method")
	assert.Equal(t, string(want.Params), string(got.Params), "params")
	assert.Equal(t, string(want.Result), string(got.Result), "result")
	assert.Equal(t, string(want.Error), string(got.Error), "error")
}
