package gateway

import (
	"context"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// A guest is the host of a client that shares the upstream with others. What the
// upstream would keep in mind for its one client is kept here for each.
type guest struct {
	hub     *hub
	session *session
	hears   *subscriber
}

// newGuest returns the guest that the client of a session is with a hub. hear takes
// what belongs to no request.
func newGuest(h *hub, s *session, hear func(jsonrpc.Message) bool) *guest {
	return &guest{hub: h, session: s, hears: &subscriber{
		hear: hear, wants: func(string) bool { return true }, uris: map[string]bool{},
	}}
}

// depart ends what the guest hears of what others do too.
func (g *guest) depart() { g.hub.leave(g.hears) }

// greet answers from the handshake that the hub has made, in the revision that the
// client speaks (section Version Negotiation of basic/lifecycle, 2025-11-25).
func (g *guest) greet(ctx context.Context, x *Exchange, m jsonrpc.Message) jsonrpc.Message {
	x.introduce(m.Params)
	welcome, err := g.hub.greeting(ctx)
	if err != nil {
		return jsonrpc.ErrorReply(m.ID, unavailable(err))
	}
	g.hub.join(g.hears)
	return jsonrpc.Result(m.ID, negotiated(welcome, m.Params))
}

// negotiated returns a welcome in the revision that the params of an initialize ask
// for, or the newest of the legacy era.
func negotiated(welcome, params []byte) []byte {
	result, err := rawjson.ParseObject(welcome)
	if err != nil {
		return welcome
	}
	read, _ := rawjson.ParseObject(params) // a client that asks for no revision gets one
	asked, _ := read.String("protocolVersion")
	return result.Set("protocolVersion", rawjson.Quote(mcp.NegotiateLegacyVersion(asked)))
}

// greeted and proceed have nothing to say to the upstream: the handshake was made.
func (g *guest) greeted(jsonrpc.Message) error { return nil }
func (g *guest) proceed()                      {}

func (g *guest) answer(ctx context.Context, x *Exchange, m jsonrpc.Message) jsonrpc.Message {
	switch m.Method {
	case "resources/subscribe", "resources/unsubscribe", "logging/setLevel":
		x.turn.leave() // what is told for several clients has a line of its own
		return g.keepInMind(ctx, m)
	}
	return g.hub.g.answer(ctx, x, m)
}

// keepInMind takes what the upstream is to keep in mind for the client.
func (g *guest) keepInMind(ctx context.Context, m jsonrpc.Message) jsonrpc.Message {
	var answer jsonrpc.Message
	var err error
	switch m.Method {
	case "resources/subscribe":
		answer, err = g.hub.subscribe(ctx, g.hears, m)
	case "resources/unsubscribe":
		answer, err = g.hub.unsubscribe(ctx, g.hears, m)
	case "logging/setLevel":
		answer, err = g.setLevel(ctx, m)
	}
	if err != nil {
		return jsonrpc.ErrorReply(m.ID, unavailable(err))
	}
	return answer
}

func (g *guest) setLevel(ctx context.Context, m jsonrpc.Message) (jsonrpc.Message, error) {
	params, _ := rawjson.ParseObject(m.Params) // what is no object has no level
	word, _ := params.String("level")
	level, ok := parseSeverity(word)
	if !ok {
		return jsonrpc.ErrorReply(m.ID, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "logging/setLevel: there is no such level"}), nil
	}
	answer, err := g.hub.setLevel(ctx, g.hears, m, level)
	if err == nil && answer.Result != nil {
		g.session.setLevel(level)
	}
	return answer, err
}

// hear hands notifications on, but for those about capabilities of a client, of
// which the upstream has been told that there are none.
func (g *guest) hear(ctx context.Context, m jsonrpc.Message) error {
	switch m.Method {
	case "notifications/roots/list_changed", "notifications/progress", "notifications/elicitation/complete":
		return nil
	}
	return g.hub.g.notify(ctx, m)
}
