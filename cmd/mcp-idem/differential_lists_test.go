package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/gateway"
	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// withoutOutcome is a result without what the gateway says of the operation: in _meta,
// and where the answer is an error in a text at its end.
func withoutOutcome(result []byte) []byte {
	o, err := rawjson.ParseObject(result)
	if err != nil {
		return result
	}
	meta, _ := o.Get("_meta")
	said, err := rawjson.ParseObject(meta)
	if err != nil {
		return result
	}
	rest := said.Without("mcp-idem/outcome")
	switch {
	case len(rest) == len(meta):
		return result
	case string(rest) == "{}":
		result = o.Without("_meta")
	default:
		result = o.Set("_meta", rest)
	}
	if at := bytes.Index(result, []byte(`,{"type":"text","text":"COMPLETED (error): `)); at > 0 {
		result = slices.Concat(result[:at], result[bytes.LastIndex(result, []byte(`]`)):])
	}
	return result
}

// compareWelcome compares the handshakes: the gateway can what one of the servers can,
// tells when there are other tools, and hands on what the servers tell models.
func (l *lab) compareWelcome(welcome jsonrpc.Message, direct map[string]record) {
	type hello struct {
		ProtocolVersion, Instructions string
		Capabilities                  map[string]any
		ServerInfo                    struct{ Name string }
	}
	var got hello
	require.NoError(l.t, json.Unmarshal(welcome.Result, &got))
	assert.Equal(l.t, witnessProtocol, got.ProtocolVersion)
	assert.Equal(l.t, "mcp-idem", got.ServerInfo.Name)
	capabilities := map[string]any{"tools": map[string]any{"listChanged": true}}
	for server, told := range direct {
		var one hello
		require.NoError(l.t, json.Unmarshal([]byte(told["welcome"][0]), &one))
		unite(capabilities, one.Capabilities)
		if one.Instructions != "" {
			assert.Contains(l.t, got.Instructions, "# "+server+"\n"+one.Instructions+"\n")
		}
	}
	assert.Equal(l.t, capabilities, got.Capabilities)
	assert.Contains(l.t, got.Instructions, "idempotency_key")
}

func unite(into, from map[string]any) {
	for name, value := range from {
		had, one := into[name].(map[string]any)
		more, other := value.(map[string]any)
		if one && other {
			unite(had, more)
		} else {
			into[name] = value
		}
	}
}

// compareLists compares the lists, of which the gateway's are the servers' one after
// another, and behind the tools its own.
func (l *lab) compareLists(a *actor, direct map[string]record) {
	for _, method := range listMethods {
		member := map[string]string{"tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources"}[method]
		if member == "" {
			member = "resourceTemplates"
		}
		var want []string
		for _, server := range []string{"everything", "files", "memory"} {
			for _, element := range l.elements(direct[server][method][0], member) {
				if method == "tools/list" || method == "prompts/list" {
					element = strings.Replace(element, `{"name":"`, `{"name":"`+server+`__`, 1)
				}
				want = append(want, element)
			}
		}
		got := l.elements(string(a.w.request(l.t, method, "{}").Result), member)
		if method == "tools/list" && assert.NotEmpty(l.t, got) {
			last := got[len(got)-1]
			assert.Contains(l.t, last, `"`+gateway.StatusTool+`"`)
			got = l.withoutKeys(got[:len(got)-1], want)
		}
		assert.Equal(l.t, want, got, method)
	}
}

// elements are those of a list, less what is there for some clients only where they
// share the server.
func (l *lab) elements(result, member string) (all []string) {
	var read map[string]json.RawMessage
	if result == "" {
		return nil // it has no such list
	}
	require.NoError(l.t, json.Unmarshal([]byte(result), &read))
	list, err := rawjson.ParseArray(read[member])
	require.NoError(l.t, err)
	for _, element := range list {
		if !l.mode.shared || !isForSome(string(element)) {
			all = append(all, string(element))
		}
	}
	return all
}

// isForSome reports whether an element of a list is there for the clients only that
// can answer the server's questions, or that have made it.
func isForSome(element string) bool {
	if strings.Contains(element, `"uri":"demo://resource/session/`) {
		return true
	}
	for _, s := range everythingSteps.steps {
		name, _, _ := strings.Cut(strings.TrimPrefix(s.params, `{"name":"@`), `"`)
		if s.own && strings.HasPrefix(element, `{"name":"`+name+`"`) {
			return true
		}
	}
	return false
}

// withoutKeys are the tools as they are without what the gateway adds to those that it
// demands a key for. A tool that it demands none for stays as it is.
func (l *lab) withoutKeys(got, want []string) []string {
	out := slices.Clone(got)
	for i := range min(len(got), len(want)) {
		if !strings.Contains(got[i], `"idempotency_key":`) {
			continue
		}
		var tool, plain map[string]any
		require.NoError(l.t, json.Unmarshal([]byte(got[i]), &tool))
		require.NoError(l.t, json.Unmarshal([]byte(want[i]), &plain))
		l.strip(tool, plain)
		if assert.Equal(l.t, plain, tool) {
			out[i] = want[i]
		}
	}
	return out
}

func (l *lab) strip(tool, plain map[string]any) {
	before, _ := plain["description"].(string)
	assert.Contains(l.t, tool["description"], before+"\n")
	tool["description"] = plain["description"]
	meta := tool["_meta"].(map[string]any)
	assert.Contains(l.t, meta, "mcp-idem/policy")
	if delete(meta, "mcp-idem/policy"); len(meta) == 0 {
		delete(tool, "_meta")
	}
	schema := tool["inputSchema"].(map[string]any)
	properties := schema["properties"].(map[string]any)
	delete(properties, "idempotency_key")
	delete(properties, "idempotency_repeat_of")
	required := slices.DeleteFunc(schema["required"].([]any), func(name any) bool { return name == "idempotency_key" })
	if schema["required"] = required; len(required) == 0 {
		delete(schema, "required")
	}
	if output, ok := tool["outputSchema"].(map[string]any); ok {
		delete(output["properties"].(map[string]any), "idempotency")
	}
}

// cancel gives up a call: it runs on, and its answer is not sent.
func (a *actor) cancel() {
	params := a.filled("everything", `{"name":"@trigger-long-running-operation","arguments":{"duration":1,"steps":10KEY},"_meta":{"progressToken":"given up"}}`)
	id := a.w.ask(a.t, "tools/call", params)
	a.w.since(a.t, a.heard, "progress", func(heard []jsonrpc.Message) bool { return holds(heard, []string{progressed}) })
	a.w.notify(a.t, "notifications/cancelled", `{"requestId":`+string(id)+`,"reason":"enough"}`)
	if a.gateway { // it has run on, and its answer is on record
		again := a.w.request(a.t, "tools/call", params)
		assert.Nil(a.t, again.Error)
		assert.Contains(a.t, string(again.Result), `"was_replay":true`)
	}
	a.w.request(a.t, "ping", "{}")
	answer, answered := answerTo(a.w.since(a.t, a.heard, "nothing", func([]jsonrpc.Message) bool { return true }), id)
	if a.gateway && a.mode.http { // a response has to end with something
		assert.Contains(a.t, string(answer.Result), `"outcome":"RUNNING"`)
	} else {
		assert.False(a.t, answered, "a call that was cancelled is answered: %s", answer.Raw())
	}
	a.heard = a.w.mark()
}
