package toolschema

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

const (
	readTool = `{"name":"get_x", "inputSchema":true}`
	badTool  = `{"name":"create_y","inputSchema":true}`
)

func TestRewritePageKeepsEverythingAroundTheTools(t *testing.T) {
	t.Parallel()
	const keyed = `{"name":"click","inputSchema":{}}`
	offered, err := Policy{}.Rewrite([]byte(keyed))
	require.NoError(t, err)
	page, err := Policy{}.RewritePage([]byte(`{ "x":1.0, "tools" : [ ` + readTool + ` ,` + "\n\t" + keyed + ` ] ,"nextCursor":"c","_meta":{"a":1e2}} `))
	require.NoError(t, err)
	assert.Equal(t, `{ "x":1.0, "tools" : [ `+readTool+` ,`+"\n\t"+string(offered.Definition)+` ] ,"nextCursor":"c","_meta":{"a":1e2}} `, string(page.Result))
	assert.Empty(t, page.Dropped)
	require.Len(t, page.Tools, 2)
	assert.Equal(t, []string{"get_x", "click"}, []string{page.Tools[0].Name, page.Tools[1].Name})
}

func TestABadToolGoesAloneAndIsNamed(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		`[` + badTool + ` , ` + readTool + `]`:                       `[` + readTool + `]`,
		`[ ` + readTool + `, ` + badTool + ` ]`:                      `[ ` + readTool + ` ]`,
		`[` + readTool + `,` + badTool + `,` + readTool + `]`:        `[` + readTool + `,` + readTool + `]`,
		`[ ` + badTool + `,7 , {"name":""}]`:                         `[ ]`,
		`[` + badTool + `,` + badTool + `,` + "\n" + readTool + ` ]`: `[` + readTool + ` ]`,
	} {
		page, err := Policy{OnProblem: OnProblemOmit}.RewritePage([]byte(`{"tools":` + source + `}`))
		require.NoError(t, err)
		assert.Equal(t, `{"tools":`+want+`}`, string(page.Result), source)
		require.NotEmpty(t, page.Dropped)
		for _, d := range page.Dropped {
			assert.NotEmpty(t, d.Problem)
		}
	}
	page, err := Policy{OnProblem: OnProblemOmit}.RewritePage([]byte(`{"tools":[` + badTool + `]}`))
	require.NoError(t, err)
	assert.Equal(t, "create_y", page.Dropped[0].Name)
}

func TestAToolWithAProblemIsOfferedAsThePolicySays(t *testing.T) {
	t.Parallel()
	const refused = `{"name":"create_y","inputSchema":true,"description":"Calls are refused: no idempotency_key can be demanded of them (inputSchema is unreadable: not a JSON object)."}`
	for policy, want := range map[OnProblem]string{"": refused, OnProblemRefuse: refused, OnProblemHarness: badTool} {
		page, err := Policy{OnProblem: policy}.RewritePage([]byte(`{"tools":[` + badTool + `,7,` + readTool + `]}`))
		require.NoError(t, err)
		assert.Equal(t, `{"tools":[`+want+`,`+readTool+`]}`, string(page.Result))
		assert.NotEmpty(t, page.Tools[0].Problem)
		require.Len(t, page.Dropped, 1, "what cannot be read is left out in any case")
		assert.Equal(t, 1, page.Dropped[0].Place)
	}
	for _, word := range []string{"refuse", "harness", "omit"} {
		o, err := ParseOnProblem(word)
		require.NoError(t, err)
		assert.Equal(t, word, string(o))
	}
	_, err := ParseOnProblem("ignore")
	require.ErrorContains(t, err, "refuse, harness or omit")
}

func TestAPageWithoutKeyedToolsIsTheSameBytes(t *testing.T) {
	t.Parallel()
	for _, result := range []string{`{"tools":[]}`, ` { "tools" : [ ` + readTool + ` ] } `} {
		page, err := Policy{}.RewritePage([]byte(result))
		require.NoError(t, err)
		assert.Equal(t, result, string(page.Result))
	}
}

func TestResultsWithoutAListAreErrors(t *testing.T) {
	t.Parallel()
	for _, result := range []string{``, `[]`, `{}`, `{"tools":{}}`, `{"tools":null}`, `{"tools":[],"tools":[]}`, `{"tools":[]}x`} {
		_, err := Policy{}.RewritePage([]byte(result))
		require.Error(t, err, result)
	}
}

func TestAppendToolNeedsAList(t *testing.T) {
	t.Parallel()
	for _, result := range []string{``, `[]`, `{}`, `{"tools":{}}`, `{"tools":[],"tools":[]}`} {
		_, err := AppendTool([]byte(result), []byte(`{}`))
		require.Error(t, err, result)
	}
}

func TestAppendToolAddsAtTheEnd(t *testing.T) {
	t.Parallel()
	got, err := AppendTool([]byte(`{"tools":[{"name":"a"}],"nextCursor":"c"}`), []byte(`{"name":"z"}`))
	require.NoError(t, err)
	assert.Equal(t, `{"tools":[{"name":"a"},{"name":"z"}],"nextCursor":"c"}`, string(got))
}

func TestCorpusPagesLoseNoTool(t *testing.T) {
	t.Parallel()
	kept, keyed := 0, 0
	for server, result := range corpusPages(t) {
		page, err := guardAll.RewritePage(result)
		require.NoError(t, err)
		assert.Empty(t, page.Dropped, server)
		var names []string
		for _, definition := range corpusTools(t, result) {
			def, err := rawjson.ParseObject(definition)
			require.NoError(t, err)
			name, _ := def.String("name")
			names = append(names, name)
		}
		for i, definition := range corpusTools(t, page.Result) {
			assert.Equal(t, string(page.Tools[i].Definition), string(definition))
			assert.Equal(t, names[i], page.Tools[i].Name)
		}
		trusted, err := Policy{TrustAnnotations: true}.RewritePage(result)
		require.NoError(t, err)
		for _, tool := range trusted.Tools {
			if tool.Keyed() {
				keyed++
			}
		}
		kept += len(page.Tools)
	}
	t.Logf("%d tools rewritten without a problem; %d are keyed by trusted annotations and names", kept, keyed)
}
