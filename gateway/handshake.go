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
func (g *Gateway) initialize(ctx context.Context, from *Caller, request jsonrpc.Message) jsonrpc.Message {
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
	text, _ := result.String("instructions")
	if text != "" {
		text += "\n\n"
	}
	g.listChanges.Store(declaresListChanges(result))
	return answer.With("result", result.Set("instructions", rawjson.Quote(text+instructions)))
}

// declaresListChanges reports whether the upstream announces changes of its tools,
// so that its clients expect to hear of them.
func declaresListChanges(result rawjson.Object) bool {
	capabilities, _ := result.Get("capabilities")
	o, err := rawjson.ParseObject(capabilities)
	if err != nil {
		return false
	}
	tools, _ := o.Get("tools")
	t, err := rawjson.ParseObject(tools)
	if err != nil {
		return false
	}
	changes, _ := t.Get("listChanged")
	return string(changes) == "true"
}
