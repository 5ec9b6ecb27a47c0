package gateway_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/gateway"
	"github.com/mcp-idem/mcp-idem/toolschema"
	"github.com/mcp-idem/mcp-idem/upstream"
)

func TestInspectShowsWhatClientsAreOffered(t *testing.T) {
	t.Parallel()
	pages := map[string]string{
		"":     `{"tools":[ {"name":"refund", "inputSchema":{"type":"object"}}, 7,{"name":"pay_odd","inputSchema":7}],"nextCursor":"next"}`,
		"next": `{"tools":[{"name":"get_it","inputSchema":{"type":"object"},"x":1.50}],"nextCursor":"next"}`, // leads back
	}
	upstreams := []string{`{"name":"refund", "inputSchema":{"type":"object"}}`, `7`, `{"name":"pay_odd","inputSchema":7}`, `{"name":"get_it","inputSchema":{"type":"object"},"x":1.50}`}
	for name, c := range map[string]struct {
		edit    func(*gateway.Options)
		offered []bool
	}{
		"problems are refused":   {func(*gateway.Options) {}, []bool{true, false, true, true}},
		"problems are left out":  {func(o *gateway.Options) { o.Policy.OnProblem = toolschema.OnProblemOmit }, []bool{true, false, false, true}},
		"keys are a harness's":   {func(o *gateway.Options) { o.Keys = gateway.KeysHarness }, []bool{true, false, true, true}},
		"the operator has a say": {func(o *gateway.Options) { o.Policy.Overrides = override("refund", toolschema.ClassReadOnly) }, []bool{true, false, true, true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := prepare(t, "[]", c.edit)
			r.server.listsBy(func(cursor string) string { return pages[cursor] })
			tools, err := gateway.Inspect(context.Background(), r.options, "1.2.3")
			require.NoError(t, err)
			assert.Equal(t, 2, r.server.listed(), "pages")
			require.Len(t, tools, len(upstreams))

			r.client = r.another(nil)
			offered := ""
			for _, page := range r.list() {
				offered += page
			}
			for i, tool := range tools {
				assert.Equal(t, upstreams[i], string(tool.Upstream))
				assert.Equal(t, c.offered[i], tool.Offered, tool.Name)
				if tool.Offered {
					assert.Contains(t, offered, string(tool.Definition))
				} else {
					assert.NotEmpty(t, tool.Problem)
					assert.Nil(t, tool.Definition)
				}
			}
			assert.Zero(t, r.server.effects())
			assert.Empty(t, r.entries())
		})
	}
}

func override(pattern string, class toolschema.Class) []toolschema.Override {
	return []toolschema.Override{{Pattern: pattern, Class: class}}
}

func TestInspectSaysWhoItIs(t *testing.T) {
	t.Parallel()
	r := prepare(t, refundTool, nil)
	said := make(chan string, 1)
	r.server.greet = func(c *call) {
		said <- string(c.m.Params)
		c.answer(handshake)
	}
	_, err := gateway.Inspect(context.Background(), r.options, `1.2"3`)
	require.NoError(t, err)
	assert.Equal(t, `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"mcp-idem","version":"1.2\"3"}}`, receive(t, said, "the handshake"))
	require.Len(t, r.server.notified(), 1)
	assert.Contains(t, r.server.notified()[0], "notifications/initialized")
}

func TestInspectFailsWhereToolsAreNotListed(t *testing.T) {
	t.Parallel()
	refused := func(c *call) { c.fail(-32000, "not today") }
	for name, c := range map[string]struct {
		greet func(*call)
		list  string
		text  string
		start bool // it counts as a server that cannot be started
	}{
		"the handshake is refused":   {greet: refused, text: `^upstream "shop" refused the handshake: not today \(JSON-RPC error -32000\)$`, start: true},
		"the list is refused":        {text: `^listing the tools of "shop": no list today \(JSON-RPC error -32050\)$`},
		"the list is none":           {list: `{"tools":{}}`, text: `^listing the tools of "shop": .*without a list of tools$`},
		"the list has two lists":     {list: `{"tools":[],"tools":[]}`, text: `^listing the tools of "shop": .*stands twice`},
		"the list is no JSON object": {list: `[]`, text: `^listing the tools of "shop": `},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := prepare(t, refundTool, nil)
			r.server.listsBy(func(string) string { return c.list })
			if c.greet != nil {
				r.server.greet = c.greet
			}
			tools, err := gateway.Inspect(context.Background(), r.options, "1")
			require.Error(t, err)
			assert.Regexp(t, c.text, err.Error())
			assert.Nil(t, tools)
			assert.Equal(t, c.start, errors.As(err, new(*upstream.StartError)))
		})
	}
}

func TestInspectEndsWithItsContext(t *testing.T) {
	t.Parallel()
	r := prepare(t, refundTool, nil)
	asked, over := make(chan string, 1), make(chan struct{})
	r.server.listsBy(func(cursor string) string {
		asked <- cursor
		<-over
		return ""
	})
	defer close(over)
	ctx, cancel := context.WithCancelCause(context.Background())
	failed := make(chan error, 1)
	go func() {
		_, err := gateway.Inspect(ctx, r.options, "1")
		failed <- err
	}()
	receive(t, asked, "the question for tools")
	enough := errors.New("that is enough")
	cancel(enough)
	assert.ErrorIs(t, receive(t, failed, "the end"), enough)
}
