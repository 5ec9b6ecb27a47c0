package upstream_test

import (
	"fmt"
	"testing"

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
	"The timeout was unexpected",
	"Gateway timeout required a restart",
	"session terminated (404). need to re-initialize",
	"Session not found",
	"rpc error: code = Unavailable desc = transport is closing",
	"transport is closing",
	"grpc: the client connection is closing",
	"the server is shutting down",
	"Unavailable",
	"Error: Unavailable: no healthy backend",
	"14 UNAVAILABLE: No connection established",
	"UNAVAILABLE: keepalive watchdog timeout",
	"UNAVAILABLE: keepalive watchdog",
	"unavailable: upstream not ready",
	"rpc error: code = Aborted desc = transaction was contended",
	"rpc error: code = Unknown desc = boom",
	"rpc error: code = Internal desc = boom",
	"rpc error: code = DataLoss desc = boom",
	"status = StatusCode.UNKNOWN, details = boom",
	"<AioRpcError of RPC that terminated with: status = StatusCode.INTERNAL>",
	"2 UNKNOWN: boom",
	"13 INTERNAL: boom",
	"10 ABORTED: boom",
	`{"error":{"code":503,"status":"UNAVAILABLE"}}`,
	`{"error":{"message":"boom","status":"INTERNAL"}}`,
	"aiohttp.client_exceptions.ServerDisconnectedError",
	"ServerDisconnectedError()",
	"httpx.RemoteProtocolError",
	"APIConnectionError",
	"openai.APIConnectionError: Connection error.",
	"Connection error.",
	"ConnectionError: HTTPSConnectionPool(host='api.example.com', port=443)",
	"ConnectionResetError(104)",
	"BrokenPipeError: [Errno 32]",
	"ClientPayloadError",
	"Response payload is not completed",
	"ClientOSError: [Errno 104]",
	"httpx.ReadError",
	"httpcore.WriteError",
	"requests.exceptions.ChunkedEncodingError",
	"urllib3.exceptions.IncompleteRead",
	"anyio.ClosedResourceError",
	"anyio.BrokenResourceError",
	"StripeConnectionException",
	"java.net.SocketException",
	"io.grpc.InternalServerError",
	"ServiceUnavailableError",
	"botocore.errorfactory.ServiceUnavailable",
	"System.Threading.Tasks.TaskCanceledException",
	"The response ended prematurely",
	"HTTP 520",
	"Error 521: Web server is down",
	"Request failed with status code 523",
	"error code: 525",
	"HTTP/1.1 526 Invalid SSL Certificate",
	"status 527",
	"HTTP status 530",
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
	"Error 404: order 525 not found",
	"Invoice 530 does not exist",
	"invalid connection string",
	"Invalid value for parameter 'connection': expected a name",
	"missing required parameter: transport",
	"unknown field \"internal\"",
	"unknown field 'unavailable_since'",
	"Unknown value for 'status': unavailable is not allowed",
	"The requested table is not available at this time slot",
	"status code must be between 200 and 299",
	"Payload is not valid",
	"Additional properties are not allowed ('timeout' was unexpected)",
	"Additional properties are not allowed ('retries', 'timeout' were unexpected)",
	"data/timeout must be number",
	"Visibility must be one of \"PUBLIC\", \"INTERNAL\"",
	"Invalid type for timeout: expected an integer",
	"Invalid input: expected number, received undefined\n  → at timeout",
	"-1 is less than the minimum of 0\n\nOn instance['timeout']: invalid",
	"Invalid arguments: timeout is out of range",
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
