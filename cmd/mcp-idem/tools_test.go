package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/gateway"
	"github.com/mcp-idem/mcp-idem/toolschema"
)

// listed is a listing of tools of the names, each with side effects.
func listed(t *testing.T, policy toolschema.Policy, names ...string) listing {
	t.Helper()
	l := listing{}
	l.Policy, l.Scope.Upstream = policy, "shop"
	for _, name := range names {
		definition := fmt.Appendf(nil, `{"name":%q,"inputSchema":{"type":"object","properties":{}}}`, name)
		tool, err := policy.Rewrite(definition)
		require.NoError(t, err)
		l.tools = append(l.tools, gateway.InspectedTool{Tool: tool, Upstream: definition, Offered: true})
	}
	return l
}

func TestTheTableFitsTheTerminal(t *testing.T) {
	t.Parallel()
	native := toolschema.NativeRule{Pattern: "*payment*", Path: []string{"parameters", "idempotency_token_of_the_request"}}
	l := listed(t, toolschema.Policy{Natives: []toolschema.NativeRule{native}},
		"get_it", "create_payment_with_a_rather_long_name_for_a_tool", "支付订单支付订单支付订单支付订单", "send")
	for _, width := range []int{300, 120, 100, 80, 60, 40, 20, 5, 1} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			t.Parallel()
			_, table, _ := strings.Cut(l.overview(width), "\n\n")
			table, _, _ = strings.Cut(table, "\n\n")
			for line := range strings.Lines(table) {
				assert.LessOrEqual(t, lipgloss.Width(line), width, "%q", line)
			}
			if width >= 60 {
				assert.Contains(t, table, "NON_RETRYABLE", "classes stay whole")
				assert.Contains(t, table, "confirm")
			}
		})
	}
}

func TestTheTableIsNotCutWhereThereIsNoTerminal(t *testing.T) {
	t.Parallel()
	name := strings.Repeat("create_", 100)
	assert.Contains(t, uncolored(listed(t, toolschema.Policy{}, name).overview(0)), "\n"+name+"  NON_RETRYABLE  required  confirm         verb \"create\"\n")
}

// uncolored is the text without colours.
func uncolored(text string) string {
	var b strings.Builder
	out, _ := colored(&b, "never")
	_, _ = out.Write([]byte(text))
	return b.String()
}

func TestEqualRemarksAreOneLine(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range 50 {
		names = append(names, fmt.Sprintf("send %d", i))
	}
	l := listed(t, toolschema.Policy{}, names...)
	for i := range l.tools {
		l.tools[i].Upstream = []byte(`{"name":"send","inputSchema":{"type":"object","anyOf":[{}],"properties":{}}}`)
	}
	assert.Contains(t, uncolored(l.overview(0)), "\n\nRefused by model APIs, and with them every request that has them:\n"+
		"  send 0, send 1, send 2, send 3, send 4 and 45 more: anthropic and openai: /inputSchema has a root anyOf\n")
}

func TestASpanIsWrittenAsBrieflyAsAFlagTakesIt(t *testing.T) {
	t.Parallel()
	for text, d := range map[string]time.Duration{
		"168h": 168 * time.Hour, "1h30m": 90 * time.Minute, "30m": 30 * time.Minute, "10s": 10 * time.Second, "1h0m10s": time.Hour + 10*time.Second,
		"1m30s": 90 * time.Second, "100h": 100 * time.Hour, "1ms": time.Millisecond, "0s": 0,
	} {
		assert.Equal(t, text, brief(d))
		read, err := time.ParseDuration(brief(d))
		require.NoError(t, err)
		assert.Equal(t, d, read)
	}
}

// What stands in strings as it is, without an escape, is escaped where it could
// deceive; what is escaped in the JSON stays so.
func TestADefinitionIsShownWithoutWhatDeceives(t *testing.T) {
	t.Parallel()
	const definition = "{\"a\":\"\u202e\u009b31m\x7f\xff\",\"b\" :[1.50e3,\"\\u202e\\u00e9é\"] ,\"c\":{}}"
	assert.Equal(t, "{\n  \"a\": \"\\u202e\\u009b31m\\x7f\\xff\",\n  \"b\": [\n    1.50e3,\n    \"\\u202e\\u00e9é\"\n  ],\n  \"c\": {}\n}\n", indented([]byte(definition)))
	deep := strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)
	assert.Equal(t, deep+"\n", indented([]byte(deep)), "deeper than can be indented")
}

func TestNamesThatMayHaveBeenMeant(t *testing.T) {
	t.Parallel()
	names := []string{"create_issue", "create_issue_comment", "get_issue", "list_issues", "refund", "send_mail", "", strings.Repeat("refund", 1000)}
	for name, c := range map[string]struct {
		typed string
		want  []string
	}{
		"a letter is missing":     {"refnd", []string{"refund"}},
		"letters are swapped":     {"reufnd", []string{"refund"}},
		"the case differs":        {"Send_Mail", []string{"send_mail"}},
		"only a part was written": {"issue", []string{"get_issue", "list_issues", "create_issue", "create_issue_comment"}},
		"something else":          {"zzz", nil},
		"too much was written":    {"send_mail_to_all", []string{"send_mail"}},
		"far too much":            {strings.Repeat("refund", 1000), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, c.want, similar(c.typed, names))
		})
	}
	assert.Len(t, similar("a", []string{"a1", "a2", "a3", "a4", "a5", "a6"}), maxSimilar)
}
