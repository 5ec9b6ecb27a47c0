package gateway

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

var (
	errNothingAsked = errors.New("it asks for nothing but to be called again")
	errNotHeard     = errors.New("the client cannot be asked any more")
)

// A cannotAnswerError says that the client has not declared that it answers requests
// of a method.
type cannotAnswerError struct{ method string }

func (e *cannotAnswerError) Error() string {
	return fmt.Sprintf("this client does not answer %s", e.method)
}

// askedOf are the methods of the requests that may be put to a client, by the
// capability that it must have declared (2025-11-25, basic/lifecycle).
var askedOf = map[string]string{
	"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots",
}

// declares remembers the capabilities of a client that are of use here.
func (c *Caller) declares(initializeParams rawjson.Object) {
	declared, _ := initializeParams.Get("capabilities")
	capabilities, err := rawjson.ParseObject(declared)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers = map[string]bool{}
	for method, capability := range askedOf {
		_, c.answers[method] = capabilities.Get(capability)
	}
}

func (c *Caller) canAnswer(method string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answers[method]
}

// asking are the gateway's own requests to a client that are not answered yet. Their
// ids are texts, so that they are never those of the upstream's requests; see
// questions. The zero value is ready to use.
type asking struct {
	mu   sync.Mutex
	last int
	open map[string]chan jsonrpc.Message // by jsonrpc.IDKey
}

// begin returns the request as the client gets it, and where its answer comes.
func (a *asking) begin(m jsonrpc.Message) (asked jsonrpc.Message, answer <-chan jsonrpc.Message, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.open) >= MaxRequestsInFlight {
		return m, nil, false
	}
	if a.open == nil {
		a.open = map[string]chan jsonrpc.Message{}
	}
	a.last++
	id := rawjson.Quote("mcp-idem-" + strconv.Itoa(a.last))
	answers := make(chan jsonrpc.Message, 1)
	a.open[jsonrpc.IDKey(id)] = answers
	return m.With("id", id), answers, true
}

// take takes out what waits for the answer of an id.
func (a *asking) take(id []byte) (chan<- jsonrpc.Message, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	answers, ok := a.open[jsonrpc.IDKey(id)]
	delete(a.open, jsonrpc.IDKey(id))
	return answers, ok
}

// ask puts a request to the client, and waits for the response until ctx ends or
// the client can say no more. The time that a person takes is the person's.
func (c *client) ask(ctx context.Context, x *Exchange, m jsonrpc.Message) (jsonrpc.Message, error) {
	asked, answer, ok := c.asking.begin(m)
	if !ok {
		return jsonrpc.Message{}, fmt.Errorf("%d requests to the client are open already", MaxRequestsInFlight)
	}
	defer c.asking.take(asked.ID)
	if !c.out.put(asked, x) {
		return jsonrpc.Message{}, errNotHeard
	}
	select {
	case response := <-answer:
		return response, nil
	case <-c.requests.closed:
		return jsonrpc.Message{}, errNotHeard
	case <-ctx.Done():
		c.out.put(jsonrpc.Notification("notifications/cancelled",
			fmt.Appendf(nil, `{"requestId":%s,"reason":"the call that asked is over"}`, asked.ID)), x)
		return jsonrpc.Message{}, context.Cause(ctx)
	}
}

// answered takes a response of the client, to a question of ours or of the upstream's.
// bad says that it cannot be read.
func (c *client) answered(m jsonrpc.Message, bad *jsonrpc.Error) {
	answers, ok := c.asking.take(m.ID)
	switch {
	case !ok:
		c.questions.answer(m, bad)
	case bad != nil:
		answers <- jsonrpc.ErrorReply(m.ID, bad)
	default:
		answers <- m
	}
}
