package gateway_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/gateway"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// confirm is a question as nobody writes it. The state that comes with it is "s" and
// its number.
func confirm(number int) string {
	return fmt.Sprintf(`{ "resultType":"input_required","inputRequests":{"confirm":{"method":"elicitation/create","params":{"message":"Refund %d dollars?","n":9007199254740993,"requestedSchema":{"type":"object"}}}}, "requestState":"s%d","x_more":[1 , 2]}`, number, number)
}

// An inquisitor is a tool that asks before it does what it should.
type inquisitor struct {
	questions int

	mu   sync.Mutex
	sent []string // params of the calls that came
	step map[string]func(*call)
}

// asksFirst has refund ask questions, one behind the other; steps says what it does in
// place of one, by the state of the call that comes to it.
func asksFirst(s *server, questions int, steps map[string]func(*call)) *inquisitor {
	q := &inquisitor{questions: questions, step: steps}
	s.on("refund", q.do)
	return q
}

func (q *inquisitor) do(c *call) {
	o, _ := rawjson.ParseObject(c.m.Params)
	state, _ := o.String("requestState")
	number := 0
	_, _ = fmt.Sscanf(state, "s%d", &number)
	q.mu.Lock()
	q.sent = append(q.sent, string(c.m.Params))
	do := q.step[state]
	q.mu.Unlock()
	switch {
	case do != nil:
		do(c)
	case number < q.questions:
		c.ask(confirm(number + 1))
	default:
		c.answer(`{"content":[{"type":"text","text":"refunded"}]}`)
	}
}

// ask answers with a question, in place of the effect.
func (c *call) ask(question string) {
	c.server.mu.Lock()
	c.server.refused++
	c.server.mu.Unlock()
	c.answer(question)
}

// params are those of the calls that came.
func (q *inquisitor) params() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.sent)
}

// then says what the tool does from now on with the calls of a state.
func (q *inquisitor) then(state string, do func(*call)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.step = map[string]func(*call){state: do}
}

// visit calls refund as a client of the modern era does; beside are members that stand
// beside the arguments.
func (w *web) visit(beside string) reply {
	w.t.Helper()
	a := w.send(visiting("tools/call", `"name":"refund","arguments":`+refundA1+beside, "refund"))
	m := a.message()
	require.Nil(w.t, m.Error, "%s", m.Error)
	r := reply{t: w.rig.server.t, message: m, result: object(w.rig.server.t, m.Result)}
	meta, _ := r.result.Get("_meta")
	r.raw, _ = object(r.t, meta).Get(gateway.OutcomeMember)
	r.outcome = object(r.t, r.raw)
	content, _ := r.result.Get("content")
	r.blocks, _ = rawjson.ParseArray(content)
	return r
}

// saying is what a client says to the question of a number.
func saying(number int, answer string) string {
	return fmt.Sprintf(`,"inputResponses":{"confirm":{"action":%q,"content":{ "n":1.0 }}},"requestState":"s%d"`, answer, number)
}

// requireQuestion makes sure that a reply is a question as the upstream has asked it.
func requireQuestion(r reply, number int, wasReplay string) {
	r.t.Helper()
	r.require(gateway.Accepted, "reason", "input_required", "effect", "unknown", "was_replay", wasReplay, "next.action", "retry_same_key")
	assert.Equal(r.t, confirm(number), string(r.result.Without("_meta")))
	assert.Empty(r.t, r.member("isError"))
}

func TestAModernClientIsHandedTheQuestionAndGoesOn(t *testing.T) {
	t.Parallel()
	w := newWeb(t, refundTool, nil)
	q := asksFirst(w.server, 2, nil)
	requireQuestion(w.visit(""), 1, "false")
	requireQuestion(w.visit(""), 1, "true")
	requireQuestion(w.visit(saying(1, "accept")), 2, "false")
	requireQuestion(w.visit(saying(1, "accept")), 2, "true")
	requireQuestion(w.visit(saying(1, "decline")), 2, "true") // the first answer counts
	requireQuestion(w.visit(""), 2, "true")
	assert.Zero(t, w.server.effects())
	w.visit(saying(2, "accept")).require(gateway.Completed, "was_replay", "false", "attempt", "1")
	w.visit(saying(2, "accept")).require(gateway.Completed, "was_replay", "true")
	w.visit("").require(gateway.Completed, "was_replay", "true")
	requireQuestion(w.visit(saying(1, "accept")), 2, "true")
	assert.Equal(t, 1, w.server.effects())
	sent := q.params()
	require.Len(t, sent, 3, "each round once")
	for number, params := range sent[1:] {
		assert.Contains(t, params, saying(number+1, "accept"), "handed on as it came")
		assert.NotContains(t, params, "idempotency_key")
	}
}

func TestAnAnswerToAQuestionThatWasNotAskedIsNotSent(t *testing.T) {
	t.Parallel()
	w := newWeb(t, refundTool, nil)
	asksFirst(w.server, 1, nil)
	for range 2 {
		stray := w.visit(saying(7, "accept")).require(gateway.FailedBeforeInput, "reason", "input_unknown", "effect", "not_executed", "next.action", "retry_same_key")
		assert.Equal(t, "true", stray.member("isError"))
		w.visit("").require(gateway.Accepted)
	}
	assert.Len(t, w.server.received(), 1)
}

// What was answered so was not used: the question stands, and is answered anew.
func TestAnAnswerThatTheUpstreamRefusesLeavesTheQuestion(t *testing.T) {
	t.Parallel()
	w := newWeb(t, refundTool, nil)
	q := asksFirst(w.server, 1, map[string]func(*call){"s1": func(c *call) { c.refuse(-32602, "invalid params: content does not fit") }})
	requireQuestion(w.visit(""), 1, "false")
	w.visit(saying(1, "perhaps")).require(gateway.Accepted, "reason", "refused", "effect", "unknown", "next.action", "retry_same_key")
	assert.Equal(t, dedup.AwaitingInput, w.only().State)
	requireQuestion(w.visit(""), 1, "true")
	q.then("s1", nil)
	w.visit(saying(1, "accept")).require(gateway.Completed, "was_replay", "false")
	assert.Equal(t, 1, w.server.effects())
}

func TestALostContinuationIsNotSentAgain(t *testing.T) {
	t.Parallel()
	w := newWeb(t, refundTool, nil)
	q := asksFirst(w.server, 1, map[string]func(*call){"s1": func(c *call) { c.server.die() }})
	requireQuestion(w.visit(""), 1, "false")
	for range 2 {
		w.visit(saying(1, "accept")).require(gateway.EffectUnknown, "next.action", "ask_human")
		w.visit("").require(gateway.EffectUnknown)
	}
	assert.Len(t, q.params(), 2)
}

func TestOneOfTwoContinuationsAtOnceIsSent(t *testing.T) {
	t.Parallel()
	w := newWeb(t, refundTool, nil)
	asksFirst(w.server, 1, map[string]func(*call){"s1": w.server.hold})
	requireQuestion(w.visit(""), 1, "false")
	var replays sync.Map
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			r := w.visit(saying(1, "accept")).require(gateway.Completed)
			replays.Store(r.says("was_replay"), true)
		})
	}
	held := w.server.next()
	for range 3 {
		receive(t, w.store.waits, "a caller that waits")
	}
	held.answer(`{"content":[]}`)
	callers.Wait()
	_, first := replays.Load("false")
	_, again := replays.Load("true")
	assert.True(t, first && again)
	assert.Equal(t, 1, w.server.effects())
}

func TestInputThatDoesNotComeInTimeIsUnknown(t *testing.T) {
	t.Parallel()
	w := newWeb(t, refundTool, nil)
	q := asksFirst(w.server, 1, nil)
	requireQuestion(w.visit(""), 1, "false")
	w.clock.Advance(time.Hour)
	unknown := w.visit(saying(1, "accept")).require(gateway.EffectUnknown, "reason", "input_expired", "next.action", "ask_human")
	assert.Contains(t, string(unknown.blocks[0]), "asked for input that did not come in time")
	assert.Len(t, q.params(), 1)
}

func TestAQuestionThatIsNotRecordedSaysSo(t *testing.T) {
	t.Parallel()
	w := newWeb(t, refundTool, nil)
	asksFirst(w.server, 1, nil)
	w.store.cue(move, fails(errDisk))
	w.visit("").require(gateway.Accepted, "reason", "input_required", "recorded", "false")
	w.store.cue(move, nil)
	w.becomes(dedup.AwaitingInput)
	requireQuestion(w.visit(""), 1, "true")
	w.visit(saying(1, "accept")).require(gateway.Completed, "recorded", "true")
	assert.Equal(t, 1, w.server.effects())
}

// Of a call that nobody records the answer to a question is none of the ledger's
// business either.
func TestUnkeyedQuestionsPassAsTheyAre(t *testing.T) {
	t.Parallel()
	w := newWeb(t, `[{"name":"get_order","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]`, nil)
	q := asksFirst(w.server, 1, nil)
	w.server.on("get_order", q.do)
	passes := func(beside string) string {
		m := w.send(visiting("tools/call", `"name":"get_order","arguments":`+refundA1+beside, "get_order")).message()
		require.NotNil(t, m.Result)
		return string(m.Result)
	}
	assert.Contains(t, passes(""), strings.TrimSuffix(confirm(1), "}"))
	assert.Contains(t, passes(saying(1, "accept")), `"refunded"`)
	assert.Contains(t, q.params()[1], saying(1, "accept"))
	assert.Empty(t, w.entries())
}
