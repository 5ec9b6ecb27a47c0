package upstream_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
	"github.com/mcp-idem/mcp-idem/upstream"
)

// ambiguous are texts after which nobody knows whether the effect happened.
var ambiguous = []string{
	"Payment API timed out after 30s",
	"Request timed out",
	"MCP error -32001: Request timed out",
	"Timeout waiting for response from api.example.com",
	"Error: timeout of 10000ms exceeded",
	"connect ETIMEDOUT 10.0.0.1:443",
	"ESOCKETTIMEDOUT",
	"TimeoutError: page.click: Timeout 30000ms exceeded.",
	"httpx.ReadTimeout: The read operation timed out",
	"requests.exceptions.ReadTimeout",
	"context deadline exceeded",
	"Post \"https://api.example.com/v1/refunds\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)",
	"rpc error: code = DeadlineExceeded desc = Deadline Exceeded",
	"read tcp 10.0.0.2:51234->10.0.0.1:443: read: connection reset by peer",
	"read ECONNRESET",
	"Error: write EPIPE",
	"socket hang up",
	"Error: aborted, ECONNABORTED",
	"Connection aborted.', RemoteDisconnected('Remote end closed connection without response'))",
	"The connection was closed unexpectedly",
	"net::ERR_CONNECTION_RESET",
	"broken pipe",
	"unexpected EOF",
	"Post \"https://x\": EOF",
	"SSL SYSCALL error: EOF detected",
	"server closed the connection unexpectedly",
	"Lost connection to MySQL server during query",
	"network error",
	"NetworkError when attempting to fetch resource.",
	"TypeError: fetch failed",
	"Request failed with status code 502",
	"Request failed with status code 503",
	"HTTP 504",
	"HTTP/1.1 502 Bad Gateway",
	"502 Bad Gateway",
	"upstream returned 503",
	"API error: 504 Gateway Timeout",
	"Gateway Time-out",
	"503 Service Temporarily Unavailable",
	"Error 520: Web server is returning an unknown error",
	"Internal Server Error",
	"status: 500, body: oops",
	"The mail may have been sent, please check the outbox",
	"The order might already have been created",
	"Unknown whether the transfer went through",
	"Could not verify whether the payment was captured",
	"Payment status unknown",
	"2 of 3 items processed: partially completed",
	"Invalid response from server",
	"Unexpected token < in JSON at position 0",
	"json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
	"Failed to parse response body",
	"Output validation error: 'id' is a required property",
	"Tool refund has an output schema but no structured content was provided",
	"The operation was cancelled",
	"AbortError: This operation was aborted",
	"No response from the payment provider",
	"Invalid timeout value; request timed out",
	"Order not found in the reply: connection lost",
	"Lock wait timeout exceeded; try restarting transaction",
	"server responded with a status code of 503",
	"server responded with status 500",
	"got HTTP status 502 from origin",
	"WebSocket connection to gateway was closed (1006)",
	"Session terminated",
	`{"error":"timeout"}`,
	"timeout",
}

// refusals are texts that say definitely that nothing was done.
var refusals = []string{
	"Invalid timeout value",
	"Invalid value for parameter 'timeout': must be positive",
	"timeout must be a positive integer",
	"unknown parameter: timeout_ms",
	"Field \"timeout\" is required",
	"Error 404: order 502 not found",
	"Order 503 does not exist",
	"Customer not found",
	"No such customer: 'cus_504'",
	"ENOENT: no such file or directory, open '/tmp/x'",
	"Unauthorized",
	"401 Unauthorized: bad credentials",
	"Invalid API key provided",
	"Your token has expired",
	"403 Forbidden",
	"Permission denied",
	"You do not have permission to refund this order",
	"Access denied for user 'bob'",
	"Rate limit exceeded, try again in 30s",
	"429 Too Many Requests",
	"Quota exceeded for project 5",
	"A file with this name already exists",
	"Order 12 was already refunded",
	"duplicate key value violates unique constraint \"orders_pkey\"",
	"Input validation error: 'to' is a required property",
	"Validation failed: amount must be greater than 0",
	"Missing required parameter: order",
	"Unknown tool: refnud",
	"Bad Request: malformed recipient address",
	"Your card was declined.",
	"Insufficient funds",
	"This operation is not supported on archived repositories",
	"amount is out of range",
	"Access denied - path outside allowed directories: /etc/passwd not in /srv",
	"Request failed with status code 404",
	"Request failed with status code 422",
	"Conflict: branch protection refuses to merge",
	"amount: expected at most 100, got 500",
	"Client account 5 is closed, refunds are not allowed",
	"Failed to parse request body: invalid JSON",
	"Order 500 status is invalid",
	"connectTimeout must be a number",
	"Invalid request timeout value: -1",
	"1 validation error for fetch\ntimeout\n  Input should be a valid integer",
	`Invalid arguments for tool fetch: [ { "code": "invalid_type", "path": [ "timeout" ], "message": "Expected number" } ]`,
}

// undecided are texts that name neither.
var undecided = []string{"", "Something went wrong", "boom", "failed", "Error", "connect ECONNREFUSED 127.0.0.1:5432", "KeyError: 'x'"}

func TestTextsOfErrorResults(t *testing.T) {
	t.Parallel()
	judge := func(text string) upstream.Finding {
		return judgement(t, fmt.Sprintf(`"result":{"content":[{"type":"image"},{"type":"text","text":%s}],"isError":true}`, rawjson.Quote(text)))
	}
	for _, text := range ambiguous {
		assertFinding(t, upstream.FoundAmbiguous, 6, "ambiguous_error", judge(text), text)
	}
	for _, text := range append(append([]string{}, refusals...), undecided...) {
		assertFinding(t, upstream.FoundErrorResult, 6, "upstream_error", judge(text), text)
	}
}

func TestTextsOfErrorReplies(t *testing.T) {
	t.Parallel()
	for _, code := range []int{-32603, -32000, -32001, -32099, 1, 500} {
		judge := func(text string) upstream.Finding {
			return judgement(t, fmt.Sprintf(`"error":{"code":%d,"message":%s}`, code, rawjson.Quote(text)))
		}
		for _, text := range append(append([]string{}, ambiguous...), undecided...) {
			assertFinding(t, upstream.FoundAmbiguous, 7, "ambiguous_error", judge(text), text)
		}
		for _, text := range refusals {
			assertFinding(t, upstream.FoundErrorReply, 7, "upstream_error", judge(text), text)
		}
	}
}

func TestCodesThatProveThatNothingWasExecuted(t *testing.T) {
	t.Parallel()
	for _, reply := range []string{
		`{"code":-32700,"message":"Parse error: unexpected EOF"}`,
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
	var err error
	j.NothingHappened, err = upstream.CompileTexts(`^dry run\b`, `nothing was booked`)
	require.NoError(t, err)
	f := j.Judge(parse(t, `"result":{"content":[{"type":"text","text":"Timed out. Nothing was booked."}],"isError":true}`))
	assertFinding(t, upstream.FoundNotExecuted, 6, "refused", f, "")
	require.NotNil(t, f.Proof)
	row, _ := f.Proof.ProvesNotExecuted()
	assert.Equal(t, 6, row)
	f = j.Judge(parse(t, `"result":{"content":[{"type":"text","text":"Nothing was booked."}]}`))
	assertFinding(t, upstream.FoundResult, 5, "", f, "a success is a success")

	_, err = upstream.CompileTexts("fine", "(")
	require.ErrorContains(t, err, `pattern "("`)

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
