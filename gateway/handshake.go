package gateway

import (
	"context"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// instructions tells a model what the keys are for. It stands behind the
// upstream's own.
const instructions = "Tools here that have side effects ask for an idempotency_key. " +
	"Choose one key per intended effect, verb:thing:occurrence, and send the SAME key on every retry of it: a call that was already executed is then answered from the record and not executed again. " +
	"EFFECT_UNKNOWN means that the call may have been executed: do not send it again under a new key; do what its next.message says."

// initialize hands the client's handshake on, so that protocol version,
// capabilities and client are the client's own, and adds our instructions to the
// answer.
func (g *Gateway) initialize(ctx context.Context, from *Exchange, request jsonrpc.Message) jsonrpc.Message {
	from.introduce(request.Params)
	answer, err := g.server.Initialize(ctx, request.Params)
	if err != nil {
		return jsonrpc.ErrorReply(request.ID, unavailable(err))
	}
	answer = answer.With("id", request.ID)
	result, err := rawjson.ParseObject(answer.Result)
	if err != nil {
		return answer // an error, or nothing that could be added to
	}
	g.learn(result)
	return answer.With("result", g.instruct(result))
}

// instruct returns the result of a handshake with our instructions behind the
// upstream's, where there is something that a model has to know.
func (g *Gateway) instruct(result rawjson.Object) []byte {
	own, ok := result.Get("instructions")
	_, isText := rawjson.Unquote(own)
	switch {
	case !g.hasTools.Load() || g.options.Keys == KeysHarness, g.isOneOfSeveral(),
		!isText && ok && string(own) != "null": // what cannot be read is not changed
		return result.Without()
	case !isText:
		own = []byte(`""`)
	}
	return result.Set("instructions", rawjson.Extend(own, instructions))
}

// learn notes what the upstream declares of its tools.
func (g *Gateway) learn(result rawjson.Object) {
	declared, _ := result.Get("capabilities")
	capabilities, _ := rawjson.ParseObject(declared)
	declared, has := capabilities.Get("tools")
	g.met.Store(true)
	g.hasTools.Store(has)
	tools, _ := rawjson.ParseObject(declared)
	changes, _ := tools.Get("listChanged")
	g.announces.Store(string(changes) == "true" || g.isOneOfSeveral())
}
