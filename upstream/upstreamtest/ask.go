package upstreamtest

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// What a server does that is asked to go on where it has gone on already.
const (
	replayConsumed  = "replay"  // it answers as it did
	refuseConsumed  = "refuse"  // it answers with an error
	executeConsumed = "execute" // it does everything once more
)

// A question is what the client was asked in the middle of a call. Its call goes
// on when it comes again with the question's requestState.
type question struct {
	target    string
	arguments []byte
	passed    int // the call is past so many of the faults

	taken  sync.Once
	done   chan struct{} // closed when the call that went on has its answer
	answer jsonrpc.Message
}

// ask asks the client for a confirmation, as its era has it, and reports whether
// the call goes on now.
func (s *server) ask(c call, fault int, text string) bool {
	params := fmt.Sprintf(`{"mode":"form","message":%s,"requestedSchema":{"type":"object","properties":{"ok":{"type":"boolean"}}}}`,
		rawjson.Quote(text))
	if c.modern {
		s.question(c, fault+1, `"confirm":{"method":"elicitation/create","params":`+params+`}`)
		return false
	}
	if s.inquire(c.line, "elicitation/create", []byte(params)).Result != nil {
		return true
	}
	c.line.answer(c.result([]byte(`{"content":[{"type":"text","text":"not confirmed"}],"isError":true}`)))
	return false
}

// question answers the call with requests to the client, of which passed is how
// many faults the call is past when they have been answered.
func (s *server) question(c call, passed int, requests string) {
	q := &question{target: c.target, arguments: c.arguments, passed: passed, done: make(chan struct{})}
	s.mu.Lock()
	state := fmt.Sprintf("state-%d", len(s.questions)+1)
	s.questions[state] = q
	s.mu.Unlock()
	answer := c.result(fmt.Appendf(nil, `{"resultType":"input_required","inputRequests":{%s},"requestState":%s}`, requests, rawjson.Quote(state)))
	c.settle(answer)
	c.line.answer(answer)
}

// takeUp finds the question that the call answers, and reports whether the call
// is to go on.
func (s *server) takeUp(c *call) bool {
	state, ok := c.params.String("requestState")
	if !ok || !c.tool || !c.modern {
		return true
	}
	s.mu.Lock()
	q := s.questions[state]
	s.mu.Unlock()
	c.responses, _ = c.params.Get("inputResponses")
	if q == nil || q.target != c.target || !sameJSON(q.arguments, c.arguments) || c.responses == nil {
		c.line.answer(*c.refused(jsonrpc.CodeInvalidParams, "no such requestState for this call"))
		return false
	}
	c.passed = q.passed
	q.taken.Do(func() { c.resumes = q })
	switch {
	case c.resumes != nil || s.consumed == executeConsumed:
		return true
	case s.consumed == refuseConsumed:
		c.line.answer(*c.refused(jsonrpc.CodeInvalidParams, "this requestState was used before"))
		return false
	}
	select {
	case <-q.done:
		c.line.answer(q.answer.With("id", c.m.ID))
	case <-c.line.gone():
	}
	return false
}

// settle keeps the answer for those who send the same answers again.
func (c call) settle(answer jsonrpc.Message) {
	if c.resumes != nil {
		c.resumes.answer = answer
		close(c.resumes.done)
	}
}

// roots are those of the client, asked for as its era has it.
func (s *server) roots(c call) []byte {
	if c.modern {
		return orNull(c.responses)
	}
	return s.inquire(c.line, "roots/list", nil).Raw()
}

// sameJSON reports whether two values are equal as JSON.
func sameJSON(a, b []byte) bool {
	x, y := jsontext.Value(bytes.Clone(a)), jsontext.Value(bytes.Clone(b))
	return x.Canonicalize() == nil && y.Canonicalize() == nil && bytes.Equal(x, y)
}
