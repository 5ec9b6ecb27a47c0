package gateway

import (
	"context"
	"sync"

	"github.com/google/uuid"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// maxOwned is how many operations a session remembers as its own.
const maxOwned = 4096

// A Caller is one client's session. What it says of itself is provenance and never
// an identity. It is safe for concurrent use.
type Caller struct {
	session   string
	namespace string                // of its keys; empty for the gateway's own
	send      func(jsonrpc.Message) // towards the client; does not wait

	// ask puts a request of the gateway's to the client, about one of its own; nil
	// where it cannot be asked.
	ask func(context.Context, *Exchange, jsonrpc.Message) (jsonrpc.Message, error)

	mu      sync.Mutex
	answers map[string]bool // the methods of requests that the client answers
	client  string
	owned   map[dedup.OperationID]bool
	order   []dedup.OperationID
}

func newCaller(send func(jsonrpc.Message)) *Caller {
	return &Caller{session: uuid.NewString(), send: send, owned: map[dedup.OperationID]bool{}}
}

// introduce remembers the name that the client gave of itself.
func (c *Caller) introduce(initializeParams []byte) {
	params, err := rawjson.ParseObject(initializeParams)
	if err != nil {
		return
	}
	c.declares(params)
	info, _ := params.Get("clientInfo")
	c.introduceAs(info)
}

// introduceAs remembers a clientInfo, raw.
func (c *Caller) introduceAs(info []byte) {
	client, err := rawjson.ParseObject(info)
	if err != nil {
		return
	}
	name, _ := client.String("name")
	version, _ := client.String("version")
	c.mu.Lock()
	defer c.mu.Unlock()
	c.client = name + " " + version
	c.client = c.client[:min(len(c.client), maxProvenanceBytes)]
}

func (c *Caller) clientName() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.client
}

// owns notes that the session got an operation's answer, or started it.
func (c *Caller) owns(id dedup.OperationID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owned[id] {
		return
	}
	c.owned[id] = true
	if c.order = append(c.order, id); len(c.order) > maxOwned {
		delete(c.owned, c.order[0])
		c.order = c.order[1:]
	}
}

func (c *Caller) isOwner(id dedup.OperationID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.owned[id]
}
