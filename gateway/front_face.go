package gateway

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
	"github.com/mcp-idem/mcp-idem/toolschema"
)

// namesText tells a model how tools are called.
const namesText = "Several servers stand behind this one. The name of a tool or prompt begins with that of its server: SERVER" + separator + "NAME. "

// greeting is part of face. Members that cannot be reached are left out.
func (f *Front) greeting(ctx context.Context) ([]byte, error) {
	held := f.hold()
	defer held.release()
	f.gather(ctx, held.all, func(ctx context.Context, m *member) { m.meet(ctx) })
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return f.hello(held.all), nil
}

// gather has all members met, and waits until each was tried; but once one is there, for
// those that are late no longer than clients wait for a handshake.
func (f *Front) gather(ctx context.Context, all []*member, meet func(context.Context, *member)) {
	ctx, enough := context.WithCancel(ctx)
	defer enough()
	began := time.Now()
	late := time.AfterFunc(f.lateAfter, func() {
		if slices.ContainsFunc(all, (*member).isUp) {
			enough()
		}
	})
	defer late.Stop()
	each(all, func(m *member) {
		meet(ctx, m)
		if time.Since(began) >= f.lateAfter && m.isUp() {
			enough()
		}
	})
}

// hello is the result of a handshake, put together of those of the members.
func (f *Front) hello(all []*member) []byte {
	capabilities := []byte(`{}`)
	var texts []byte
	guarded := false
	for _, m := range all {
		read, err := rawjson.ParseObject(m.hub.welcomed())
		if err != nil {
			continue
		}
		if declared, ok := read.Get("capabilities"); ok {
			capabilities = merged(capabilities, declared)
		}
		if own, ok := read.String("instructions"); ok && own != "" {
			texts = append(texts, "# "+m.name+"\n"+own+"\n\n"...)
		}
		guarded = guarded || m.g.options.Keys != KeysHarness
	}
	awaited := slices.ContainsFunc(all, func(m *member) bool { return !m.isUp() })
	capabilities = announced(capabilities, awaited)
	text := namesText
	if guarded {
		text += instructions
	}
	return slices.Concat([]byte(`{"protocolVersion":"`+inspectProtocol+`","capabilities":`), capabilities, []byte(`,"serverInfo":`), f.identity(),
		[]byte(`,"instructions":`), rawjson.Quote(string(texts)+text), []byte("}"))
}

// announced returns capabilities with changes of the lists, which come about when a
// server comes or goes, and with the lists that one which is awaited may have. Of tools
// there is always one of ours, or may be.
func announced(capabilities []byte, awaited bool) []byte {
	declared, err := rawjson.ParseTo(capabilities, 1)
	if err != nil {
		return capabilities
	}
	for _, kind := range []string{"tools", "prompts", "resources"} {
		if kind == "tools" || awaited || declared.Get(kind) != nil {
			capabilities = merged(capabilities, []byte(`{"`+kind+`":{"listChanged":true}}`))
		}
	}
	return capabilities
}

// merged puts the capabilities of two together: what one of them has, both have.
func merged(a, b []byte) []byte {
	one, err := rawjson.ParseObject(a)
	if err != nil {
		if bytes.Equal(b, []byte("true")) {
			return b
		}
		return a
	}
	other, err := rawjson.ParseObject(b)
	if err != nil {
		return a
	}
	out := one.Without()
	for _, added := range other.Members() {
		value := added.Value
		if had, ok := one.Get(added.Name); ok {
			value = merged(had, value)
		}
		so, err := rawjson.ParseObject(out)
		if err != nil {
			return a
		}
		out = so.Set(added.Name, value)
	}
	return out
}

// identity is part of face.
func (f *Front) identity() []byte {
	return slices.Concat([]byte(`{"name":"mcp-idem","version":`), rawjson.Quote(f.version), []byte("}"))
}

// serve is part of face. What concerns one member by its name waits for no other.
func (f *Front) serve(ctx context.Context, x *Exchange, request jsonrpc.Message, level severity) jsonrpc.Message {
	x.server = f.identity()
	if request.Method != "tools/call" && request.Method != "prompts/get" {
		welcome, err := f.greeting(ctx)
		if err != nil {
			return jsonrpc.ErrorReply(request.ID, unavailable(err))
		}
		if request.Method == "server/discover" {
			return jsonrpc.Result(request.ID, discovery(welcome))
		}
	}
	return f.answer(ctx, x, request, passers{level})
}

// passers are a party of the modern era, which nobody keeps anything in mind for.
type passers struct{ level severity }

func (p passers) ask(ctx context.Context, m *member, x *Exchange, request jsonrpc.Message) jsonrpc.Message {
	m.meet(ctx)
	if p.level != 0 && m.isUp() {
		m.hub.heed(ctx, p.level)
	}
	return m.g.answer(ctx, x, request)
}

func (p passers) line(m *member) *line { return &m.order }

// find is part of face.
func (f *Front) find(ctx context.Context, name string) (toolschema.Tool, error) {
	held := f.hold()
	defer held.release()
	r := routing{f: f, all: held.all}
	m, own := r.byName(name)
	if m == nil {
		return toolschema.Tool{}, errNoSuchTool
	}
	held.only(m)
	return m.hub.find(ctx, own)
}

// outward is a notification of the member as clients see it.
func (m *member) outward(n jsonrpc.Message) jsonrpc.Message {
	switch n.Method {
	case "notifications/resources/list_changed":
		m.front.where.invalidate(m)
	case "notifications/resources/updated":
		params, err := rawjson.ParseTo(n.Params, 1)
		if err != nil {
			return n
		}
		value := params.Get("uri")
		uri, _ := value.Text()
		if shown := m.front.where.shown(m.front.all(), m, uri); shown != uri {
			var edits rawjson.Edits
			edits.Replace(value.Start, value.End, rawjson.Quote(shown))
			return n.With("params", edits.Apply(params))
		}
	}
	return n
}
