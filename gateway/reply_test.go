package gateway_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// schemas are the output schemas that are offered, by tool.
type schemas map[string]*jsonschema.Schema

// add takes the schemas of a tools/list result, and returns the cursor of the next.
func (s schemas) add(t *testing.T, result []byte) (next string) {
	t.Helper()
	page := object(t, result)
	next, _ = page.String("nextCursor")
	list, _ := page.Get("tools")
	tools, err := rawjson.ParseArray(list)
	require.NoError(t, err)
	for _, raw := range tools {
		tool := object(t, raw)
		name, _ := tool.String("name")
		if output, ok := tool.Get("outputSchema"); ok {
			s[name] = compile(t, output)
		}
	}
	return next
}

func compile(t *testing.T, schema []byte) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	require.NoError(t, err)
	compiler := jsonschema.NewCompiler()
	require.NoError(t, compiler.AddResource("output.json", document))
	compiled, err := compiler.Compile("output.json")
	require.NoError(t, err)
	return compiled
}

func object(t *testing.T, raw []byte) rawjson.Object {
	t.Helper()
	o, err := rawjson.ParseObject(raw)
	require.NoError(t, err, "%s", raw)
	return o
}

// A reply is a result of tools/call that has an outcome.
type reply struct {
	t       *testing.T
	message jsonrpc.Message
	result  rawjson.Object
	raw     []byte // the outcome
	outcome rawjson.Object
	blocks  [][]byte
	text    string // the text block that tells the outcome; empty: none does
}

// reply waits for the result of a call, and checks what must hold of every one.
func (p *pending) reply() reply {
	t := p.client.t
	t.Helper()
	m := p.wait()
	require.Nil(t, m.Error, "%s", m.Error)
	r := reply{t: t, message: m, result: object(t, m.Result)}
	meta, _ := r.result.Get("_meta")
	r.raw, _ = object(t, meta).Get("mcp-idem/outcome")
	r.outcome = object(t, r.raw)
	content, _ := r.result.Get("content")
	r.blocks, _ = rawjson.ParseArray(content) // an upstream may answer without
	r.checkText()
	r.checkStructured(p.client.schemas[p.tool])
	return r
}

// checkText finds the text that tells the outcome. Its first line is a sentence
// of its own that begins with the outcome; the second is the outcome object.
func (r *reply) checkText() {
	r.t.Helper()
	word := r.says("outcome")
	for _, block := range r.blocks {
		text, _ := object(r.t, block).String("text")
		if !strings.HasPrefix(text, word) {
			continue
		}
		require.Empty(r.t, r.text, "the outcome is told twice")
		r.text = text
	}
	if r.text == "" {
		require.Contains(r.t, []string{"COMPLETED", "ACCEPTED"}, word, "nobody tells the model: %s", r.message.Result)
		return
	}
	lines := strings.SplitN(r.text, "\n", 3)
	require.GreaterOrEqual(r.t, len(lines), 2)
	assert.Equal(r.t, string(r.raw), lines[1])
	assert.Regexp(r.t, `^[A-Z_]+( \([a-z_]+\))?: \S.*\.$`, lines[0])
	if r.says("effect") == "unknown" {
		assert.NotContains(r.t, strings.ToLower(lines[0]+r.says("next.message")), "fail", "what is unknown has not failed")
	}
}

// checkStructured makes sure that a client which validates accepts the result.
func (r *reply) checkStructured(schema *jsonschema.Schema) {
	r.t.Helper()
	structured, ok := r.result.Get("structuredContent")
	isError, _ := r.result.Get("isError")
	if schema == nil {
		return
	}
	if !ok {
		assert.True(r.t, string(isError) == "true" || r.says("outcome") == "ACCEPTED", "a success without what its tool promises: %s", r.message.Result)
		return
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(structured))
	require.NoError(r.t, err)
	assert.NoError(r.t, schema.Validate(value), "%s", structured)
}

// says is a member of the outcome, strings without quotes; next.action and its
// like are members of a member.
func (r *reply) says(name string) string {
	r.t.Helper()
	o := r.outcome
	if outer, inner, nested := strings.Cut(name, "."); nested {
		value, _ := o.Get(outer)
		o, name = object(r.t, value), inner
	}
	value, _ := o.Get(name)
	if text, ok := rawjson.Unquote(value); ok {
		return text
	}
	return string(value)
}

// line is the first line of the text that tells the outcome.
func (r *reply) line() string {
	line, _, _ := strings.Cut(r.text, "\n")
	return line
}

// member is a member of the result, as it is written.
func (r *reply) member(name string) string {
	value, _ := r.result.Get(name)
	return string(value)
}

// upstreams is the result less what the gateway has added to it.
func (r *reply) upstreams() string {
	result := string(r.message.Result)
	if last := len(r.blocks) - 1; r.text != "" {
		comma := ","
		if last == 0 {
			comma = ""
		}
		result = strings.Replace(result, comma+string(r.blocks[last]), "", 1)
	}
	for _, added := range []string{
		`,"idempotency":` + string(r.raw), `,"_meta":{"mcp-idem/outcome":` + string(r.raw) + `}`, `,"mcp-idem/outcome":` + string(r.raw),
	} {
		result = strings.Replace(result, added, "", 1)
	}
	return result
}

// require makes sure of the outcome and of further members, given in turns by
// name and value.
func (r reply) require(outcome string, members ...string) reply {
	r.t.Helper()
	require.Equal(r.t, outcome, r.says("outcome"), "%s", r.message.Result)
	for i := 0; i < len(members); i += 2 {
		require.Equal(r.t, members[i+1], r.says(members[i]), "%s of %s", members[i], r.raw)
	}
	return r
}
