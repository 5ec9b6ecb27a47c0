package gateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"slices"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// The members by which an upstream asks for input before it goes on with a call, and
// those of the call that answers (2026-07-28, basic/patterns/mrtr).
const (
	requestsMember  = "inputRequests"
	responsesMember = "inputResponses"
	stateMember     = "requestState"
)

// MaxInputRounds is how many questions in a row a client is asked within one call, by
// the gateway in the upstream's place.
const MaxInputRounds = 10

// An input is what a call says to a question of its upstream's, as it is written.
type input struct {
	responses []byte // nil: there are none
	state     []byte // nil: there is none
}

// inputOf reads what a call's params say to a question, or nil.
func inputOf(params []byte) *input {
	if !bytes.Contains(params, []byte(responsesMember)) && !bytes.Contains(params, []byte(stateMember)) && !bytes.Contains(params, []byte(`\u`)) {
		return nil
	}
	o, err := rawjson.ParseObject(params)
	if err != nil {
		return nil
	}
	in := input{responses: given(o, responsesMember), state: given(o, stateMember)}
	if in.responses == nil && in.state == nil {
		return nil
	}
	return &in
}

// given is a member, or nil where there is nothing in it. Public SDKs leave an empty
// state out.
func given(o rawjson.Object, name string) []byte {
	value, _ := o.Get(name)
	switch string(value) {
	case "", "null", `""`:
		return nil
	}
	return value
}

// continuation is what the ledger is asked of an input. Whoever answers once more may
// spell the state otherwise.
func (in *input) continuation() *dedup.Continuation {
	if in == nil {
		return nil
	}
	return &dedup.Continuation{State: digestState(in.state), Answers: sha256.Sum256(in.responses)}
}

// into returns a call's params with the input in them.
func (in *input) into(params []byte) []byte {
	if in == nil {
		return params
	}
	for name, value := range map[string][]byte{responsesMember: in.responses, stateMember: in.state} {
		if o, err := rawjson.ParseObject(params); err == nil && value != nil {
			params = o.Set(name, value)
		}
	}
	return params
}

func digestState(state []byte) dedup.Digest {
	if state == nil {
		return dedup.Digest{}
	}
	if text, ok := rawjson.Unquote(state); ok {
		state = []byte(text)
	}
	return sha256.Sum256(state)
}

// questionOf is an upstream's question as it is recorded.
func (g *Gateway) questionOf(result []byte) dedup.Question {
	q := dedup.Question{Body: result, Bare: true, Within: g.options.InputWindow}
	o, err := rawjson.ParseObject(result)
	if err != nil {
		return q
	}
	q.State = digestState(given(o, stateMember))
	requests, _ := o.Get(requestsMember)
	if asked, err := rawjson.ParseObject(requests); err == nil {
		q.Bare = len(asked.Members()) == 0
	}
	return q
}

// goesOn puts a question that the call was answered with to a client which cannot be
// handed one, since its revision knows none, and reports whether the call goes on with
// what the client has answered.
func (j *journey) goesOn(ctx context.Context) bool {
	question := j.told.question
	if question == nil || j.from.era == modern {
		return false
	}
	if j.rounds++; j.rounds > MaxInputRounds {
		j.told = j.told.unanswered("it has asked too often", question)
		return false
	}
	answer, err := j.interview(ctx, question)
	if err != nil {
		j.told = j.told.unanswered(err.Error(), question)
		return false
	}
	j.input, j.asked.Continues, j.told = answer, answer.continuation(), told{}
	j.wait.stop()
	j.wait = nil // a person has taken time, and that is nobody's fault
	return true
}

// interview makes each request of a question a request to the client, one after the
// other, as a person would want it, and waits for the answers as long as the caller
// does.
func (j *journey) interview(ctx context.Context, question []byte) (*input, error) {
	o, err := rawjson.ParseObject(question)
	if err != nil {
		return nil, err
	}
	in := &input{state: given(o, stateMember)}
	requests, _ := o.Get(requestsMember)
	asked, err := rawjson.ParseObject(requests)
	if err != nil || len(asked.Members()) == 0 {
		return nil, errNothingAsked
	}
	if err := j.from.canBeAsked(asked); err != nil {
		return nil, err
	}
	for _, request := range asked.Members() {
		answer, err := j.from.inquire(ctx, request.Value)
		if err != nil {
			return nil, err
		}
		in.responses = slices.Concat(in.responses, []byte(","), rawjson.Quote(request.Name), []byte(":"), answer)
	}
	in.responses = append(in.responses, '}')
	in.responses[0] = '{'
	return in, nil
}

// canBeAsked says why the client cannot be asked for all that a question asks for. A
// person who has answered a half in vain would not do so again.
func (x *Exchange) canBeAsked(requests rawjson.Object) error {
	for _, request := range requests.Members() {
		o, err := rawjson.ParseObject(request.Value)
		if err != nil {
			return err
		}
		if method, _ := o.String("method"); x.ask == nil || !x.canAnswer(method) {
			return &cannotAnswerError{method}
		}
	}
	return nil
}

// inquire has the client answer one request of an upstream's, and returns the result.
func (x *Exchange) inquire(ctx context.Context, request []byte) ([]byte, error) {
	o, err := rawjson.ParseObject(request)
	if err != nil {
		return nil, err
	}
	method, _ := o.String("method")
	params, _ := o.Get("params")
	answer, err := x.ask(ctx, x, jsonrpc.Request([]byte(`0`), method, params))
	if err != nil {
		return nil, err
	}
	if problem, ok := jsonrpc.ParseError(answer.Error); ok {
		return nil, problem
	}
	return answer.Result, nil
}

// passes reports whether a call that the ledger has nothing to say about is handed on
// as it is: its tool needs no key. One that goes on with an operation is not.
func (j *journey) passes() bool {
	return !j.tool.Keyed() && (j.input == nil || j.unrecorded)
}
