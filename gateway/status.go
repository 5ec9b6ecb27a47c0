package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
	"github.com/mcp-idem/mcp-idem/toolschema"
)

// StatusTool is the name of the gateway's own tool.
const StatusTool = "idempotency_status"

func (g *Gateway) statusTool() string { return g.options.Policy.StatusTool }

// statusDefinition is the tool as it is listed.
func statusDefinition(name string) []byte {
	definition, err := json.Marshal(map[string]any{
		"name": name,
		"description": "Tells what became of an earlier call that had an idempotency_key: whether it was executed, is still running, or is unknown. " +
			"Give operation_id, or tool and idempotency_key. It executes nothing.",
		"inputSchema": map[string]any{
			"type": "object",
			"properties": map[string]any{
				"operation_id":    map[string]any{"type": "string", "description": "The operation_id of an earlier outcome, op_…"},
				"tool":            map[string]any{"type": "string", "description": "The tool that was called; goes with idempotency_key"},
				"idempotency_key": map[string]any{"type": "string", "description": "The key that the call had; goes with tool"},
				"arguments":       map[string]any{"type": "object", "description": "The arguments of the call, without the key: with them the recorded result is shown to a new session too"},
			},
		},
		"annotations": map[string]any{"title": "Status of an earlier call", "readOnlyHint": true, "openWorldHint": false},
	})
	if err != nil {
		panic("gateway: the status tool is made of plain values: " + err.Error())
	}
	return definition
}

// asksForStatus reports whether the call is for the gateway's own tool.
func (j *journey) asksForStatus() bool {
	return j.call.Name == j.g.statusTool() && j.g.tools.known(j.call.Name).Name == "" && !j.g.isOneOfSeveral()
}

// Status answers a call of the gateway's own tool, under whatever name.
func (g *Gateway) Status(ctx context.Context, x *Exchange, request jsonrpc.Message) jsonrpc.Message {
	j := g.begin(x, request)
	defer j.end()
	if !j.parse() {
		return j.reply()
	}
	return j.status(ctx)
}

// statusQuestion is what idempotency_status is asked.
type statusQuestion struct {
	OperationID string          `json:"operation_id"`
	Tool        string          `json:"tool"`
	Key         string          `json:"idempotency_key"`
	Arguments   json.RawMessage `json:"arguments"`
}

// status answers from the ledger. It is an error only where it cannot answer.
func (j *journey) status(ctx context.Context) jsonrpc.Message {
	question, err := readStatusQuestion(j.request.Params)
	question.Tool = strings.TrimPrefix(question.Tool, j.g.options.Policy.Prefix)
	if err != nil {
		j.told = tellRefused(dedup.Reason(toolschema.ReasonArguments), err.Error(), `Give {"operation_id":"op_…"}, or {"tool":"…","idempotency_key":"…"}.`)
		return j.reply()
	}
	e, here, err := j.g.statusEntry(ctx, j.from, question)
	switch {
	case errors.Is(err, dedup.ErrNotFound):
		j.told = j.g.tellNotFound()
	case err != nil:
		j.ledgerFailed(ctx, err)
	case !here:
		j.told = j.g.tellConflict(dedup.Conflict{Entry: e, Reason: dedup.ReasonScopeChanged})
		j.told.notError = true
	default:
		j.told = j.g.tellStatus(e)
		if j.mayRead(e, question) {
			return jsonrpc.Result(j.request.ID, withRecorded(j.told.bytes(j.tool), e.Result))
		}
	}
	return j.reply()
}

func readStatusQuestion(params []byte) (q statusQuestion, err error) {
	o, err := rawjson.ParseObject(params)
	if err != nil {
		return q, err
	}
	arguments, _ := o.Get("arguments")
	if err := json.Unmarshal(arguments, &q); err != nil {
		return q, errors.New("the arguments cannot be read")
	}
	if q.OperationID == "" && (q.Tool == "" || q.Key == "") {
		return q, errors.New("the arguments name no operation")
	}
	return q, nil
}

// statusEntry finds the operation within the caller's namespace. here is false for
// the operation of the same key under another upstream or account.
func (g *Gateway) statusEntry(ctx context.Context, from *Exchange, q statusQuestion) (e dedup.Entry, here bool, err error) {
	if q.OperationID != "" {
		id, err := dedup.ParseOperationID(q.OperationID)
		if err != nil {
			return e, false, dedup.ErrNotFound
		}
		e, err = g.ledger.Operation(ctx, g.namespace(from), id)
		return e, true, err
	}
	key, err := dedup.ParseKey(q.Key, q.Tool)
	if err != nil {
		return e, false, dedup.ErrNotFound // such a key has no operation
	}
	return g.ledger.OperationOf(ctx, g.scope(from, q.Tool), key)
}

// isOf reports whether a scope is the gateway's, whoever the caller is.
func (g *Gateway) isOf(s dedup.Scope) bool {
	return s.Upstream == g.options.Scope.Upstream && s.Account == g.options.Scope.Account
}

// mayRead reports whether the caller has shown that the operation is its own: a
// key can be guessed, and must not open another session's answer.
func (j *journey) mayRead(e dedup.Entry, q statusQuestion) bool {
	if e.State != dedup.Completed || e.Kept != dedup.KeptWhole {
		return false
	}
	if j.from.isOwner(e.ID) {
		return true
	}
	if q.Arguments == nil || e.FingerprintVersion != toolschema.FingerprintVersion {
		return false
	}
	call, err := toolschema.ParseCall(fmt.Appendf(nil, `{"name":%s,"arguments":%s}`, rawjson.Quote(e.Scope.Tool), q.Arguments))
	if err != nil {
		return false
	}
	fingerprint, err := call.Fingerprint(j.g.tools.known(e.Scope.Tool))
	return err == nil && dedup.Digest(fingerprint) == e.Fingerprint
}

// tellStatus says how an operation stands.
func (g *Gateway) tellStatus(e dedup.Entry) told {
	t := told{}
	at := fmt.Sprintf("%s (%s)", when(e.ClaimedAt), e.ID)
	switch {
	case e.State == dedup.Completed && e.Reason == reasonTask && e.TaskStatus != "":
		t.text, t.outcome = "COMPLETED: the call was accepted as a task on "+at+", which has "+endedAs(e.TaskStatus)+" since.", taskOutcome(e)
	case e.State == dedup.Completed && e.Reason == reasonTask:
		t.text, t.outcome = "ACCEPTED: the call was accepted as a task on "+at+".", taskOutcome(e)
	case e.State == dedup.AwaitingInput:
		t = tellWaiting(e)
	case e.State == dedup.Completed && e.IsError:
		t.text, t.outcome = "COMPLETED (error): the call was answered with an error on "+at+".", answeredError(e)
	case e.State == dedup.Completed:
		t.text, t.outcome = "COMPLETED: the call was executed on "+at+".", completed(e)
	case e.State == dedup.Unknown:
		t = g.tellUnknown(e, g.mayRunAgain(e))
	case e.State == dedup.Released:
		advice := "The key is free: the call may be sent again with it."
		t.text = "FAILED_BEFORE_INPUT: the call of " + at + " was not executed. " + advice
		t.outcome = outcomeOf(e, FailedBeforeInput, effectNotExecuted).next(actRetrySameKey, 0, advice)
	default:
		t = tellRunning(e)
	}
	t.notError = true
	return t
}

// mayRunAgain reports whether an unknown operation's class, or the operator's word
// since, lets the same key be sent once more.
func (g *Gateway) mayRunAgain(e dedup.Entry) bool {
	tool := g.tools.known(e.Scope.Tool)
	return (tool.ByOperator || string(tool.Class) == e.Class) && g.onUnknown(tool, e.Downstream) != dedup.OnUnknown{}
}

// tellNotFound: the ledger has no such operation. That is no proof that nothing was
// executed: there was a time before the ledger, and there are other namespaces, and
// calls that are not recorded.
func (g *Gateway) tellNotFound() told {
	since := g.ledger.Since()
	advice := "A keyed call that this gateway has sent for you since then would be on record; of others it knows nothing."
	return told{
		text:     fmt.Sprintf("NOT_FOUND: the ledger has no record of such a call since %s. %s", when(since), advice),
		outcome:  noRecord(since).next(actNone, 0, advice),
		notError: true,
	}
}

// withRecorded adds the recorded result to an answer of the status tool.
func withRecorded(answer, recorded []byte) []byte {
	answer = appendText(answer, "The recorded result: "+string(recorded))
	o, err := rawjson.ParseObject(answer)
	if err != nil {
		return answer
	}
	structured, _ := o.Get("structuredContent")
	inner, err := rawjson.ParseObject(structured)
	if err != nil {
		return answer
	}
	return o.Set("structuredContent", inner.Set("result", recorded))
}

// resultID is what the recorded result of an earlier call says of what it made,
// for a person to recognise it.
func (g *Gateway) resultID(ctx context.Context, from *Exchange, e dedup.Entry) string {
	if e.State != dedup.Completed || e.Kept != dedup.KeptWhole {
		return ""
	}
	e, err := g.ledger.Operation(ctx, g.namespace(from), e.ID)
	if err != nil {
		return ""
	}
	result, err := rawjson.ParseObject(e.Result)
	if err != nil {
		return ""
	}
	structured, _ := result.Get("structuredContent")
	content, err := rawjson.ParseObject(structured)
	if err != nil {
		return ""
	}
	id, _ := content.Get("id")
	const longest = 80
	if len(id) > longest || len(id) == 0 || id[0] == '{' || id[0] == '[' || string(id) == "null" {
		return ""
	}
	return string(id)
}
