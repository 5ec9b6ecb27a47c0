package toolschema

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

func TestEachThingThatIsSaidOfAToolCountsByItself(t *testing.T) {
	t.Parallel()
	p := Policy{Window: 168 * time.Hour, Overrides: []Override{
		{Pattern: "send_mail", Class: ClassSafeRetry},
		{Pattern: "send_*", Class: ClassDeduplicate, NearDuplicate: NearDuplicateAsk, Window: time.Hour},
		{Pattern: "*_mail", Window: 2 * time.Hour},
		{Pattern: "send_mail", NearDuplicate: NearDuplicateOff},
		{Pattern: "*"},
	}}
	type word struct {
		class  Class
		rule   string
		near   NearDuplicate
		window time.Duration
	}
	for name, want := range map[string]word{
		"send_mail":  {ClassSafeRetry, `override "send_mail"`, NearDuplicateOff, 2 * time.Hour},
		"send_note":  {ClassDeduplicate, `override "send_*"`, NearDuplicateAsk, time.Hour},
		"write_mail": {ClassNonRetryable, `verb "write"`, NearDuplicateOff, 2 * time.Hour},
		"post_note":  {ClassNonRetryable, `verb "post"`, NearDuplicateConfirm, 168 * time.Hour},
	} {
		tool := rewrite(t, p, `{"name":"`+name+`","inputSchema":{"type":"object"}}`)
		assert.Equal(t, want, word{tool.Class, tool.Rule, tool.NearDuplicate, tool.Window}, name)
		assert.Equal(t, want.class == ClassSafeRetry || want.class == ClassDeduplicate, tool.ByOperator, name)
	}
}

// What is said of a tool's near-duplicates is what its schema and its policy show.
func TestTheOperatorsWordOnNearDuplicatesDecides(t *testing.T) {
	t.Parallel()
	const send, click = `{"name":"send","inputSchema":{"type":"object"}}`, `{"name":"click","inputSchema":{"type":"object"}}`
	const counted = `{"name":"send","inputSchema":{"type":"object","maxProperties":3}}`
	for name, c := range map[string]struct {
		said       NearDuplicate
		definition string
		want       NearDuplicate
		repeats    bool
	}{
		"nothing, of what sends":             {"", send, NearDuplicateConfirm, true},
		"nothing, of what does not":          {"", click, NearDuplicateOff, false},
		"off, of what sends":                 {NearDuplicateOff, send, NearDuplicateOff, false},
		"warn, of what sends":                {NearDuplicateWarn, send, NearDuplicateWarn, false},
		"ask, of what sends":                 {NearDuplicateAsk, send, NearDuplicateAsk, true},
		"warn, of what does not":             {NearDuplicateWarn, click, NearDuplicateWarn, false},
		"confirm, of what does not":          {NearDuplicateConfirm, click, NearDuplicateConfirm, true},
		"confirm, but there is no room":      {NearDuplicateConfirm, counted, NearDuplicateWarn, false},
		"ask, but there is no room":          {NearDuplicateAsk, counted, NearDuplicateWarn, false},
		"off, where there would be no room":  {NearDuplicateOff, counted, NearDuplicateOff, false},
		"warn, where there would be no room": {NearDuplicateWarn, counted, NearDuplicateWarn, false},
	} {
		p := Policy{Overrides: []Override{{Pattern: "*", NearDuplicate: c.said}, {Pattern: "other", NearDuplicate: NearDuplicateAsk}}}
		tool := rewrite(t, p, c.definition)
		require.Empty(t, tool.Problem, name)
		assert.Equal(t, c.want, tool.NearDuplicate, name)
		assert.Contains(t, string(tool.Definition), `"near_duplicate":"`+string(c.want)+`"`, name)
		offered, err := rawjson.Parse(tool.Definition)
		require.NoError(t, err)
		assert.Equal(t, c.repeats, offered.Get("inputSchema").Get("properties").Get(RepeatProperty) != nil, name)
	}
}

func TestWithoutAKeyThereAreNoNearDuplicates(t *testing.T) {
	t.Parallel()
	for _, class := range []Class{ClassReadOnly, ClassUnguarded} {
		p := Policy{Overrides: []Override{{Pattern: "*", Class: class, NearDuplicate: NearDuplicateConfirm}}}
		tool := rewrite(t, p, `{"name":"send","inputSchema":{"type":"object"}}`)
		assert.Equal(t, NearDuplicateOff, tool.NearDuplicate, class)
		assert.NotContains(t, string(tool.Definition), RepeatProperty, class)
	}
}

// The tools of one page state each its own window, to people and to programs.
func TestAToolIsOfferedWithItsOwnWindow(t *testing.T) {
	t.Parallel()
	p := Policy{Window: 168 * time.Hour, Overrides: []Override{{Pattern: "pay", Window: 720 * time.Hour}, {Pattern: "p*", Window: time.Hour}}}
	page, err := p.RewritePage([]byte(`{"tools":[{"name":"pay","inputSchema":{"type":"object"}},{"name":"post","inputSchema":{"type":"object"}},{"name":"send","inputSchema":{"type":"object"}}]}`))
	require.NoError(t, err)
	require.Len(t, page.Tools, 3)
	for i, want := range []struct {
		window time.Duration
		text   string
		meta   string
	}{
		{720 * time.Hour, " within 30 days gets the first answer again.", `"window_seconds":2592000`},
		{time.Hour, " within 1 hour gets the first answer again.", `"window_seconds":3600`},
		{168 * time.Hour, " within 7 days gets the first answer again.", `"window_seconds":604800`},
	} {
		tool := page.Tools[i]
		assert.Equal(t, want.window, tool.Window, tool.Name)
		assert.Contains(t, string(tool.Definition), want.text, tool.Name)
		assert.Contains(t, string(tool.Definition), want.meta, tool.Name)
	}
}

func TestRulesComeInTheOrderOfTheirWeight(t *testing.T) {
	t.Parallel()
	itself := func(pattern string) string { return pattern }
	rules := []string{"pay", "*", "p[a", "x", "p?y", "pay", "[p]ay"}
	assert.Equal(t, []string{"*", "p?y", "[p]ay", "pay", "pay"}, Naming(rules, "pay", itself))
	assert.Equal(t, []string{"*", "p[a"}, Naming(rules, "p[a", itself), "a name that is no glob is still a name")
	assert.Empty(t, Naming(rules[2:4], "pay", itself))
}
