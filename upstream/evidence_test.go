package upstream_test

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
	"github.com/mcp-idem/mcp-idem/upstream"
)

func TestCodesThatProveThatNothingWasExecuted(t *testing.T) {
	t.Parallel()
	for _, reply := range []string{
		`{"code":-32700,"message":"Parse error"}`,
		`{"code":-32600,"message":"Invalid Request: \"id\" must be a string or a number"}`,
		`{"code":-32602,"message":"Invalid params: timeout must be a positive integer"}`,
		`{"code":-32602,"message":"Input validation error: 'timeout' is a required property"}`,
		`{"code":-32602,"message":"Invalid params: timeout: Required"}`,
		`{"code":-32602,"message":"got an unexpected keyword argument 'timeout'"}`,
		`{"code":-32602,"message":"Unknown parameter: connection_timeout"}`,
		`{"code":-32602,"message":"Missing required parameter: connection"}`,
		`{"code":-32602,"message":"unknown field \"session\""}`,
		`{"code":-32602,"message":"invalid connection string"}`,
		`{"code":-32602,"message":"Invalid arguments for tool fetch: [ { \"code\": \"invalid_type\", \"path\": [ \"timeout\" ], \"message\": \"Expected number\" } ]"}`,
		`{"code":-32600,"message":"Invalid Request"}`,
		`{"code":-32601,"message":"Method not found"}`,
		`{"code":-32602,"message":"Invalid params"}`,
		`{"code":-32602,"message":"MCP error -32602: Input validation error: Invalid arguments for tool refund: [ { \"expected\": \"string\" } ]"}`,
		`{"code":-32602,"message":"Tool refnud not found"}`,
		`{"code":-32602,"message":"Unknown tool: refnud"}`,
		`{"code":-32602,"message":"Invalid request parameters","data":""}`,
		`{"code":-32602,"message":"missing field: output_dir"}`,
		`{"code":-32020,"message":"Header mismatch"}`,
		`{"code":-32021,"message":""}`,
		`{"code":-32022,"message":"Unsupported protocol version"}`,
	} {
		f := judgement(t, `"error":`+reply)
		assertFinding(t, upstream.FoundNotExecuted, 3, "refused", f, reply)
		require.NotNil(t, f.Proof, reply)
		row, reason := f.Proof.ProvesNotExecuted()
		assert.Equal(t, 3, row)
		assert.Equal(t, "refused", reason)
		assert.Contains(t, f.Proof.Error(), f.Error.Message)

		strict := upstream.DefaultJudgement()
		strict.StrictCodes = true
		f = strict.Judge(parse(t, `"error":`+reply))
		assertFinding(t, upstream.FoundAmbiguous, 3, "ambiguous_error", f, reply)
		assert.Nil(t, f.Proof)
	}
}

func TestAmbiguousTextTakesTheProofFromACode(t *testing.T) {
	t.Parallel()
	for _, reply := range []string{
		`{"code":-32602,"message":"could not update field 'status' after charge: connection reset by peer"}`,
		`{"code":-32602,"message":"request timed out waiting for parameter sync"}`,
		`{"code":-32602,"message":"Invalid params: the server answered 502 Bad Gateway"}`,
		`{"code":-32600,"message":"Session terminated"}`,
		`{"code":-32602,"message":"Invalid params: failed to store field: timeout"}`,
		`{"code":-32600,"message":"Unexpected connection timeout"}`,
		`{"code":-32600,"message":"Session not found"}`,
		`{"code":-32600,"message":"Connection closed"}`,
		`{"code":-32601,"message":"rpc error: code = Unavailable desc = transport is closing"}`,
		`{"code":-32700,"message":"Parse error: unexpected EOF"}`,
		`{"code":-32020,"message":"upstream request timeout"}`,
	} {
		f := judgement(t, `"error":`+reply)
		assertFinding(t, upstream.FoundAmbiguous, 7, "ambiguous_error", f, reply)
		assert.Nil(t, f.Proof, reply)
		f = upstream.Judgement{}.Judge(parse(t, `"error":`+reply))
		assertFinding(t, upstream.FoundNotExecuted, 3, "refused", f, "without lists the code is all there is: "+reply)
	}
}

func TestInvalidParamsAboutTheOutputProveNothing(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"Output validation error: Tool refund has an output schema but no structured content was provided",
		"MCP error -32602: Tool refund has an output schema but no structured content was provided",
		"Invalid structured content for tool refund: [ { \"expected\": \"string\" } ]",
		"Structured content does not match the tool's output schema: data must have required property 'id'",
		"Invalid structuredContent",
	} {
		f := judgement(t, fmt.Sprintf(`"error":{"code":-32602,"message":%s}`, rawjson.Quote(text)))
		assertFinding(t, upstream.FoundAmbiguous, 7, "ambiguous_error", f, text)
	}
	// nothing about the input at all: judged like any other error
	f := judgement(t, `"error":{"code":-32602,"message":"The account is locked, access denied"}`)
	assertFinding(t, upstream.FoundErrorReply, 7, "upstream_error", f, "")
	f = judgement(t, `"error":{"code":-32602,"message":"boom"}`)
	assertFinding(t, upstream.FoundAmbiguous, 7, "ambiguous_error", f, "")
}

func TestShapesOfAnswers(t *testing.T) {
	t.Parallel()
	for member, want := range map[string]upstream.Finding{
		`"result":{"content":[]}`:           {Kind: upstream.FoundResult, Row: 5},
		`"result":{"structuredContent":{}}`: {Kind: upstream.FoundResult, Row: 5},
		`"result":{}`:                       {Kind: upstream.FoundResult, Row: 5},
		`"result":{"content":[{"type":"text","text":"request timed out"}]}`:                      {Kind: upstream.FoundResult, Row: 5},
		`"result":{"content":[],"isError":false}`:                                                {Kind: upstream.FoundResult, Row: 5},
		`"result":{"content":[],"resultType":"complete"}`:                                        {Kind: upstream.FoundResult, Row: 5},
		`"result":{"content":[],"task":"laundry"}`:                                               {Kind: upstream.FoundResult, Row: 5},
		`"result":{"content":[],"task":{"name":"laundry"}}`:                                      {Kind: upstream.FoundResult, Row: 5},
		`"result":{"content":[],"task":{"x":1,"x":2}}`:                                           {Kind: upstream.FoundResult, Row: 5},
		`"result":{"isError":true}`:                                                              {Kind: upstream.FoundErrorResult, Row: 6, Reason: "upstream_error"},
		`"result":{"content":"no array","isError":true}`:                                         {Kind: upstream.FoundErrorResult, Row: 6, Reason: "upstream_error"},
		`"result":{"content":[],"structuredContent":{"error":"gateway timeout"},"isError":true}`: {Kind: upstream.FoundAmbiguous, Row: 6, Reason: "ambiguous_error"},
		`"result":{"resultType":"input_required","requestState":"s"}`:                            {Kind: upstream.FoundInputRequired, Row: 10, Reason: "input_required"},
		`"result":{"resultType":"task","taskId":"t"}`:                                            {Kind: upstream.FoundTask, Row: 5, Reason: "task"},
		`"result":{"task":{"taskId":"t","status":"working"}}`:                                    {Kind: upstream.FoundTask, Row: 5, Reason: "task"},
		`"result":[]`:                          {Kind: upstream.FoundUnreadable, Row: 8, Reason: "bad_answer"},
		`"result":null`:                        {Kind: upstream.FoundUnreadable, Row: 8, Reason: "bad_answer"},
		`"result":"done"`:                      {Kind: upstream.FoundUnreadable, Row: 8, Reason: "bad_answer"},
		`"result":{"content":[],"content":[]}`: {Kind: upstream.FoundUnreadable, Row: 8, Reason: "bad_answer"},
		`"error":"boom"`:                       {Kind: upstream.FoundUnreadable, Row: 8, Reason: "bad_answer"},
		`"error":{"message":"no code"}`:        {Kind: upstream.FoundUnreadable, Row: 8, Reason: "bad_answer"},
	} {
		m := parse(t, member)
		f := upstream.DefaultJudgement().Judge(m)
		assertFinding(t, want.Kind, want.Row, want.Reason, f, member)
		assert.Equal(t, string(m.Result), string(f.Result), "as it came")
		assert.Nil(t, f.Proof, member)
	}
}

func TestURLElicitationIsPassedOnAndFreesTheKey(t *testing.T) {
	t.Parallel()
	f := judgement(t, `"error":{"code":-32042,"message":"visit","data":{"elicitations":[9007199254740993]}}`)
	assertFinding(t, upstream.FoundURLElicitation, 4, "refused", f, "")
	require.NotNil(t, f.Proof)
	row, _ := f.Proof.ProvesNotExecuted()
	assert.Equal(t, 4, row)
	assert.Equal(t, `{"elicitations":[9007199254740993]}`, string(f.Error.Data))
}

func TestConfiguredTexts(t *testing.T) {
	t.Parallel()
	j := upstream.DefaultJudgement()
	j.NothingHappened = []*regexp.Regexp{regexp.MustCompile(`^dry run\b`), regexp.MustCompile(`(?i)nothing was booked`)}
	f := j.Judge(parse(t, `"result":{"content":[{"type":"text","text":"Timed out. Nothing was booked."}],"isError":true}`))
	assertFinding(t, upstream.FoundNotExecuted, 6, "refused", f, "")
	require.NotNil(t, f.Proof)
	row, _ := f.Proof.ProvesNotExecuted()
	assert.Equal(t, 6, row)
	f = j.Judge(parse(t, `"result":{"content":[{"type":"text","text":"Nothing was booked."}]}`))
	assertFinding(t, upstream.FoundResult, 5, "", f, "a success is a success")

	f = upstream.Judgement{}.Judge(parse(t, `"error":{"code":1,"message":"not found"}`))
	assertFinding(t, upstream.FoundAmbiguous, 7, "ambiguous_error", f, "without lists nothing is a refusal")
}

func judgement(t *testing.T, member string) upstream.Finding {
	t.Helper()
	return upstream.DefaultJudgement().Judge(parse(t, member))
}

func parse(t *testing.T, member string) jsonrpc.Message {
	t.Helper()
	m, err := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":1,` + member + `}`))
	require.NoError(t, err, member)
	return m
}

func assertFinding(t *testing.T, kind upstream.FindingKind, row int, reason string, f upstream.Finding, about string) {
	t.Helper()
	assert.Equal(t, kind.String(), f.Kind.String(), about)
	assert.Equal(t, row, f.Row, about)
	assert.Equal(t, reason, f.Reason, about)
}
