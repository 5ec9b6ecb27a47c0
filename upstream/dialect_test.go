package upstream_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/upstream"
)

func TestMetaIsAddedAndEverythingElseStays(t *testing.T) {
	t.Parallel()
	const version, capabilities = `"io.modelcontextprotocol/protocolVersion":"V"`, `"io.modelcontextprotocol/clientCapabilities":{}`
	for name, c := range map[string]struct{ params, sent string }{
		"no params":           {"", `{"_meta":{` + version + `,` + capabilities + `}}`},
		"empty params":        {`{ }`, `{ "_meta":{` + version + `,` + capabilities + `}}`},
		"other members":       {`{"b": 9007199254740993 ,"a":"\u00e9<"}`, `{"b": 9007199254740993 ,"a":"\u00e9<","_meta":{` + version + `,` + capabilities + `}}`},
		"other meta":          {`{"_meta":{"progressToken": 1.0},"a":1}`, `{"_meta":{"progressToken": 1.0,` + version + `,` + capabilities + `},"a":1}`},
		"empty meta":          {`{"_meta":{},"a":1}`, `{"_meta":{` + version + `,` + capabilities + `},"a":1}`},
		"meta that is there":  {`{"_meta":{"io.modelcontextprotocol/protocolVersion":"W","x":1}}`, `{"_meta":{` + version + `,"x":1,` + capabilities + `}}`},
		"meta that is none":   {`{"_meta":null}`, `{"_meta":{` + version + `,` + capabilities + `}}`},
		"params by position":  {`[1, 2]`, `[1, 2]`},
		"names that repeat":   {`{"a":1,"a":2}`, `{"a":1,"a":2,"_meta":{` + version + `,` + capabilities + `}}`},
		"meta in another one": {`{"a":{"_meta":{}}}`, `{"a":{"_meta":{}},"_meta":{` + version + `,` + capabilities + `}}`},
	} {
		var params []byte
		if c.params != "" {
			params = []byte(c.params)
		}
		assert.Equal(t, c.sent, string(upstream.WithMeta(params)), name)
	}
}

func TestNotificationsOfAModernServerAreMadeLegacy(t *testing.T) {
	t.Parallel()
	const id = `"io.modelcontextprotocol/subscriptionId":"7"`
	for name, c := range map[string]struct{ params, handed string }{
		"without params":        {``, ``},
		"without meta":          {`{"a":1}`, `{"a":1}`},
		"with other meta":       {`{"_meta":{"x": 1}}`, `{"_meta":{"x": 1}}`},
		"of a subscription":     {`{"_meta":{` + id + `}, "uri":"x"}`, `{"uri":"x"}`},
		"and nothing else":      {`{"_meta":{` + id + `}}`, `{}`},
		"with more in the meta": {`{"uri":"x","_meta":{"a": 1,` + id + `}}`, `{"uri":"x","_meta":{"a": 1}}`},
	} {
		m := jsonrpc.Notification("notifications/x", []byte(c.params))
		out, ok := upstream.Incoming(m)
		assert.True(t, ok, name)
		assert.Equal(t, string(jsonrpc.Notification("notifications/x", []byte(c.handed)).Raw()), string(out.Raw()), name)
	}
	_, ok := upstream.Incoming(jsonrpc.Notification("notifications/subscriptions/acknowledged", []byte(`{}`)))
	assert.False(t, ok)
}

func TestArgumentsAreRepeatedInHeaders(t *testing.T) {
	t.Parallel()
	list := func(properties string) []byte {
		return []byte(`{"tools":[{"name":"other","inputSchema":{}},{"name":"pay","inputSchema":{"type":"object","properties":{` + properties + `}}}]}`)
	}
	call := func(arguments string) jsonrpc.Message { return toolCall("1", "pay", arguments) }
	const region = `"region":{"type":"string","x-mcp-header":"Region"}`
	const amount = `"amount":{"type":"integer","x-mcp-header":"Amount"}`
	for _, c := range []struct {
		name   string
		list   []byte
		call   jsonrpc.Message
		header string
		value  string
	}{
		{"a text", list(region), call(`{"region":"eu-1"}`), "Mcp-Param-Region", "eu-1"},
		{"a text that is no ASCII", list(region), call(`{"region":"\u00e9"}`), "Mcp-Param-Region", "=?base64?w6k=?="},
		{"a text that must not break out", list(region), call(`{"region":"a\r\nX: y"}`), "Mcp-Param-Region", "=?base64?YQ0KWDogeQ==?="},
		{"an integer, exactly", list(amount), call(`{"amount":9007199254740993}`), "Mcp-Param-Amount", "9007199254740993"},
		{"an integer with an exponent", list(amount), call(`{"amount":-1.5e2}`), "Mcp-Param-Amount", "-150"},
		{"zero", list(amount), call(`{"amount":-0}`), "Mcp-Param-Amount", "0"},
		{"a fraction is none", list(amount), call(`{"amount":1.5}`), "Mcp-Param-Amount", ""},
		{"nor is what cannot be exact", list(amount), call(`{"amount":1e300}`), "Mcp-Param-Amount", ""},
		{"a boolean", list(`"dry":{"type":"boolean","x-mcp-header":"Dry"}`), call(`{"dry":false}`), "Mcp-Param-Dry", "false"},
		{"null is absent", list(region), call(`{"region":null}`), "Mcp-Param-Region", ""},
		{"absent", list(region), call(`{}`), "Mcp-Param-Region", ""},
		{"an object is none", list(region), call(`{"region":{}}`), "Mcp-Param-Region", ""},
		{"one within another", list(`"to":{"type":"object","properties":{` + region + `}}`), call(`{"to":{"region":"eu"}}`), "Mcp-Param-Region", "eu"},
		{"a binding that is not allowed binds nothing", list(`"region":{"type":"object","x-mcp-header":"Region"},` + amount), call(`{"amount":1}`), "Mcp-Param-Amount", ""},
		{"a tool that was not listed", []byte(`{"tools":[]}`), call(`{"region":"eu"}`), "Mcp-Param-Region", ""},
		{"the tool", nil, call(`{}`), "Mcp-Name", "pay"},
		{"a prompt", nil, jsonrpc.Request([]byte("1"), "prompts/get", []byte(`{"name":"p"}`)), "Mcp-Name", "p"},
		{"a resource", nil, jsonrpc.Request([]byte("1"), "resources/read", []byte(`{"uri":"file:///\u00e9"}`)), "Mcp-Name", "=?base64?ZmlsZTovLy/DqQ==?="},
		{"a task", nil, jsonrpc.Request([]byte("1"), "tasks/get", []byte(`{"taskId":"t-1"}`)), "Mcp-Name", "t-1"},
		{"a list", nil, jsonrpc.Request([]byte("1"), "tools/list", nil), "Mcp-Name", ""},
		{"the method", nil, jsonrpc.Request([]byte("1"), "tools/list", nil), "Mcp-Method", "tools/list"},
	} {
		assert.Equal(t, c.value, upstream.HeaderOf(c.list, c.call).Get(c.header), c.name)
	}
}

func TestBindingsAreLearntFromTheListThatPasses(t *testing.T) {
	t.Parallel()
	s := newSite(t, modern())
	v := call(t, s, nil)
	session := v.ready()
	for _, header := range []string{"Region", "Area", ""} {
		binding := ""
		if header != "" {
			binding = `,"x-mcp-header":"` + header + `"`
		}
		list := `{"tools":[{"name":"pay","inputSchema":{"type":"object","properties":{"region":{"type":"string"` + binding + `}}}}]}`
		s.put("tools/list", result(list))
		answer, err := v.ask(session, jsonrpc.Request([]byte("1"), "tools/list", nil))
		require.NoError(t, err)
		assert.Equal(t, list, string(answer.Result))
		_, err = v.ask(session, toolCall("1", "pay", `{"region":"eu"}`))
		require.NoError(t, err)
		calls := s.got("tools/call")
		last := calls[len(calls)-1].header
		for _, name := range []string{"Region", "Area"} {
			want := ""
			if name == header {
				want = "eu"
			}
			assert.Equal(t, want, last.Get("Mcp-Param-"+name), header)
		}
	}
}

func TestWhatAModernServerHasNotIsAnsweredHere(t *testing.T) {
	t.Parallel()
	s := newSite(t, modern())
	v := call(t, s, nil)
	session := v.ready()
	for _, m := range []jsonrpc.Message{
		jsonrpc.Request([]byte(`"p"`), "ping", nil),
		jsonrpc.Request([]byte(`"p"`), "logging/setLevel", []byte(`{"level":"err\u006fr"}`)),
	} {
		heard := make(chan jsonrpc.Message, 1)
		call, err := session.SendTo(v.ctx(), m, upstream.Listener{Answered: func(m jsonrpc.Message) { heard <- m }})
		require.NoError(t, err)
		answer, err := call.Wait(v.ctx())
		require.NoError(t, err)
		assert.Equal(t, `{"jsonrpc":"2.0","id":"p","result":{}}`, string(answer.Raw()))
		assert.Equal(t, answer, next(t, heard))
		assert.Empty(t, s.got(m.Method))
	}
	for _, method := range []string{"notifications/initialized", "notifications/roots/list_changed"} {
		require.NoError(t, session.Notify(jsonrpc.Notification(method, nil)))
	}
	require.NoError(t, session.Notify(jsonrpc.Notification("notifications/custom", nil)))
	require.Eventually(t, func() bool { return len(s.got("notifications/custom")) == 1 }, patience, tick)
	assert.Equal(t, "notifications/custom", s.got("notifications/custom")[0].header.Get("Mcp-Method"))
	assert.Empty(t, s.got("notifications/initialized"))
	assert.Empty(t, s.got("notifications/roots/list_changed"))
	_, err := v.pays(session)
	require.NoError(t, err)
	assert.Contains(t, string(s.got("tools/call")[0].m.Params), `"io.modelcontextprotocol/logLevel":"err\u006fr"`)
}

func TestChangesAreListenedForAndMissedOnesHandedOn(t *testing.T) {
	t.Parallel()
	s := newSite(t, modern())
	var once sync.Once
	s.put("subscriptions/listen", func(w http.ResponseWriter, r *http.Request, v visit) {
		text := "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\",\"params\":{}}\n\n"
		p := stays(text)
		once.Do(func() {
			p = events(text + "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\",\"params\":{\"x\":1,\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":ID}}}\n\n")
		})
		p(w, r, v)
	})
	v := call(t, s, nil)
	v.ready()
	assert.Equal(t, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"x":1}}`, string(next(t, v.notifications).Raw()))
	assert.Equal(t, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`, string(next(t, v.notifications).Raw()), "one may have been missed")
	visits := s.got("subscriptions/listen")
	require.Len(t, visits, 2)
	assert.True(t, strings.HasPrefix(string(visits[0].m.Params), `{"notifications":{"toolsListChanged":true},"_meta":{`), string(visits[0].m.Params))
	assert.Equal(t, "subscriptions/listen", visits[0].header.Get("Mcp-Method"))
	assert.Empty(t, v.notifications)
}

func TestSubscriptionsChangeWhatIsListenedFor(t *testing.T) {
	t.Parallel()
	s := newSite(t, modern())
	closed := make(chan string, 10)
	listen := modern()["subscriptions/listen"]
	s.put("subscriptions/listen", func(w http.ResponseWriter, r *http.Request, v visit) {
		listen(w, r, v)
		closed <- string(v.m.Params)
	})
	v := call(t, s, nil)
	session := v.ready()
	listens := func(times int) {
		require.Eventually(t, func() bool { return len(s.got("subscriptions/listen")) == times }, patience, tick)
	}
	listens(1)
	for i, m := range []struct{ method, wanted string }{
		{"resources/subscribe", `{"toolsListChanged":true,"resourceSubscriptions":["file:///a"]}`},
		{"resources/unsubscribe", `{"toolsListChanged":true}`},
	} {
		answer, err := v.ask(session, jsonrpc.Request([]byte("1"), m.method, []byte(`{"uri":"file:\/\/\/a"}`)))
		require.NoError(t, err)
		assert.Equal(t, "{}", string(answer.Result))
		listens(i + 2)
		assert.Contains(t, string(s.got("subscriptions/listen")[i+1].m.Params), `{"notifications":`+m.wanted)
		next(t, closed)
	}
	_, err := v.ask(session, jsonrpc.Request([]byte("1"), "resources/unsubscribe", []byte(`{"uri":"file:///b"}`)))
	require.NoError(t, err)
	assert.Len(t, s.got("subscriptions/listen"), 3, "nothing has changed")
	assert.Empty(t, v.notifications, "nothing was missed: one stream was open all the time")
	assert.Empty(t, s.got("resources/subscribe"))
}

func TestServerWithoutSubscriptionsIsAskedOnce(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]page{
		"refused by status": status(404),
		"refused by error":  events("data: {\"jsonrpc\":\"2.0\",\"id\":ID,\"error\":{\"code\":-32601,\"message\":\"x\"}}\n\n"),
		"answered at once":  body(200, json, rpcError),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, modern())
			asked := make(chan struct{}, 10)
			s.put("subscriptions/listen", func(w http.ResponseWriter, r *http.Request, v visit) {
				p(w, r, v)
				asked <- struct{}{}
			})
			v := call(t, s, nil)
			session := v.ready()
			next(t, asked)
			for range 20 {
				_, err := v.pays(session)
				require.NoError(t, err)
			}
			assert.Len(t, s.got("subscriptions/listen"), 1)
		})
	}
}

func TestVersionIsNegotiatedOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, data, tried, other string
		code                     int
	}{
		{"another that both know", `{"supported":["2025-11-25","2026-07-28"]}`, "2027-01-01", "2026-07-28", -32022},
		{"the one that was tried", `{"supported":["2026-07-28"]}`, "2026-07-28", "", -32022},
		{"only legacy ones", `{"supported":["2025-11-25"]}`, "2026-07-28", "", -32022},
		{"only unknown ones", `{"supported":["2099-01-01"]}`, "2026-07-28", "", -32022},
		{"no data", ``, "2027-01-01", "", -32022},
		{"data that are none", `{"supported":[1]}`, "2027-01-01", "", -32022},
		{"another error", `{"supported":["2026-07-28"]}`, "2027-01-01", "", -32020},
	} {
		other, ok := upstream.OtherVersion(&jsonrpc.Error{Code: c.code, Data: []byte(c.data)}, c.tried)
		assert.Equal(t, c.other != "", ok, c.name)
		if ok {
			assert.Equal(t, c.other, other, c.name)
		}
	}
}

func TestModernServerIsNotAskedAgainInTheSameVersion(t *testing.T) {
	t.Parallel()
	s := newSite(t, modern())
	s.put("server/discover", body(400, json, `{"jsonrpc":"2.0","id":ID,"error":{"code":-32022,"message":"no","data":{"supported":["2026-07-28"],"requested":"2026-07-28"}}}`))
	v := call(t, s, func(o *upstream.Options) { o.Era = upstream.EraModern })
	m, err := v.Initialize(v.ctx(), []byte(clientParams))
	require.NoError(t, err)
	assert.Contains(t, string(m.Error), "-32022")
	assert.Len(t, s.got("server/discover"), 1, "it was asked in that version already")
}

func TestDiscoveryTellsTheClientWhatItCanUnderstand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, params, discovered, told string }{
		{"a version that the legacy era has", `{"protocolVersion":"2024-11-05"}`, `{"capabilities":{"x":1.0}}`,
			`{"protocolVersion":"2024-11-05","capabilities":{"x":1.0},"serverInfo":{"name":"site","version":""}}`},
		{"a modern version", `{"protocolVersion":"2026-07-28"}`, `{"capabilities":{}}`,
			`{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"site","version":""}}`},
		{"no version", `{}`, `{"capabilities":{},"instructions":7,"_meta":{"io.modelcontextprotocol/serverInfo":7}}`,
			`{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"site","version":""}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, modern())
			s.put("server/discover", result(c.discovered))
			v := call(t, s, nil)
			m, err := v.Initialize(v.ctx(), []byte(c.params))
			require.NoError(t, err)
			assert.Equal(t, c.told, string(m.Result))
		})
	}
}

func TestModernServerHasNoQuestions(t *testing.T) {
	t.Parallel()
	s := newSite(t, modern())
	s.put("tools/call", func(w http.ResponseWriter, r *http.Request, v visit) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, withID("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n\ndata: "+rpcResult+"\n\n", v))
	})
	v := call(t, s, nil)
	_, err := v.pays(v.ready())
	require.NoError(t, err)
	assert.Contains(t, next(t, v.junk), "ping")
	assert.Empty(t, s.got("reply"))
}
