package gateway

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

func TestADirectoryRemembersSoManyNamedResources(t *testing.T) {
	t.Parallel()
	var d directory
	a, b := &member{name: "a"}, &member{name: "b"}
	all := []*member{a, b}
	for i := range maxHeard + 1 {
		d.hear(b, fmt.Sprint("x:", i))
		d.hear(b, fmt.Sprint("x:", i))
	}
	assert.Len(t, d.shelf(b).heard, maxHeard)
	assert.Len(t, d.shelf(b).order, maxHeard)
	m, _, _ := d.find(all, "x:0")
	assert.Nil(t, m, "the oldest is forgotten")
	m, own, isSure := d.find(all, "x:1")
	assert.Same(t, b, m)
	assert.Equal(t, "x:1", own)
	assert.False(t, isSure)
}

func TestADirectoryFindsTheSurestFirst(t *testing.T) {
	t.Parallel()
	var d directory
	a, b := &member{name: "a"}, &member{name: "b"}
	all := []*member{a, b}
	d.hear(a, "x:1")
	d.hear(a, "x:2")
	d.listTemplates(b, []string{"x:{id}", "{not a template"})
	for uri, of := range map[string]*member{"x:1": b, "x:{id}": b, "{not a template": b, "y:1": nil, "mcp-idem://a/x:1": a, "mcp-idem://c/x:1": nil} {
		m, _, _ := d.find(all, uri)
		assert.Same(t, of, m, uri)
	}
	d.list(a, []string{"x:1"})
	m, _, isSure := d.find(all, "x:1")
	assert.Same(t, a, m)
	assert.True(t, isSure)
	assert.Equal(t, "x:1", d.shown(all, a, "x:1"))
	assert.Equal(t, "mcp-idem://b/x:1", d.shown(all, b, "x:1"))
	assert.Equal(t, "mcp-idem://a/mcp-idem://b/x", d.shown(all, a, "mcp-idem://b/x"))
}

// What was named outlives a member whose place another takes, and goes with the last.
func TestADirectoryForgetsWithTheLastOfAName(t *testing.T) {
	t.Parallel()
	var d directory
	before, after := &member{name: "a"}, &member{name: "a"}
	d.hear(before, "x:1")
	d.list(before, nil)
	d.listTemplates(before, nil)
	assert.False(t, d.isOlder(before, time.Hour))
	d.invalidate(after)
	assert.True(t, d.isOlder(after, time.Hour))
	d.forget(before, []*member{after})
	m, _, _ := d.find([]*member{after}, "x:1")
	assert.Same(t, after, m)
	d.forget(after, nil)
	assert.Empty(t, d.shelves)
}

func TestHandlesAreBoundedAndTellNobodysTasks(t *testing.T) {
	t.Parallel()
	var h handles
	a, b := &member{name: "a"}, &member{name: "b"}
	h.remember("", a)
	for i := range maxTasks {
		h.remember(fmt.Sprint(i), a)
	}
	h.remember("1", b)
	h.remember("2", a)
	owner, isKnown := h.owner("1")
	assert.True(t, isKnown)
	assert.Empty(t, owner, "two have chosen it")
	owner, _ = h.owner("2")
	assert.Equal(t, "a", owner)
	h.remember("one more", b)
	_, isKnown = h.owner("0")
	assert.False(t, isKnown)
	assert.Len(t, h.of, maxTasks)
}

func TestCapabilitiesArePutTogether(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ a, b, want string }{
		{`{}`, `{"tools":{}}`, `{"tools":{}}`},
		{`{"tools":{"listChanged":false}}`, `{"tools":{"listChanged":true}}`, `{"tools":{"listChanged":true}}`},
		{`{"tools":{"listChanged":true}}`, `{"tools":{"listChanged":false},"x":1e0}`, `{"tools":{"listChanged":true},"x":1e0}`},
		{`{"a":{"b":{"c":1}}}`, `{"a":{"b":{"d":[1.0]}}}`, `{"a":{"b":{"c":1,"d":[1.0]}}}`},
		{`{"a":{}}`, `null`, `{"a":{}}`},
		{`{"a":true}`, `{"a":{"b":1}}`, `{"a":true}`},
	} {
		assert.Equal(t, c.want, string(merged([]byte(c.a), []byte(c.b))), "%s and %s", c.a, c.b)
	}
}

func TestQuestionsWithOneTokenAreToldApart(t *testing.T) {
	t.Parallel()
	var q questions
	a, b := &Gateway{}, &Gateway{}
	ask := func(of *Gateway, id, token string) jsonrpc.Message {
		asked, ok := q.ask(question{of: of, theirs: []byte(id)}, jsonrpc.Request([]byte(id), "roots/list", []byte(`{"_meta":{"progressToken":`+token+`, "n":1.0}}`)))
		require.True(t, ok)
		return asked
	}
	first, second, third := ask(a, "1", "7"), ask(b, "1", "7.0"), ask(b, "2", `"7"`)
	assert.JSONEq(t, `{"_meta":{"progressToken":7, "n":1.0}}`, string(first.Params), "as it came")
	assert.Equal(t, `{"_meta":{"progressToken":"mcp-idem/2", "n":1.0}}`, string(second.Params))
	assert.Equal(t, `{"_meta":{"progressToken":"7", "n":1.0}}`, string(third.Params))
	assert.Len(t, q.shownAs([]byte(`7e0`)), 1)

	_, ok := q.cancelled(b, jsonrpc.Notification("notifications/cancelled", []byte(`{"requestId":3}`)))
	assert.False(t, ok)
	notice, ok := q.cancelled(b, jsonrpc.Notification("notifications/cancelled", []byte(`{"requestId":1}`)))
	assert.True(t, ok)
	assert.JSONEq(t, `{"requestId":2}`, string(notice.Params))
	assert.Len(t, q.void(b), 1)
	assert.Len(t, q.void(a), 1)
	assert.Empty(t, q.open)
}
