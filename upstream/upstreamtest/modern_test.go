package upstreamtest

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestModernResultsSayWhatTheyAre(t *testing.T) {
	t.Parallel()
	r := serveModern(t)
	const info = `"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"scripted","version":"1"}}`
	for _, c := range []struct{ method, name, more, want string }{
		{"server/discover", "", "", `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true},"prompts":{}},` +
			`"instructions":"Refund with care.","resultType":"complete","ttlMs":0,"cacheScope":"private",` + info + `}`},
		{"prompts/list", "", "", `{"prompts":[{"name":"greet"}],"resultType":"complete","ttlMs":0,"cacheScope":"private",` + info + `}`},
		{"tools/call", "refund", `"name":"refund"`, `{"content":[{"type":"text","text":"refunded re_1"}],"structuredContent":{"refund_id":"re_1"},"resultType":"complete",` + info + `}`},
	} {
		got := r.modern(3, c.method, c.name, c.more)
		assert.Equal(t, http.StatusOK, got.status)
		assert.Equal(t, `{"jsonrpc":"2.0","id":3,"result":`+c.want+`}`, got.body)
		assert.Empty(t, got.header.Get("Mcp-Session-Id"))
	}
	got := r.modern(4, "tools/call", "echo_raw", `"name":"echo_raw"`)
	assert.Contains(t, got.body, `"_meta":{"x/n":1.10,"io.modelcontextprotocol/serverInfo":`)
	r.count(2, 1)
}

func TestWhatTheModernTransportRefuses(t *testing.T) {
	t.Parallel()
	tools := filepath.Join(t.TempDir(), "tools")
	require.NoError(t, os.WriteFile(tools, []byte(`[{"name":"move","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}]`), 0o600))
	r := serveModern(t, "--tools", tools)
	call := modernRequest(1, "tools/call", `"name":"move","arguments":{"region":"eu"}`)
	for name, c := range map[string]struct {
		body   string
		header []string
		status int
		want   string
	}{
		"nothing":                     {call, nil, 200, `"result"`},
		"no version in the header":    {call, []string{"Mcp-Protocol-Version", ""}, 400, `"code":-32020`},
		"another version":             {call, []string{"Mcp-Protocol-Version", "2025-11-25"}, 400, `"code":-32020`},
		"another method":              {call, []string{"Mcp-Method", "tools/list"}, 400, `"code":-32020`},
		"no method":                   {call, []string{"Mcp-Method", ""}, 400, `"code":-32020`},
		"another name":                {call, []string{"Mcp-Name", "refund"}, 400, `"code":-32020`},
		"another argument":            {call, []string{"Mcp-Param-Region", "us"}, 400, `"code":-32020`},
		"no argument":                 {call, []string{"Mcp-Param-Region", ""}, 400, `"code":-32020`},
		"an event id":                 {call, []string{"Last-Event-ID", "1"}, 400, `"code":-32020`},
		"no version in the body":      {request(1, "tools/call", `{"name":"move"}`), nil, 400, `"code":-32602`},
		"no capabilities":             {strings.Replace(call, `,"io.modelcontextprotocol/clientCapabilities":{}`, "", 1), nil, 400, `"code":-32602`},
		"a version to come":           {strings.Replace(call, "2026-07-28", "2027-01-01", 1), []string{"Mcp-Protocol-Version", "2027-01-01"}, 400, `"code":-32022,"message":"unsupported protocol version","data":{"supported":["2026-07-28"],"requested":"2027-01-01"}`},
		"the handshake of the legacy": {request(1, "initialize", `{"protocolVersion":"2025-06-18"}`), []string{"Mcp-Protocol-Version", ""}, 400, `"code":-32022`},
		"a method of the legacy":      {modernRequest(1, "ping", ""), []string{"Mcp-Method", "ping"}, 404, `"code":-32601`},
		"an unknown tool":             {modernRequest(1, "tools/call", `"name":"x"`), []string{"Mcp-Name", "x", "Mcp-Param-Region", ""}, 400, `"code":-32602`},
		"a notification":              {`{"jsonrpc":"2.0","method":"notifications/x"}`, nil, 202, ""},
		"a task of another name":      {modernRequest(1, "tasks/get", `"taskId":"task-1"`), []string{"Mcp-Method", "tasks/get"}, 400, `"code":-32020`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := r.post(c.body, append([]string{"Mcp-Method", "tools/call", "Mcp-Name", "move", "Mcp-Param-Region", "eu"}, c.header...)...)
			assert.Equal(t, c.status, got.status)
			assert.Contains(t, got.body, c.want)
		})
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		got := r.send(method, "/mcp", "")
		assert.Equal(t, http.StatusMethodNotAllowed, got.status)
		assert.Equal(t, "POST", got.header.Get("Allow"))
	}
}

func TestBothErasAtOnce(t *testing.T) {
	t.Parallel()
	r := serveLegacy(t, "--era", "both")
	assert.Contains(t, r.call("refund").body, `{"content":[{"type":"text","text":"refunded re_1"}],"structuredContent":{"refund_id":"re_1"}}`)
	r.header.Set("Mcp-Protocol-Version", "2026-07-28")
	assert.Contains(t, r.modern(1, "server/discover", "", "").body, `"supportedVersions":["2026-07-28","2025-06-18"]`)
	assert.Contains(t, r.modern(1, "tools/call", "refund", `"name":"refund"`).body, `"resultType":"complete"`)
	assert.Equal(t, http.StatusBadRequest, r.post(request(1, "ping", "{}")).status, "modern by its header only")
	assert.Equal(t, http.StatusMethodNotAllowed, r.send(http.MethodGet, "/mcp", "").status)
	r.header.Set("Mcp-Protocol-Version", "2025-06-18")
	r.stream(http.MethodGet, "/mcp", "")
}

func TestALegacyServerKnowsNothingOfTheModernEra(t *testing.T) {
	t.Parallel()
	r := serve(t)
	r.header.Set("Mcp-Protocol-Version", "2026-07-28")
	assert.Equal(t, http.StatusBadRequest, r.modern(1, "server/discover", "", "").status)
}

func TestSubscriptions(t *testing.T) {
	t.Parallel()
	r := serveModern(t, "--fault", `refund:nth=1,do=notify:notifications/resources/updated:{"uri":"note://1"}`,
		"--fault", `refund:nth=1,do=notify:notifications/resources/updated:{"uri":"note://2"}`,
		"--fault", "refund:nth=1,do=notify:notifications/tools/list_changed", "--fault", "refund:nth=2,do=forget")
	body := modernRequest(5, "subscriptions/listen", `"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["note://2"]}`)
	s := r.stream(http.MethodPost, "/mcp", body, "Mcp-Method", "subscriptions/listen")
	const tag = `"_meta":{"io.modelcontextprotocol/subscriptionId":5}}`
	assert.Equal(t, `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":`+
		`{"toolsListChanged":true,"resourceSubscriptions":["note://2"]},`+tag+`}`, s.next())

	r.modern(1, "tools/call", "refund", `"name":"refund"`)
	assert.Equal(t, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"note://2",`+tag+`}`, s.next())
	assert.Equal(t, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{`+tag+`}`, s.next())

	r.modern(1, "tools/call", "refund", `"name":"refund"`)
	assert.Contains(t, s.next(), `"id":5,"result":{"_meta":{"io.modelcontextprotocol/subscriptionId":5,`)
	assert.Empty(t, s.next())

	got := r.modern(6, "subscriptions/listen", "", `"notifications":{"promptsListChanged":true}`)
	assert.Contains(t, got.body, `"notifications":{},`)
	assert.Contains(t, got.body, `"id":6,"result"`, "one that can tell nothing ends at once")
}

func TestASubscriptionIsToldAtOnce(t *testing.T) {
	t.Parallel()
	r := serveModern(t, "--notify-list-changed")
	body := modernRequest(5, "subscriptions/listen", `"notifications":{"toolsListChanged":true}`)
	s := r.stream(http.MethodPost, "/mcp", body, "Mcp-Method", "subscriptions/listen")
	assert.Contains(t, s.next(), "acknowledged")
	assert.Contains(t, s.next(), "notifications/tools/list_changed")
}

func TestModernLogsAreAskedForByEachRequest(t *testing.T) {
	t.Parallel()
	r := serveModern(t, "--fault", "refund:do=log:hello", "--fault", "send_mail:do=iserror:no")
	assert.NotContains(t, r.modern(1, "tools/call", "refund", `"name":"refund"`).body, "hello")
	body := strings.Replace(modernRequest(1, "tools/call", `"name":"refund"`), `"_meta":{`, `"_meta":{"io.modelcontextprotocol/logLevel":"info",`, 1)
	assert.Contains(t, r.post(body, "Mcp-Method", "tools/call", "Mcp-Name", "refund").body, "hello")
	assert.Contains(t, r.modern(1, "tools/call", "send_mail", `"name":"send_mail"`).body, `"isError":true,"resultType":"complete"`)
}

func TestModernOverStdio(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ era, line, want string }{
		"it discovers":                       {"modern", modernRequest(1, "server/discover", ""), `"supportedVersions":["2026-07-28"]`},
		"it calls":                           {"modern", modernRequest(1, "tools/call", `"name":"refund"`), `"resultType":"complete"`},
		"it has no handshake":                {"modern", request(1, "initialize", `{"protocolVersion":"2025-06-18"}`), `"code":-32022`},
		"each request says its version":      {"modern", request(1, "tools/list", "{}"), `"code":-32602`},
		"both: a modern one":                 {"both", modernRequest(1, "tools/call", `"name":"refund"`), `"resultType":"complete"`},
		"both: a handshake":                  {"both", request(1, "initialize", "{}"), `"protocolVersion":"2025-06-18"`},
		"legacy: there is nothing to detect": {"legacy", modernRequest(1, "server/discover", ""), `"code":-32601`},
		"legacy: results are as ever":        {"legacy", modernRequest(1, "tools/call", `"name":"refund"`), `"structuredContent":{"refund_id":"re_1"}}}`},
		"it subscribes":                      {"modern", modernRequest(1, "subscriptions/listen", `"notifications":{"toolsListChanged":true}`), "acknowledged"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Contains(t, talk(t, []string{"--era", c.era}, c.line), c.want)
		})
	}
}

func TestASubscriptionOverStdioEndsWhenItIsCancelled(t *testing.T) {
	t.Parallel()
	s, err := newServer(options{era: modern})
	require.NoError(t, err)
	out := make(transcript)
	receive := func(line string) {
		m, err := jsonrpc.Parse([]byte(line))
		require.NoError(t, err)
		s.receive(s.newCall(m, out))
	}
	receive(modernRequest(1, "subscriptions/listen", `"notifications":{"toolsListChanged":true}`))
	assert.Contains(t, <-out, "acknowledged")
	receive(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
	s.hub.tell(jsonrpc.Notification("notifications/tools/list_changed", nil))
	assert.Contains(t, <-out, "list_changed", "it was another that was cancelled")
	receive(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1.0}}`)
	assert.Contains(t, <-out, `"id":1,"result"`)
}

// A transcript is a line that is read as it is written.
type transcript chan string

func (l transcript) say(m jsonrpc.Message)    { l <- string(m.Raw()) }
func (l transcript) answer(m jsonrpc.Message) { l <- string(m.Raw()) }
func (l transcript) reply(body []byte)        { l <- string(body) }
func (l transcript) shape(fault)              {}
func (l transcript) fail(fault)               {}
func (l transcript) gone() <-chan struct{}    { return nil }
