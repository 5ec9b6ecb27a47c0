package gateway

import (
	"encoding/json"
	"errors"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/toolschema"
)

// ask makes of the call what the ledger is asked: key, scope, fingerprint and
// policy. It fails where the call has no usable key.
func (j *journey) ask() bool {
	scope := j.g.scope(j.from, j.call.Name)
	j.settings = j.g.options.settingsOf(j.call.Name)
	if j.bad != nil {
		j.g.ledger.Refused(scope)
		return j.refuse(tellRefused(dedup.Reason(j.bad.Reason), j.bad.Message, "Repeat the call with this mended."))
	}
	key, refusal := j.key()
	if refusal != nil {
		j.g.ledger.Refused(scope)
		return j.refuse(*refusal)
	}
	fingerprint, err := j.call.Fingerprint(j.tool)
	if err != nil {
		return j.refuse(tellRefused(dedup.Reason(toolschema.ReasonArguments), "the arguments cannot be compared with those of a retry: "+err.Error(), "Repeat the call with mended arguments."))
	}
	repeat, err := j.repeatOf()
	if j.obstacle != nil {
		repeat, err = dedup.OperationID{}, nil
	}
	if err != nil {
		return j.refuse(tellRefused(dedup.ReasonRepeatUnknown, "idempotency_repeat_of: "+err.Error(), "Repeat the call with the operation id that the refusal gave, or with it left out or empty."))
	}
	downstream := j.call.Downstream(j.tool)
	j.input = inputOf(j.request.Params)
	j.asked = dedup.Request{
		Scope: scope, Key: key, Fingerprint: dedup.Digest(fingerprint), FingerprintVersion: toolschema.FingerprintVersion,
		Class: string(j.tool.Class), ClassBySaid: j.tool.ByOperator, OnUnknown: j.g.onUnknown(j.tool, downstream), Downstream: downstream,
		Window: j.tool.Window, Near: j.near(), RepeatOf: repeat, Continues: j.input.continuation(),
		Provenance: j.provenance(),
	}
	return true
}

// refuse ends the journey: the call cannot run as it stands, or not at all.
func (j *journey) refuse(t told) bool {
	if !j.hindered() {
		j.told = t
	}
	return false
}

// scope is where a caller's keys of a tool live.
func (g *Gateway) scope(from *Exchange, tool string) dedup.Scope {
	scope := g.options.Scope
	scope.Namespace, scope.Tool = g.namespace(from), tool
	return scope
}

// namespace is whose keys a caller's are: the principal's, where there is one.
func (g *Gateway) namespace(from *Exchange) string {
	if from.namespace != "" {
		return from.namespace
	}
	return g.options.Scope.Namespace
}

// key is the call's key, from the carriers that the policy allows.
func (j *journey) key() (dedup.Key, *told) {
	text := j.call.Key
	j.carrier = j.call.Source
	switch {
	case j.fromHarnessOnly() && j.call.Source != toolschema.KeyHarness:
		t := tellRefused(dedup.KeyRequired, "keys of this tool are taken from the harness only, and the call carries none", "The program that makes the call must send a key in its _meta.")
		if _, err := dedup.ParseKey(text, j.call.Name); err != nil {
			return dedup.Key{}, &t
		}
		if j.obstacle == nil { // it may have been taken from the model at another time
			j.obstacle = &obstacle{told: t}
		}
	case j.g.options.Keys == KeysModel && j.call.Source == toolschema.KeyHarness:
		text, j.carrier = j.call.ModelKey, toolschema.KeyModel
	}
	j.keyText = text
	key, err := dedup.ParseKey(text, j.call.Name)
	var bad *dedup.KeyError
	if errors.As(err, &bad) {
		t := tellKey(bad)
		return dedup.Key{}, &t
	}
	return key, nil
}

// fromHarnessOnly reports whether a model's argument is no key here.
func (j *journey) fromHarnessOnly() bool {
	return j.g.options.Keys == KeysHarness || j.tool.Problem != "" && j.g.options.Policy.OnProblem == toolschema.OnProblemHarness
}

func (j *journey) repeatOf() (dedup.OperationID, error) {
	if j.call.RepeatOf == "" {
		return dedup.OperationID{}, nil
	}
	return dedup.ParseOperationID(j.call.RepeatOf)
}

// onUnknown is what the tool's class allows of an operation of which nobody knows.
// DEDUPLICATE is worth something only where a key is handed on.
func (g *Gateway) onUnknown(tool toolschema.Tool, downstream string) dedup.OnUnknown {
	switch {
	case tool.Class == toolschema.ClassSafeRetry:
		return dedup.OnUnknown{RunAgain: true}
	case tool.Class == toolschema.ClassDeduplicate && downstream != "":
		return dedup.OnUnknown{ResendWithin: g.options.settingsOf(tool.Name).upstreamWindow}
	}
	return dedup.OnUnknown{}
}

// near is the tool's near-duplicate policy. A harness counts its own steps, so
// its calls are never taken for one another's repetition. A person cannot be asked
// here, so ask refuses as confirm does.
func (j *journey) near() dedup.Near {
	if j.obstacle != nil { // it is only asked what became of the key
		return dedup.Near{}
	}
	mode := map[toolschema.NearDuplicate]dedup.NearMode{
		toolschema.NearDuplicateWarn:    dedup.NearWarn,
		toolschema.NearDuplicateConfirm: dedup.NearConfirm,
		toolschema.NearDuplicateAsk:     dedup.NearConfirm,
	}[j.tool.NearDuplicate]
	if j.carrier == toolschema.KeyHarness {
		mode = dedup.NearOff
	}
	return dedup.Near{Mode: mode, Within: j.g.options.NearDuplicate}
}

// maxProvenanceBytes bounds each thing that a client says of itself.
const maxProvenanceBytes = 128

func short(value []byte) []byte {
	if len(value) > maxProvenanceBytes {
		return nil
	}
	return value
}

// provenance is kept beside the operation, for people who look into it. It is
// never part of the key's scope: all of it changes with a reconnect.
func (j *journey) provenance() []byte {
	p, err := json.Marshal(struct {
		Session   string          `json:"session,omitempty"`
		Client    string          `json:"client,omitempty"`
		RequestID json.RawMessage `json:"request_id,omitempty"`
		Carrier   string          `json:"carrier"`
	}{j.from.session, j.from.clientName(), short(j.request.ID), string(j.carrier)})
	if err != nil {
		return nil
	}
	return p
}
