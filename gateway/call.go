package gateway

import (
	"context"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

// Call takes a client's tools/call on its way, and returns the response to it.
//
// The order of the steps is the promise. What can be answered is answered before
// anything is waited for, so replays work while the upstream is down. The claim
// comes after the upstream is there to be written to, so a slow start leaves
// nothing claimed. The claim is durable before the first byte is sent, so a crash
// leaves an operation that is unknown and never one that is forgotten. From the
// claim on, the attempt belongs to the gateway and not to the caller: its answer
// is recorded whether or not somebody still waits for it.
//
// When ctx ends, the caller is gone: the response that is returned then has no
// reader.
func (g *Gateway) Call(ctx context.Context, x *Exchange, request jsonrpc.Message) jsonrpc.Message {
	j := g.begin(x, request)
	defer j.end()

	if !j.parse() { // what does the caller say?
		return j.reply()
	}
	if j.asksForStatus() { // the gateway's own tool
		return j.status(ctx)
	}
	j.findTool(ctx)    // what is the tool?
	if !j.needsKey() { // readers go straight through
		return j.pass(ctx)
	}
	if !j.ask() { // key, scope, fingerprint, policy
		return j.reply()
	}
	j.leaveOrder() // the ledger decides from here on who goes first
	for {
		if j.lookUp(ctx) { // is there something to answer already?
			if j.goesOn(ctx) { // it was a question, and the client has answered
				continue
			}
			return j.reply()
		}
		if j.passes() { // nobody has used the key that came, and none is needed
			return j.pass(ctx)
		}
		if j.hindered() { // is the tool there, and can a key be demanded of it?
			return j.reply()
		}
		if !j.reach(ctx) { // is the upstream there to be written to?
			return j.reply()
		}
		switch verdict := j.claim(ctx).(type) { // durable before the first byte
		case *dedup.Lease:
			j.run(ctx, verdict) // send once, record, answer
			if !j.goesOn(ctx) {
				return j.reply()
			}
		case nil:
			return j.reply() // nothing was claimed, and the caller is told why
		} // somebody else claimed it in between: look again
	}
}
