package gateway

import (
	"context"
	"net/http"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/toolschema"
)

// NewCaller returns a caller whose notifications are handed to send.
func NewCaller(send func(jsonrpc.Message)) *Caller { return newCaller(send) }

// Offer lets the gateway know the tools of a tools/list result, as if it had asked
// its upstream for them.
func (g *Gateway) Offer(list string) error {
	read := &tools{byName: map[string]toolschema.Tool{}}
	_, _, err := g.tools.add(read, "", []byte(list))
	g.tools.read = read
	return err
}

// Neutral is a request without its preamble.
func Neutral(m jsonrpc.Message) jsonrpc.Message { return neutral(m) }

// AnswerLegacy is a reply as a client of the legacy era gets it.
func AnswerLegacy(method string, reply jsonrpc.Message) jsonrpc.Message {
	return legacy.answer(method, reply, nil)
}

// AnswerModern is a reply as a client of the modern era gets it from a server of the
// identity.
func AnswerModern(method string, reply jsonrpc.Message, server []byte) jsonrpc.Message {
	return modern.answer(method, reply, server)
}

// A Stream is one HTTP response.
type Stream struct{ s *stream }

// NewStream returns a response to which nothing was said yet.
func NewStream() Stream { return Stream{newStream()} }

// Put says something before the answer.
func (s Stream) Put(m jsonrpc.Message) bool { return s.s.put(m) }

// End says the answer.
func (s Stream) End(m jsonrpc.Message) bool { return s.s.end(m) }

// Serve writes it.
func (s Stream) Serve(ctx context.Context, w http.ResponseWriter) bool {
	return s.s.serve(ctx, w, false)
}
