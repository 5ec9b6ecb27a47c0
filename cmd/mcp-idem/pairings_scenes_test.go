package main

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/gateway"
	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
	"github.com/mcp-idem/mcp-idem/upstream/upstreamtest"
)

// A scene is a pairing in a test of its own.
type scene struct {
	*pairing
	t *testing.T
}

const modernPreamble = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"pairing","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}`

// ask sends a request in the client's era. members are those of its params, and the
// token, unless it is empty, is for its progress.
func (s scene) ask(method, members, token string) asked {
	s.t.Helper()
	meta := ""
	if s.clientIs.era == modernEra {
		meta = modernPreamble
	}
	if token != "" {
		meta = joined(meta, `"progressToken":`+token)
	}
	if meta != "" {
		members = joined(members, `"_meta":{`+meta+`}`)
	}
	a, err := s.client.ask(method, []byte("{"+members+"}"))
	require.NoError(s.t, err)
	return a
}

// joined joins members of an object.
func joined(members, more string) string {
	if members == "" {
		return more
	}
	return members + "," + more
}

// result waits for an answer, which has to be a result in the shape of the client's
// era.
func (s scene) result(a asked) jsonrpc.Message {
	s.t.Helper()
	m, err := a.answer()
	require.NoError(s.t, err)
	require.Nil(s.t, m.Error, "%s", m.Raw())
	result, err := rawjson.ParseObject(m.Result)
	require.NoError(s.t, err)
	kind, _ := result.String("resultType")
	want := map[string]string{legacyEra: "", modernEra: "complete"}[s.clientIs.era]
	assert.Equal(s.t, want, kind, "resultType of %s", m.Result)
	return m
}

func (s scene) call(tool, order, key string) saidOutcome {
	s.t.Helper()
	return s.outcome(s.start(tool, order, key, ""))
}

func (s scene) start(tool, order, key, token string) asked {
	s.t.Helper()
	return s.ask("tools/call", fmt.Sprintf(`"name":%q,"arguments":{"order":%q,"idempotency_key":%q}`, tool, order, key), token)
}

func (s scene) outcome(a asked) saidOutcome {
	s.t.Helper()
	said, err := readOutcome(s.result(a))
	require.NoError(s.t, err)
	return said
}

func (s scene) says(said saidOutcome, outcome, reason string, replay bool) {
	s.t.Helper()
	assert.Equal(s.t, []string{outcome, reason, fmt.Sprint(replay)},
		[]string{said.member("outcome"), said.member("reason"), said.member("was_replay")}, "%s", said.raw)
}

// greet introduces the client, and returns what it is answered.
func (s scene) greet() jsonrpc.Message {
	s.t.Helper()
	m := s.result(s.introduce())
	if s.clientIs.era == legacyEra {
		require.NoError(s.t, s.client.notify("notifications/initialized"))
	}
	return m
}

func (s scene) introduce() asked {
	s.t.Helper()
	if s.clientIs.era == modernEra {
		return s.ask("server/discover", "", "")
	}
	return s.ask("initialize", `"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"pairing","version":"1"}`, "")
}

func (s scene) introduction() {
	result, err := rawjson.Parse(s.welcome.Result)
	require.NoError(s.t, err)
	assert.True(s.t, result.Get("capabilities").Get("tools").IsObject(), "%s", s.welcome.Result)
	if s.clientIs.era == modernEra {
		versions, _ := result.Get("supportedVersions").Texts()
		assert.Contains(s.t, versions, "2026-07-28")
		return
	}
	assert.True(s.t, result.Get("protocolVersion").Is(`"2025-06-18"`), "%s", s.welcome.Result)
}

func (s scene) list() {
	result, err := rawjson.Parse(s.result(s.ask("tools/list", "", "")).Result)
	require.NoError(s.t, err)
	keyed := map[string]bool{}
	for _, tool := range result.Get("tools").Elements() {
		name, _ := tool.Get("name").Text()
		required, _ := tool.Get("inputSchema").Get("required").Texts()
		keyed[name] = slices.Contains(required, "idempotency_key")
		if name == "echo_raw" {
			assert.True(s.t, tool.Get("inputSchema").Get("maxProperties").Is("9007199254740993"), "%s", tool.Raw())
		}
	}
	assert.Equal(s.t, map[string]bool{
		"echo_raw": false, "refund": true, "refund_slowly": true, "refund_late": true, "refund_silently": true, gateway.StatusTool: keyed[gateway.StatusTool],
	}, keyed)
}

func (s scene) read() {
	const arguments = `{"n":9007199254740993, "f":1.10}`
	m := s.result(s.ask("tools/call", `"name":"echo_raw","arguments":`+arguments, ""))
	result, err := rawjson.Parse(m.Result)
	require.NoError(s.t, err)
	assert.Equal(s.t, arguments, string(result.Get("structuredContent").Raw()))
	assert.Equal(s.t, []string{arguments}, textsOf(m.Result))
	assert.Len(s.t, result.Get("content").Elements(), 2, "a block of a type that nobody knows stays there")
	assert.Nil(s.t, result.Get("_meta").Get("mcp-idem/outcome"))
	assert.Equal(s.t, 1, callsReceived(s.t, s.path("received"), []byte(arguments)))
}

func (s scene) first() {
	s.says(s.call("refund", "A1", "refund:A1:1"), gateway.Completed, "null", false)
}

func (s scene) replay() {
	s.says(s.call("refund", "A1", "refund:A1:1"), gateway.Completed, "null", true)
}

func (s scene) reuse() {
	s.says(s.call("refund", "A2", "refund:A1:1"), gateway.RejectedDuplicate, "key_reused", false)
}

// progress has two calls go on at once whose tokens are one and the same to whoever
// reads numbers as floating point.
func (s scene) progress() {
	const token, other = "9007199254740993", "9007199254740992"
	first, second := s.start("refund_slowly", "P1", "refund:P1:1", token), s.start("refund_slowly", "P2", "refund:P2:1", other)
	for n := 1; n <= 3; n++ {
		assert.NoError(s.t, first.progress(token, n))
		assert.NoError(s.t, second.progress(other, n))
	}
	upstreamtest.Open(s.t, s.dir, "told")
	s.says(s.outcome(first), gateway.Completed, "null", false)
	s.says(s.outcome(second), gateway.Completed, "null", false)
}

// vanish has a client go while its call runs, after the effect. The call runs on, and
// whoever comes with its key waits for its answer.
func (s scene) vanish() {
	s.start("refund_late", "V1", "refund:V1:1", "")
	upstreamtest.WaitForFile(s.t, s.dir, "late.waiting")
	gone := s.client
	require.NoError(s.t, gone.vanish())
	s.connect(s.t)
	again := s.start("refund_late", "V1", "refund:V1:1", "")
	upstreamtest.Open(s.t, s.dir, "late")
	s.says(s.outcome(again), gateway.Completed, "null", true)
	require.NoError(s.t, gone.leave())
}

func (s scene) lostAnswer() {
	reason := map[string]string{onStdio: "upstream_exited", onHTTP: "connection_lost"}[s.serverIs.transport]
	for range 2 {
		s.says(s.call("refund_silently", "L1", "refund:L1:1"), gateway.EffectUnknown, reason, false)
	}
}

// comeAnew has a client do what clients do that have lost their connection: the new
// one shares nothing with the old one, its ids begin at 1 again.
func (s scene) comeAnew() {
	require.NoError(s.t, s.client.leave())
	s.connect(s.t)
	s.replay()
}

func (s scene) stillUnknown() {
	said := s.call("refund_silently", "L1", "refund:L1:1")
	assert.Equal(s.t, gateway.EffectUnknown, said.member("outcome"), "%s", said.raw)
}
