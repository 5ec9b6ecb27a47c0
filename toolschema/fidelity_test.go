package toolschema

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// requireOnlyAdditions checks that a definition is offered as it came but for
// the additions.
func requireOnlyAdditions(t require.TestingT, original, offered []byte) {
	restored, err := withoutAddedBytes(string(original), string(offered))
	require.NoError(t, err, "%s\n%s", original, offered)
	require.Equal(t, string(original), restored, "%s", offered)
}

func TestSchemaCasesKeepTheirBytes(t *testing.T) {
	t.Parallel()
	for _, c := range schemaCases(t) {
		for _, r := range roles {
			definition := r.definition(c.source())
			tool, err := guardAll.Rewrite(definition)
			require.NoError(t, err)
			requireOnlyAdditions(t, definition, tool.Definition)
		}
	}
}

// An oddWriter writes JSON as no program would: with white space anywhere, names
// and texts escaped, numbers of any size.
type oddWriter struct{ chooser }

func (w oddWriter) space() string { return w.oneOf("", "", "", " ", "\n\t", "\r\n  ") }

// respell writes the value with its own members in their order.
func (w oddWriter) respell(v extent) string {
	var parts []string
	for _, m := range v.members {
		parts = append(parts, w.space()+w.text(m.name)+w.space()+":"+w.space()+w.respell(m.value)+w.space())
	}
	for _, e := range v.elements {
		parts = append(parts, w.space()+w.respell(e)+w.space())
	}
	inner := strings.Join(parts, ",")
	switch v.raw()[0] {
	case '{':
		return "{" + inner + w.space() + "}"
	case '[':
		return "[" + inner + w.space() + "]"
	case '"':
		return w.text(v.word())
	}
	return v.raw()
}

// text quotes with some letters escaped.
func (w oddWriter) text(s string) string {
	quoted, _ := jsontext.AppendQuote(nil, s)
	var out strings.Builder
	for i, c := range quoted {
		letter := c >= 'a' && c <= 'z' && quoted[max(i-1, 0)] != '\\'
		if letter && w.chance(4) {
			fmt.Fprintf(&out, `\u%04x`, c)
		} else {
			out.WriteByte(c)
		}
	}
	return out.String()
}

// definition draws a tool with schemas of its own and all that a tool may have.
func (w oddWriter) definition(name string) string {
	members := []string{
		fmt.Sprintf(`"name":%q`, name), `"inputSchema":` + drawSchema(w.chooser), `"title":"Caf\u00e9 \/ \ud83d\ude00"`,
		`"x-big":[1e400,-0.0,12345678901234567890,1.50]`, `"annotations":{"readOnlyHint":false,"odd":null}`, `"icons":[{"src":"x"}]`, `"execution":{}`,
	}
	for _, optional := range []string{
		`"outputSchema":` + drawSchema(w.chooser), `"description":"Makes\u0020it.\n\"Now\""`, `"description":""`, `"_meta":{"a":{"b":1.0}}`, `"_meta":{}`,
	} {
		if w.chance(40) {
			members = append(members, optional)
		}
	}
	members = dedupe(members)
	for i := range members {
		j := w.chooser(i + 1)
		members[i], members[j] = members[j], members[i]
	}
	plain, err := parseExtent("{" + strings.Join(members, ",") + "}")
	if err != nil {
		panic(err) // the writer is wrong
	}
	return w.respell(plain)
}

// toolNames are of keyed tools, with and without the repeat member, and of one
// that is read-only.
var toolNames = []string{"create_thing", "update_thing", "get_thing"}

func TestRandomDefinitionsKeepTheirBytes(t *testing.T) {
	t.Parallel()
	rewritten := 0
	for seed := range uint64(600) {
		w := oddWriter{seeded(seed)}
		definition := []byte(w.definition(toolNames[w.chooser(3)]))
		tool, err := Policy{}.Rewrite(definition)
		require.NoError(t, err, "%s", definition)
		requireOnlyAdditions(t, definition, tool.Definition)
		if tool.Keyed() && tool.Problem == "" {
			rewritten++
		}
	}
	t.Logf("%d of 600 definitions got a key", rewritten)
	assert.Greater(t, rewritten, 200)
}

// FuzzDefinitionsKeepTheirBytes starts from the schemas that were written to be
// hard, and lets the fuzzer break their spelling.
func FuzzDefinitionsKeepTheirBytes(f *testing.F) {
	for i, c := range schemaCases(f) {
		f.Add(roles[i%len(roles)].definition(c.source()))
	}
	for seed := range uint64(20) {
		f.Add([]byte(oddWriter{seeded(seed)}.definition("create_thing")))
	}
	f.Fuzz(func(t *testing.T, definition []byte) {
		tool, err := guardAll.Rewrite(definition)
		if err != nil {
			return
		}
		requireOnlyAdditions(t, definition, tool.Definition)
	})
}

func TestTheInverseTellsChangesFromAdditions(t *testing.T) {
	t.Parallel()
	const original = `{"name":"create_x","inputSchema":{"properties":{"a":{"maxLength":1}},"required":["a"],"maxProperties":2,` +
		`"anyOf":[{"$ref":"#/$defs/d"}],"$defs":{"d":{"additionalProperties":false,"title":"D"}}}}`
	tool, err := guardAll.Rewrite([]byte(original))
	require.NoError(t, err)
	offered := string(tool.Definition)
	restored, err := withoutAddedBytes(original, offered)
	require.NoError(t, err)
	require.Equal(t, original, restored)
	copied := tool.Definition[bytes.LastIndex(tool.Definition, []byte(`"additionalProperties"`)):]
	ref := offered[strings.Index(offered, `"$ref"`) : strings.Index(offered, `"$defs"`)-3]
	for old, changed := range map[string]string{
		`"maxLength":1`:         `"maxLength":2`,
		`"maxProperties":3`:     `"maxProperties":4`,
		`"a"],"max`:             `"b"],"max`,
		`"name":"create_x"`:     `"name":"create_y"`,
		`{"properties"`:         `{"x":1,"properties"`,
		`"a":{`:                 `"b":{`,
		`,"required"`:           ` ,"required"`,
		`"a":{"maxLength":1},`:  ``,
		ref:                     `"$ref":"#/$defs/d"`,
		string(copied):          strings.Replace(string(copied), `"D"`, `"E"`, 1),
		`"$defs":{`:             `"$defs":{"more":{},`,
		`"idempotency_key","a"`: `"idempotency_key","idempotency_repeat_of","a"`,
	} {
		require.Contains(t, offered, old)
		restored, err := withoutAddedBytes(original, strings.Replace(offered, old, changed, 1))
		assert.False(t, err == nil && restored == original, "%s for %s", changed, old)
	}
}

// drawnPage is a page of tools as an upstream may send it, and as it is to be
// offered.
type drawnPage struct{ result, offered string }

func drawPage(t *rapid.T, p Policy) drawnPage {
	w := oddWriter{drawn(t)}
	var before, after []string
	seed := rapid.Uint64().Draw(t, "tools")
	for i := range w.chooser(5) {
		gap := w.space()
		definition := oddWriter{seeded(seed + uint64(i))}.definition(toolNames[w.chooser(3)])
		tool, err := p.Rewrite([]byte(definition))
		require.NoError(t, err)
		before = append(before, gap+definition)
		after = append(after, gap+string(tool.Definition))
	}
	head := `{"x":1.0,` + w.space() + `"to\u006fls"` + w.space() + `:` + w.space() + `[`
	tail := w.space() + `]` + w.oneOf("", `, "nextCursor" : "c\u0041"`) + `,"_meta":{"a":1e2}` + w.space() + "}"
	return drawnPage{head + strings.Join(before, ",") + tail, head + strings.Join(after, ",") + tail}
}

func TestPagesKeepTheirOrderAndEverythingAroundTheTools(t *testing.T) {
	t.Parallel()
	p := Policy{StatusTool: "idempotency_status"}
	rapid.Check(t, func(r *rapid.T) {
		drawn := drawPage(r, p)
		page, err := p.RewritePage([]byte(drawn.result))
		require.NoError(r, err)
		require.Empty(r, page.Dropped)
		require.Equal(r, drawn.offered, string(page.Result))
	})
}
