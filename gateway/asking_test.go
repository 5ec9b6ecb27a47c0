package gateway_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/gateway"
	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

// An interviewee is a client of the legacy era that answers questions.
func (r *rig) interviewee(capabilities string) *client {
	c := r.stranger(nil)
	c.listen()
	require.NotNil(c.t, c.request("initialize", strings.Replace(hello, `"capabilities":{}`, `"capabilities":`+capabilities, 1)).wait().Result)
	c.notify("notifications/initialized", "")
	c.list()
	return c
}

// asked is the next request of the gateway's to the client.
func (c *client) asked() jsonrpc.Message {
	c.t.Helper()
	for {
		if m := receive(c.t, c.others, "a question to the client"); m.IsRequest() {
			return m
		}
	}
}

func (c *client) say(m jsonrpc.Message) {
	c.t.Helper()
	require.NoError(c.t, c.in.Write(m))
}

// line is the first line of what a reply tells.
func line(r reply) string { return r.line() }

func TestALegacyClientIsAskedInTheUpstreamsPlace(t *testing.T) {
	t.Parallel()
	r := prepare(t, refundTool, nil)
	q := asksFirst(r.server, 2, map[string]func(*call){"s2": func(c *call) {
		c.ask(`{"resultType":"input_required","inputRequests":{"b":{"method":"roots/list"},"a":{"method":"sampling/createMessage","params":{"maxTokens":1}}}}`)
	}})
	greeted := make(chan string, 1)
	r.server.greet = func(c *call) {
		greeted <- string(c.m.Params)
		c.answer(handshake)
	}
	c := r.interviewee(`{"elicitation":{},"sampling":{},"roots":{}}`)
	assert.Contains(t, receive(t, greeted, "the handshake"), `"capabilities":{"elicitation":{},"sampling":{},"roots":{}},`, "the client's own, and no others")
	pending := c.start("refund", refundA1, "")
	for number := 1; number <= 2; number++ {
		m := c.asked()
		assert.Equal(t, "elicitation/create", m.Method)
		assert.JSONEq(t, fmt.Sprintf(`{"message":"Refund %d dollars?","n":9007199254740993,"requestedSchema":{"type":"object"}}`, number), string(m.Params))
		c.say(jsonrpc.Result(m.ID, []byte(`{"action":"accept","content":{ "n":1.0 }}`)))
	}
	for _, want := range []string{"roots/list", "sampling/createMessage"} { // in the order of the question
		m := c.asked()
		assert.Equal(t, want, m.Method)
		q.then("s2", nil)
		q.then("", func(c *call) { c.answer(`{"content":[{"type":"text","text":"refunded"}]}`) })
		c.say(jsonrpc.Result(m.ID, []byte(`{"of":"`+want+`"}`)))
	}
	pending.reply().require(gateway.Completed, "was_replay", "false", "attempt", "1")
	sent := q.params()
	require.Len(t, sent, 4)
	assert.Contains(t, sent[1], `"inputResponses":{"confirm":{"action":"accept","content":{ "n":1.0 }}}`)
	assert.Contains(t, sent[1], `"requestState":"s1"`)
	assert.Contains(t, sent[3], `"inputResponses":{"b":{"of":"roots/list"},"a":{"of":"sampling/createMessage"}}`)
	assert.NotContains(t, sent[3], "requestState", "none came")
	assert.Equal(t, 1, r.server.effects())
	c.call("refund", refundA1).require(gateway.Completed, "was_replay", "true")
}

// The operation waits: a client that can answer, on whatever gateway, is asked when it
// makes the call.
func TestAClientThatCannotAnswerIsToldSo(t *testing.T) {
	t.Parallel()
	r := newRig(t, refundTool, nil)
	q := asksFirst(r.server, 1, nil)
	for range 2 {
		told := r.call("refund", refundA1).require(gateway.Accepted, "reason", "input_required", "effect", "unknown", "next.action", "ask_human")
		assert.Regexp(t, `^ACCEPTED: the tool's server needs input before it goes on \(op_\w+\), and it was not given: this client does not answer elicitation/create\. Tell the user`, told.line())
		assert.Contains(t, told.text, "The tool's server said: Refund 1 dollars?")
		assert.Empty(t, told.member("isError"))
	}
	status := r.call(gateway.StatusTool, `{"tool":"refund","idempotency_key":"refund:A1:1"}`).require(gateway.Accepted, "reason", "input_required", "next.action", "retry_same_key")
	assert.Regexp(t, `^ACCEPTED: the call of \S+Z \(op_\w+\) waits for input until \S+Z\. Repeat the call`, status.line())
	for _, others := range []string{`{"order":"B2","idempotency_key":"refund:A1:1"}`, `{"order":"A1","idempotency_key":"refund:A1:2"}`} {
		refused := r.call("refund", others).require(gateway.RejectedDuplicate, "effect", "unknown")
		assert.Contains(t, refused.line(), "waits for input")
	}
	c := r.interviewee(`{"elicitation":{}}`)
	pending := c.start("refund", refundA1, "")
	c.say(jsonrpc.Result(c.asked().ID, []byte(`{"action":"accept"}`)))
	pending.reply().require(gateway.Completed, "was_replay", "false")
	assert.Len(t, q.params(), 2)
	assert.Equal(t, 1, r.server.effects())
}

func TestAClientThatCanAnswerOnlyAHalfIsAskedForNothing(t *testing.T) {
	t.Parallel()
	r := prepare(t, refundTool, nil)
	r.server.on("refund", func(c *call) {
		c.ask(`{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"Really?"}},"b":{"method":"roots/list"}}}`)
	})
	c := r.interviewee(`{"elicitation":{}}`)
	assert.Contains(t, line(c.call("refund", refundA1).require(gateway.Accepted)), "this client does not answer roots/list")
	for _, m := range c.close() {
		assert.False(t, m.IsRequest(), "%s", m.Raw())
	}
}

// What cannot reach the upstream is not lost: the question stands.
func TestAnswersToAnUpstreamThatRefusesThemAreAskedForAgain(t *testing.T) {
	t.Parallel()
	r := prepare(t, refundTool, nil)
	q := asksFirst(r.server, 1, map[string]func(*call){"s1": func(c *call) { c.refuse(-32602, "invalid params: content does not fit") }})
	c := r.interviewee(`{"elicitation":{}}`)
	for i := range 2 {
		pending := c.start("refund", refundA1, "")
		c.say(jsonrpc.Result(c.asked().ID, []byte(`{"action":"accept"}`)))
		if i == 0 {
			told := pending.reply().require(gateway.Accepted, "reason", "refused", "effect", "unknown", "next.action", "retry_same_key")
			assert.Regexp(t, `^ACCEPTED \(refused\): the tool's server refused the input before using it \(op_\w+\)\. The call waits`, told.line())
			assert.Contains(t, told.text, "content does not fit")
			q.then("s1", nil)
			continue
		}
		pending.reply().require(gateway.Completed, "was_replay", "false")
	}
	assert.Equal(t, 1, r.server.effects())
}

func TestAnAnswerThatIsAnErrorLeavesTheQuestion(t *testing.T) {
	t.Parallel()
	r := prepare(t, refundTool, nil)
	q := asksFirst(r.server, 1, nil)
	c := r.interviewee(`{"elicitation":{}}`)
	pending := c.start("refund", refundA1, "")
	c.say(jsonrpc.ErrorReply(c.asked().ID, &jsonrpc.Error{Code: -1, Message: "nobody\nis here."}))
	assert.Regexp(t, `it was not given: nobody is here\. \(JSON-RPC error -1\)\. Tell the user`, line(pending.reply().require(gateway.Accepted)))
	pending = c.start("refund", refundA1, "")
	c.say(jsonrpc.Result(c.asked().ID, []byte(`{"action":"accept"}`)))
	pending.reply().require(gateway.Completed)
	assert.Len(t, q.params(), 2)
}

func TestAClientIsNotAskedForEver(t *testing.T) {
	t.Parallel()
	r := prepare(t, refundTool, nil)
	q := asksFirst(r.server, gateway.MaxInputRounds+1, nil)
	c := r.interviewee(`{"elicitation":{}}`)
	pending := c.start("refund", refundA1, "")
	for range gateway.MaxInputRounds {
		c.say(jsonrpc.Result(c.asked().ID, []byte(`{"action":"accept"}`)))
	}
	assert.Contains(t, line(pending.reply().require(gateway.Accepted)), "it has asked too often")
	assert.Len(t, q.params(), gateway.MaxInputRounds+1)
	assert.Zero(t, r.server.effects())
}

func TestAnUpstreamThatIsBusyIsNotCalledAgainByTheGateway(t *testing.T) {
	t.Parallel()
	r := newRig(t, refundTool, nil)
	r.server.on("refund", func(c *call) { c.ask(`{"resultType":"input_required","requestState":"later"}`) })
	assert.Contains(t, line(r.call("refund", refundA1).require(gateway.Accepted)), "it asks for nothing but to be called again")
	assert.Len(t, r.server.received(), 1)
}

// A question to a client that has left, or that wants the call no more, is over; the
// operation waits.
func TestAClientThatLeavesWhileItIsAskedLeavesTheQuestion(t *testing.T) {
	t.Parallel()
	r := prepare(t, refundTool, nil)
	asksFirst(r.server, 1, nil)
	c := r.interviewee(`{"elicitation":{}}`)
	pending := c.start("refund", refundA1, "")
	question := c.asked()
	pending.cancel()
	over := receive(t, c.others, "the end of the question")
	assert.Equal(t, "notifications/cancelled", over.Method)
	assert.Contains(t, string(over.Params), `"requestId":`+string(question.ID))
	c.say(jsonrpc.Result(question.ID, []byte(`{"action":"accept"}`))) // nobody waits for it any more
	pending.requireUnanswered()

	c.start("refund", refundA1, "")
	c.asked()
	c.close() // which waits for all that runs
	assert.Equal(t, dedup.AwaitingInput, r.only().State)
	assert.Zero(t, r.server.effects())
}

// Over HTTP, too, the question goes to the client that has made the call.
func TestAClientOfASessionIsAskedOnTheStreamOfItsCall(t *testing.T) {
	t.Parallel()
	w := newWeb(t, refundTool, nil)
	asksFirst(w.server, 1, nil)
	a := w.send(post(strings.Replace(initialize, `"capabilities":{}`, `"capabilities":{"elicitation":{}}`, 1)))
	session := []string{"Mcp-Session-Id", a.header.Get("Mcp-Session-Id"), "MCP-Protocol-Version", "2025-06-18"}
	w.send(post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, session...))
	stranger := w.enter()
	stream := w.open(post(calling("7", "refund", refundA1), session...))
	question := receive(t, stream.events, "the question")
	assert.Equal(t, "elicitation/create", question.Method)
	response := string(jsonrpc.Result(question.ID, []byte(`{"action":"accept"}`)).Raw())
	w.send(post(response, stranger...)) // it was not asked
	assert.Zero(t, w.server.effects())
	w.send(post(response, session...))
	answer := receive(t, stream.events, "the answer")
	assert.JSONEq(t, "7", string(answer.ID))
	assert.Contains(t, string(answer.Result), "refunded")
	assert.Equal(t, 1, w.server.effects())
}
