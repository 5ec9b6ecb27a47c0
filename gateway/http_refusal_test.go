package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/gateway"
)

const pinging = `{"jsonrpc":"2.0","id":7,"method":"ping"}`

// What is wrong with a request of the legacy era is said before the session is asked
// for, where it does not need one.
func TestWhatIsNoRequestOfASessionIsRefused(t *testing.T) {
	t.Parallel()
	w := newWeb(t, shopTools, func(o *gateway.HTTPOptions) {
		o.MaxBody = 2000
		o.AllowedOrigins = []string{"https://admitted.example"}
	})
	session := w.enter()
	ping := post(pinging, session...)
	for name, test := range map[string]struct {
		ask    ask
		status int
		code   int // of the JSON-RPC error; 0: none is looked for
		header string
	}{
		"another path":                     {ask: ask{method: "POST", path: "/mcp/x", body: pinging}, status: 404},
		"the root":                         {ask: ask{method: "GET", path: "/"}, status: 404},
		"another method":                   {ask: ask{method: "PUT", path: "/mcp", body: pinging}, status: 405, header: "Allow"},
		"no type":                          {ask: ping.with("Content-Type", ""), status: 415},
		"another type":                     {ask: ping.with("Content-Type", "text/plain"), status: 415},
		"a type with a charset":            {ask: ping.with("Content-Type", "application/json; charset=utf-8"), status: 200},
		"a client of JSON alone":           {ask: ping.with("Accept", "application/json"), status: 406},
		"a client of events alone":         {ask: ping.with("Accept", "text/event-stream"), status: 406},
		"a client that refuses events":     {ask: ping.with("Accept", "application/json, text/event-stream;q=0"), status: 406},
		"a client of anything":             {ask: ping.with("Accept", "*/*"), status: 200},
		"a client that says nothing":       {ask: ping.with("Accept", ""), status: 200},
		"a long body":                      {ask: post(`{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":"`+strings.Repeat("x", 2000)+`"}}`, session...), status: 413, code: -32600},
		"no JSON":                          {ask: post(`{"jsonrpc"`, session...), status: 400, code: -32700},
		"nothing":                          {ask: post(``, session...), status: 400, code: -32700},
		"a batch":                          {ask: post(`[`+pinging+`]`, session...), status: 400, code: -32600},
		"no message":                       {ask: post(`{"id":7}`, session...), status: 400, code: -32600},
		"no session":                       {ask: post(pinging), status: 400},
		"an unknown session":               {ask: post(pinging, "Mcp-Session-Id", "x"), status: 404, code: -32001},
		"a notification without one":       {ask: post(`{"jsonrpc":"2.0","method":"notifications/x"}`), status: 400},
		"a notification of another":        {ask: post(`{"jsonrpc":"2.0","method":"notifications/x"}`, "Mcp-Session-Id", "x"), status: 404},
		"a response":                       {ask: post(`{"jsonrpc":"2.0","id":1,"result":{}}`, session...), status: 202},
		"an unknown revision":              {ask: ping.with("MCP-Protocol-Version", "1900-01-01"), status: 400, code: -32022},
		"no revision at all":               {ask: ping.with("MCP-Protocol-Version", "banana"), status: 400, code: -32022},
		"a client older than the header":   {ask: ping.with("MCP-Protocol-Version", ""), status: 200},
		"an unknown revision of GET":       {ask: ask{method: "GET", path: "/mcp"}.with("MCP-Protocol-Version", "1900-01-01"), status: 400},
		"a GET without session":            {ask: ask{method: "GET", path: "/mcp"}, status: 400},
		"a GET of another's session":       {ask: ask{method: "GET", path: "/mcp"}.with("Mcp-Session-Id", "x"), status: 404},
		"a GET that takes no events":       {ask: ask{method: "GET", path: "/mcp"}.with(session...).with("Accept", "application/json"), status: 406},
		"a DELETE without session":         {ask: ask{method: "DELETE", path: "/mcp"}, status: 400},
		"a DELETE of another's session":    {ask: ask{method: "DELETE", path: "/mcp"}.with("Mcp-Session-Id", "x"), status: 404},
		"a name that leads here":           {ask: ping.with("Host", "evil.example"), status: 403},
		"a name that leads here, and port": {ask: ping.with("Host", "evil.example:80"), status: 403},
		"this machine by name":             {ask: ping.with("Host", "localhost:99"), status: 200},
		"this machine by IPv6":             {ask: ping.with("Host", "[::1]:99"), status: 200},
		"a page from elsewhere":            {ask: ping.with("Origin", "https://evil.example"), status: 403},
		"a page from nowhere":              {ask: ping.with("Origin", "null"), status: 403},
		"a page that looks like ours":      {ask: ping.with("Origin", "http://localhost.evil.example"), status: 403},
		"a page of this machine":           {ask: ping.with("Origin", "http://localhost:6274"), status: 200},
		"a page that is admitted":          {ask: ping.with("Origin", "https://admitted.example"), status: 200},
		"an unknown method":                {ask: post(`{"jsonrpc":"2.0","id":7,"method":"no/such"}`, session...), status: 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := w.send(test.ask)
			require.Equal(t, test.status, got.status, got.body)
			if test.code != 0 {
				assert.Equal(t, test.code, got.code())
			}
			if test.header != "" {
				assert.NotEmpty(t, got.header.Get(test.header))
			}
		})
	}
}

func TestABodyThatIsCutOffIsRefused(t *testing.T) {
	t.Parallel()
	w := newWeb(t, shopTools, nil)
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.base, "http://"))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	body := calling("1", "refund", refundA1)
	_, err = fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body)+1, body)
	require.NoError(t, err)
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	said, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	assert.Equal(t, http.StatusBadRequest, response.StatusCode)
	assert.Contains(t, string(said), "cut off")
	assert.Empty(t, w.entries())
}

func TestABodyThatDoesNotComeIsRefused(t *testing.T) {
	t.Parallel()
	w := newWeb(t, shopTools, func(o *gateway.HTTPOptions) { o.ReadTimeout = 50 * time.Millisecond })
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.base, "http://"))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = fmt.Fprint(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{")
	require.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	assert.Equal(t, http.StatusRequestTimeout, response.StatusCode)
}

// What is wrong with a modern request is found before anything is claimed.
func TestWhatIsNoModernRequestIsRefused(t *testing.T) {
	t.Parallel()
	w := newWeb(t, `[{"name":"refund","inputSchema":{"type":"object","properties":{"order":{"type":"string","x-mcp-header":"Order"},"n":{"type":"integer","x-mcp-header":"Count"}}}},{"name":"größe","inputSchema":{"type":"object"}}]`, nil)
	w.server.on("no/such", func(c *call) { c.fail(-32601, "Method not found") })
	refund := visitingTool("refund", refundA1).with("Mcp-Param-Order", "A1")
	list := visiting("tools/list", "", "")
	for name, test := range map[string]struct {
		ask    ask
		status int
		code   int
		says   string
	}{
		"no header of the revision":     {ask: list.with("MCP-Protocol-Version", ""), status: 400, code: -32020},
		"another in the header":         {ask: list.with("MCP-Protocol-Version", "2025-11-25"), status: 400, code: -32020},
		"none in the body":              {ask: post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list"), status: 400, code: -32602},
		"one that is no string":         {ask: post(strings.Replace(list.body, `"2026-07-28"`, `20260728`, 1), "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list"), status: 400},
		"one that is not known":         {ask: post(strings.Replace(list.body, "2026-07-28", "2027-01-01", 1), "MCP-Protocol-Version", "2027-01-01", "Mcp-Method", "tools/list"), status: 400, code: -32022, says: `"supported":["2026-07-28","2025-11-25"`},
		"one of the past":               {ask: post(strings.Replace(list.body, "2026-07-28", "1900-01-01", 1), "MCP-Protocol-Version", "1900-01-01", "Mcp-Method", "tools/list"), status: 400, code: -32022, says: `"requested":"1900-01-01"`},
		"no capabilities":               {ask: post(strings.Replace(list.body, `,"io.modelcontextprotocol/clientCapabilities":{}`, "", 1), "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list"), status: 400, code: -32602, says: "clientCapabilities"},
		"no header of the method":       {ask: list.with("Mcp-Method", ""), status: 400, code: -32020},
		"another method in the header":  {ask: list.with("Mcp-Method", "tools/call"), status: 400, code: -32020},
		"a method in other letters":     {ask: list.with("Mcp-Method", "Tools/List"), status: 400, code: -32020},
		"no header of the name":         {ask: refund.with("Mcp-Name", ""), status: 400, code: -32020},
		"another name in the header":    {ask: refund.with("Mcp-Name", "look"), status: 400, code: -32020},
		"a name in Base64":              {ask: refund.with("Mcp-Name", "=?base64?cmVmdW5k?="), status: 200},
		"a name in what is no Base64":   {ask: refund.with("Mcp-Name", "=?base64?!?="), status: 400, code: -32020},
		"no header of an argument":      {ask: refund.with("Mcp-Param-Order", ""), status: 400, code: -32020},
		"another argument":              {ask: refund.with("Mcp-Param-Order", "B"), status: 400, code: -32020},
		"a header of no argument":       {ask: refund.with("Mcp-Param-Count", "1"), status: 400, code: -32020},
		"a header without arguments":    {ask: visiting("tools/call", `"name":"refund"`, "refund").with("Mcp-Param-Order", "A1"), status: 400, code: -32020},
		"two headers of one argument":   {ask: refund.with("Mcp-Param-Order", "A1", "mcp-param-order", "A2"), status: 400, code: -32020},
		"a header that nobody asks for": {ask: refund.with("Mcp-Param-Other", "1"), status: 200},
		"a method of the past":          {ask: visiting("ping", "", ""), status: 404, code: -32601},
		"a handshake":                   {ask: visiting("initialize", "", ""), status: 404, code: -32601},
		"a method that nobody knows":    {ask: visiting("no/such", "", ""), status: 404, code: -32601},
		"a call without a name":         {ask: visiting("tools/call", `"arguments":{}`, ""), status: 400, code: -32602},
		"a call of nothing":             {ask: visitingTool("nothing", `{}`), status: 400, code: -32602, says: "Unknown tool"},
		"a GET":                         {ask: ask{method: "GET", path: "/mcp"}.with("MCP-Protocol-Version", "2026-07-28"), status: 405, says: "not supported"},
		"a DELETE":                      {ask: ask{method: "DELETE", path: "/mcp"}.with("MCP-Protocol-Version", "2026-07-28"), status: 405, says: "not supported"},
		"a response":                    {ask: post(`{"jsonrpc":"2.0","id":1,"result":{}}`, "MCP-Protocol-Version", "2026-07-28"), status: 400, code: -32600},
		"a notification":                {ask: post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, "MCP-Protocol-Version", "2026-07-28"), status: 202},
		"a stream to be resumed":        {ask: list.with("Last-Event-ID", "1"), status: 200},
		"a session of the past":         {ask: list.with("Mcp-Session-Id", "x"), status: 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := w.send(test.ask)
			require.Equal(t, test.status, got.status, got.body)
			if test.code != 0 {
				assert.Equal(t, test.code, got.code(), got.body)
			}
			assert.Contains(t, got.body, test.says)
			assert.Empty(t, got.header.Get("Mcp-Session-Id"))
			if test.status == 405 {
				assert.Equal(t, "POST", got.header.Get("Allow"))
			}
		})
	}
	t.Cleanup(func() { assert.LessOrEqual(t, w.server.effects(), 1, "only what is right was sent") })
}

func TestATokenSaysWhoCalls(t *testing.T) {
	t.Parallel()
	w := newWeb(t, shopTools, func(o *gateway.HTTPOptions) {
		o.Tokens = map[string]string{"ada": "token-of-ada", "bob": "token-of-bob"}
	})
	ada, bob := []string{"Authorization", "Bearer token-of-ada"}, []string{"Authorization", "bearer token-of-bob"}
	for name, header := range map[string]string{"none": "", "another": "Bearer token-of-eve", "another scheme": "Basic token-of-ada", "half of it": "Bearer token-of-", "nothing of it": "Bearer "} {
		got := w.send(post(initialize, "Authorization", header))
		assert.Equal(t, http.StatusUnauthorized, got.status, name)
		assert.True(t, strings.HasPrefix(got.header.Get("WWW-Authenticate"), "Bearer"), name)
	}
	assert.Equal(t, http.StatusUnauthorized, w.send(ask{method: "PUT", path: "/mcp"}).status, "a stranger does not even learn the methods")

	session := w.enter(ada...)
	assert.Equal(t, http.StatusOK, w.send(post(pinging, session...)).status)
	assert.Equal(t, http.StatusOK, w.send(post(pinging, session...).with("Host", "gateway.example")).status, "who has a token is no page of a stranger")
	assert.Equal(t, http.StatusNotFound, w.send(post(pinging, session...).with(bob...)).status, "a session is its principal's")
	assert.Equal(t, http.StatusNotFound, w.send(ask{method: "DELETE", path: "/mcp"}.with(session...).with(bob...)).status)

	assert.Contains(t, w.send(post(calling("1", "refund", refundA1), session...)).body, `"was_replay":false`)
	assert.Contains(t, w.send(visitingTool("refund", refundA1).with(bob...)).body, `"was_replay":false`, "keys are their principal's")
	assert.Contains(t, w.send(visitingTool("refund", refundA1).with(ada...)).body, `"was_replay":true`)
	assert.Equal(t, 2, w.server.effects())
	namespaces := map[string]int{}
	for _, e := range w.entries() {
		namespaces[e.Scope.Namespace]++
	}
	assert.Equal(t, map[string]int{"ada": 1, "bob": 1}, namespaces)

	status := w.send(visitingTool("idempotency_status", fmt.Sprintf(`{"operation_id":%q}`, w.entries()[0].ID)).with(ada...))
	assert.Contains(t, status.body, "NOT_FOUND", "the newest operation is bob's")
}

// A browser asks before a page calls, without its token, and shows the page the answer
// only where it is told to.
func TestAPageOfAnAdmittedOriginMayCall(t *testing.T) {
	t.Parallel()
	const page, allowed = "https://admitted.example", "Access-Control-Allow-Origin"
	w := newWeb(t, shopTools, func(o *gateway.HTTPOptions) {
		o.Tokens = map[string]string{"ada": "token-of-ada"}
		o.AllowedOrigins = []string{page}
	})
	before := ask{method: "OPTIONS", path: "/mcp"}.with("Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,content-type,mcp-param-x")
	got := w.send(before.with("Origin", page))
	assert.Equal(t, http.StatusNoContent, got.status)
	assert.Equal(t, page, got.header.Get(allowed))
	assert.Equal(t, "authorization,content-type,mcp-param-x", got.header.Get("Access-Control-Allow-Headers"))
	assert.Empty(t, got.header.Get("Access-Control-Allow-Credentials"))
	for _, stranger := range []string{"https://evil.example", "http://localhost:6274", page + ".evil.example", "null"} {
		assert.Empty(t, w.send(before.with("Origin", stranger)).header.Get(allowed), stranger)
	}

	ada := []string{"Authorization", "Bearer token-of-ada"}
	got = w.send(post(initialize, ada...).with("Origin", page))
	assert.Equal(t, http.StatusOK, got.status)
	assert.Equal(t, page, got.header.Get(allowed))
	assert.Contains(t, got.header.Get("Access-Control-Expose-Headers"), "Mcp-Session-Id")
	got = w.send(post(initialize, ada...).with("Origin", "https://evil.example"))
	assert.Equal(t, http.StatusForbidden, got.status)
	assert.Empty(t, got.header.Get(allowed))
	assert.Empty(t, w.send(post(initialize).with("Origin", page)).header.Get("Mcp-Session-Id"), "an origin is no token")
}

func TestOnlyThisMachineIsServedWithoutTokens(t *testing.T) {
	t.Parallel()
	r := prepare(t, shopTools, nil)
	gate, err := gateway.NewHTTP(r.ledger, r.options, gateway.HTTPOptions{})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "0.0.0.0:0")
	require.NoError(t, err)
	assert.ErrorContains(t, gate.Serve(context.Background(), l), "no tokens")
}
