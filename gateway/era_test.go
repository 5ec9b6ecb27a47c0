package gateway_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/gateway"
	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

func TestARequestLosesItsPreambleAndNothingElse(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ params, want string }{
		"no params":                   {``, ``},
		"no preamble":                 {`{ "a":1.0 }`, `{ "a":1.0 }`},
		"a preamble alone":            {`{"_meta":{` + preamble + `},"a":1e0}`, `{"a":1e0}`},
		"nothing but a preamble":      {`{"_meta":{` + preamble + `}}`, `{}`},
		"a preamble among others":     {`{"_meta":{"progressToken":1.0, ` + preamble + `,"x/y" : [] }}`, `{"_meta":{"progressToken":1.0,"x/y" : [] }}`},
		"an escaped name":             {`{"_meta":{"io.modelcontextprotocol\/clientInfo":{},"z":1}}`, `{"_meta":{"z":1}}`},
		"a level":                     {`{"_meta":{"io.modelcontextprotocol/logLevel":"debug"},"name":"x"}`, `{"name":"x"}`},
		"one of another purpose":      {`{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}`, `{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}`},
		"a preamble in the arguments": {`{"arguments":{"_meta":{` + preamble + `}}}`, `{"arguments":{"_meta":{` + preamble + `}}}`},
		"an empty _meta":              {`{"_meta":{},"x":"io.modelcontextprotocol/"}`, `{"_meta":{},"x":"io.modelcontextprotocol/"}`},
		"a _meta of another type":     {`{"_meta":"io.modelcontextprotocol/"}`, `{"_meta":"io.modelcontextprotocol/"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := gateway.Neutral(jsonrpc.Request([]byte("1"), "x", []byte(test.params)))
			assert.Equal(t, test.want, string(got.Params))
			if test.params != "" {
				again, err := jsonrpc.Parse(got.Raw())
				require.NoError(t, err)
				assert.Equal(t, test.want, string(again.Params))
			}
		})
	}
}

func TestAResultFollowsTheErasOfItsCaller(t *testing.T) {
	t.Parallel()
	const identity = `"io.modelcontextprotocol/serverInfo":{"name":"s"}`
	for name, test := range map[string]struct{ method, result, legacy, modern string }{
		"a result":               {"tools/call", `{ "content":[1.0] }`, `{ "content":[1.0] }`, `{ "content":[1.0] ,"resultType":"complete","_meta":{` + identity + `}}`},
		"an empty one":           {"prompts/get", `{}`, `{}`, `{"resultType":"complete","_meta":{` + identity + `}}`},
		"a list":                 {"tools/list", `{"tools":[]}`, `{"tools":[]}`, `{"tools":[],"resultType":"complete","ttlMs":0,"cacheScope":"private","_meta":{` + identity + `}}`},
		"a list with its hints":  {"resources/list", `{"ttlMs":5,"cacheScope":"public"}`, `{"ttlMs":5,"cacheScope":"public"}`, `{"ttlMs":5,"cacheScope":"public","resultType":"complete","_meta":{` + identity + `}}`},
		"one that is complete":   {"tools/call", `{"resultType":"complete","x":1}`, `{"x":1}`, `{"resultType":"complete","x":1,"_meta":{` + identity + `}}`},
		"one that asks":          {"tools/call", `{"resultType":"input_required"}`, `{"resultType":"input_required"}`, `{"resultType":"input_required","_meta":{` + identity + `}}`},
		"one with a _meta":       {"tools/call", `{"_meta":{"a":1}}`, `{"_meta":{"a":1}}`, `{"_meta":{"a":1,` + identity + `},"resultType":"complete"}`},
		"one of another server":  {"tools/call", `{"_meta":{"io.modelcontextprotocol/serverInfo":{}}}`, `{"_meta":{"io.modelcontextprotocol/serverInfo":{}}}`, `{"_meta":{"io.modelcontextprotocol/serverInfo":{}},"resultType":"complete"}`},
		"a word in its contents": {"tools/call", `{"content":"resultType"}`, `{"content":"resultType"}`, `{"content":"resultType","resultType":"complete","_meta":{` + identity + `}}`},
		"what is no object":      {"tools/call", `[]`, `[]`, `[]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reply := jsonrpc.Result([]byte("1"), []byte(test.result))
			assert.Equal(t, test.legacy, string(gateway.AnswerLegacy(test.method, reply).Result))
			assert.Equal(t, test.modern, string(gateway.AnswerModern(test.method, reply, []byte(`{"name":"s"}`)).Result))
		})
	}
	refused := jsonrpc.ErrorReply([]byte("1"), &jsonrpc.Error{Code: 1})
	assert.Equal(t, refused.Raw(), gateway.AnswerModern("tools/call", refused, nil).Raw())
}
