package gateway

import (
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
