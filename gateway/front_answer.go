package gateway

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// A party is who stands behind a request, as the members meet it.
type party interface {
	// ask has a member answer a request.
	ask(ctx context.Context, m *member, x *Exchange, request jsonrpc.Message) jsonrpc.Message
	// line is that of what the party sends to a member.
	line(m *member) *line
}

// answer finds out which members a request concerns, and has them answer it. Nobody
// else gets to see it.
func (f *Front) answer(ctx context.Context, x *Exchange, request jsonrpc.Message, p party) jsonrpc.Message {
	held := f.hold()
	defer held.release()
	r := &routing{f, held, held.all, x, request, p}
	switch {
	case request.Method == "tools/call":
		return r.named(ctx, "tool")
	case request.Method == "tools/list":
		return r.tools(ctx)
	case request.Method == "prompts/get":
		return r.named(ctx, "prompt")
	case listings[request.Method].member != "":
		return r.list(ctx)
	case request.Method == "resources/read", request.Method == "resources/subscribe", request.Method == "resources/unsubscribe":
		return r.resource(ctx)
	case request.Method == "completion/complete":
		return r.complete(ctx)
	case request.Method == "logging/setLevel":
		return r.setLevel(ctx)
	case isAboutTask(request):
		return r.task(ctx)
	}
	if len(r.all) == 1 {
		return r.to(ctx, r.all[0], r.request)
	}
	return r.refuse(jsonrpc.CodeMethodNotFound, "Method not found: %s (several servers stand behind this one, and it is not known whom it concerns)", request.Method)
}

// A routing is one request on its way to the members that it concerns.
type routing struct {
	f       *Front
	held    *hold
	all     []*member
	from    *Exchange
	request jsonrpc.Message
	party   party
}

func (r *routing) refuse(code int, format string, args ...any) jsonrpc.Message {
	return jsonrpc.ErrorReply(r.request.ID, &jsonrpc.Error{Code: code, Message: fmt.Sprintf(format, args...)})
}

// within returns an exchange for a part of what the client has asked: the response to
// it goes to respond.
func (x *Exchange) within(respond func(jsonrpc.Message)) *Exchange {
	return &Exchange{
		Caller: x.Caller, era: x.era, server: x.server, level: x.level, keys: x.keys, stream: x.stream, turn: x.turn,
		respond: respond, notify: x.tell,
	}
}

func unheard(jsonrpc.Message) {}

// to hands the request, as the member is to get it, to the one member that it
// concerns. What the answer names belongs to that member from then on.
func (r *routing) to(ctx context.Context, m *member, request jsonrpc.Message) jsonrpc.Message {
	return r.toAs(ctx, m, request, func(answer jsonrpc.Message) jsonrpc.Message { return answer })
}

// toAs is to for a request whose answer the client gets in another form.
func (r *routing) toAs(ctx context.Context, m *member, request jsonrpc.Message, as func(jsonrpc.Message) jsonrpc.Message) jsonrpc.Message {
	r.held.only(m)
	var learned sync.Once
	learn := func(answer jsonrpc.Message) { learned.Do(func() { r.f.learn(m, answer) }) }
	x := r.from.within(func(answer jsonrpc.Message) {
		learn(answer)
		r.from.respond(as(answer))
	})
	x.turn = r.turn(ctx, m)
	defer x.turn.leave()
	answer := r.party.ask(ctx, m, x, request)
	learn(answer)
	return as(answer)
}

// turn takes a turn among what the client sends to a member, for that among what it
// sends at all: who waits for one member delays what goes to no other.
func (r *routing) turn(ctx context.Context, m *member) *turn {
	if r.from.turn == nil {
		return nil
	}
	r.from.turn.wait(ctx)
	defer r.from.turn.leave()
	return r.party.line(m).join()
}

// byName finds the member that a name of the front's begins with, and the rest.
func (r *routing) byName(name string) (*member, string) {
	server, own, ok := strings.Cut(name, separator)
	if m := r.memberOf(server); ok && m != nil {
		return m, own
	}
	return nil, name
}

// memberOf is the member of a name; nil where there is none.
func (r *routing) memberOf(name string) *member {
	for _, m := range r.all {
		if m.name == name {
			return m
		}
	}
	return nil
}

// named routes a request by the name of a tool or prompt. One tool is the gateway's own.
func (r *routing) named(ctx context.Context, what string) jsonrpc.Message {
	params, err := rawjson.ParseTo(r.request.Params, 1)
	value := params.Get("name")
	name, isText := value.Text()
	if err != nil || !isText {
		return r.refuse(jsonrpc.CodeInvalidParams, "%s: the params have no name; nothing was sent", r.request.Method)
	}
	if name == StatusTool && r.request.Method == "tools/call" {
		r.from.turn.leave()
		return r.status(ctx)
	}
	m, own := r.byName(name)
	if m == nil {
		return r.refuse(jsonrpc.CodeInvalidParams, "Unknown %s: %s; nothing was sent", what, name)
	}
	var edits rawjson.Edits
	edits.Replace(value.Start, value.End, rawjson.Quote(own))
	return r.to(ctx, m, r.request.With("params", edits.Apply(params)))
}

// complete routes a request for completions by what they are for.
func (r *routing) complete(ctx context.Context) jsonrpc.Message {
	params, err := rawjson.ParseTo(r.request.Params, 2)
	ref := params.Get("ref")
	var m *member
	var edits rawjson.Edits
	if name := ref.Get("name"); name != nil {
		text, _ := name.Text()
		var own string
		m, own = r.byName(text)
		edits.Replace(name.Start, name.End, rawjson.Quote(own))
	} else if uri := ref.Get("uri"); uri != nil {
		text, _ := uri.Text()
		var own string
		m, own = r.owner(ctx, text)
		edits.Replace(uri.Start, uri.End, rawjson.Quote(own))
	}
	if err != nil || m == nil {
		return r.refuse(jsonrpc.CodeInvalidParams, "completion/complete: the params name nothing that any server has; nothing was sent")
	}
	return r.to(ctx, m, r.request.With("params", edits.Apply(params)))
}

// setLevel tells all members that log from which level on.
func (r *routing) setLevel(ctx context.Context) jsonrpc.Message {
	var mu sync.Mutex
	var refusal *jsonrpc.Message
	granted := false
	logging := slices.DeleteFunc(slices.Clone(r.all), func(m *member) bool { return !m.isUp() || !m.declares("logging", "") })
	turns := map[*member]*turn{}
	r.from.turn.wait(ctx)
	for _, m := range logging {
		turns[m] = r.party.line(m).join()
	}
	r.from.turn.leave()
	each(logging, func(m *member) {
		defer turns[m].leave()
		limit, cancel := m.within(ctx)
		defer cancel()
		x := r.from.within(unheard)
		x.turn = turns[m]
		answer := r.party.ask(limit, m, x, r.request)
		mu.Lock()
		defer mu.Unlock()
		if granted = granted || answer.Result != nil; answer.Result == nil {
			refusal = &answer
		}
	})
	if !granted && refusal != nil {
		return *refusal
	}
	return jsonrpc.Result(r.request.ID, []byte(`{}`))
}

// learn notes what a member's answer names: resources, and the handle of a task.
func (f *Front) learn(m *member, answer jsonrpc.Message) {
	if bytes.Contains(answer.Result, []byte(`taskId`)) {
		f.handles.remember(taskOf(answer.Result).id, m)
	}
	if !bytes.Contains(answer.Result, []byte(`"uri"`)) {
		return
	}
	result, err := rawjson.ParseTo(answer.Result, 5)
	if err != nil {
		return
	}
	hear := func(block *rawjson.Value) {
		for _, holder := range []*rawjson.Value{block, block.Get("resource")} {
			if uri, ok := holder.Get("uri").Text(); ok {
				f.where.hear(m, uri)
			}
		}
	}
	for _, block := range result.Get("content").Elements() { // of a tool
		hear(block)
	}
	for _, content := range result.Get("contents").Elements() { // of a resource
		hear(content)
	}
	for _, message := range result.Get("messages").Elements() { // of a prompt
		hear(message.Get("content"))
	}
}
