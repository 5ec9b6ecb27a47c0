package toolschema

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// Where a harness, a program that runs a model, puts the key of a call.
const (
	metaKey    = "mcp-idem/key"   // in _meta: the key
	metaRun    = "mcp-idem/run"   // in _meta: the run that the key is derived from,
	metaStep   = "mcp-idem/step"  // and the step within the run
	paramsKey  = "idempotencyKey" // beside name and arguments: the key
	metaMember = "_meta"
)

// KeySource says who chose a call's key.
type KeySource string

// The sources of keys. The zero value means that there is no key.
const (
	KeyNone    KeySource = ""
	KeyHarness KeySource = "harness"
	KeyModel   KeySource = "model"
)

// A CallReason says in one word what is wrong with a call.
type CallReason string

// The reasons. Of a call refused for a reason other than ReasonParams and
// ReasonArguments only the key is wrong.
const (
	ReasonParams        CallReason = "invalid_params"
	ReasonArguments     CallReason = "invalid_arguments"
	ReasonKeyInvalid    CallReason = "key_invalid"
	ReasonKeyConflict   CallReason = "key_conflict"
	ReasonRepeatUnknown CallReason = "repeat_unknown"
)

// A CallError says that a call cannot be understood. Message is one line for
// the caller; it never contains a key or an argument's value.
type CallError struct {
	Reason  CallReason
	Message string
}

func (e *CallError) Error() string { return string(e.Reason) + ": " + e.Message }

// A Call is what the params of a tools/call request say.
type Call struct {
	Name string
	// Key is the harness's where it sent one, else the model's, else "".
	Key    string
	Source KeySource
	// ModelKey is what the model's argument said where a harness's key won.
	ModelKey string
	// RepeatOf is the operation that the caller knowingly repeats, or "".
	RepeatOf string
	// ProgressToken is _meta.progressToken as written, or nil.
	ProgressToken []byte

	raw       []byte
	params    *rawjson.Value
	meta      *rawjson.Value // nil where there is none
	arguments *rawjson.Value // nil where there are none
}

// levels are how deep the params are read: what is in the arguments is the tool's.
const levels = 2

// ParseCall reads the params of a tools/call request. Its errors are of type
// *CallError. beside are the harness's keys that came with the request and not in
// it, as those of an HTTP header do.
//
// With an error the Call has the name, where there is one. Where the reason is
// about the key or the repeat member only, the Call is complete but for these,
// and Forward works, so that a tool that needs no key can be called all the
// same. Repeated member names inside nested arguments are found by Fingerprint.
func ParseCall(params []byte, beside ...string) (Call, error) {
	c := Call{raw: params}
	var err error
	if c.params, err = rawjson.ParseTo(params, levels); err == nil {
		err = isObject(c.params)
	}
	if err != nil {
		return c, &CallError{ReasonParams, "params of tools/call: " + err.Error()}
	}
	if c.Name, _ = c.params.Get("name").Text(); c.Name == "" {
		return c, &CallError{ReasonParams, "params of tools/call have no name"}
	}
	if c.arguments = c.params.Get("arguments"); c.arguments != nil {
		if err := isObject(c.arguments); err != nil {
			return c, &CallError{ReasonArguments, "arguments: " + err.Error()}
		}
	}
	if c.meta = c.params.Get(metaMember); c.meta.Is("null") {
		c.meta = nil
	}
	if c.meta != nil {
		if err := isObject(c.meta); err != nil {
			return c, &CallError{ReasonParams, "_meta: " + err.Error()}
		}
		if token := c.meta.Get("progressToken"); token != nil {
			c.ProgressToken = token.Raw()
		}
	}
	return c, c.parseKeys(beside)
}

// isObject says why a value is no object whose members have names of their own.
func isObject(v *rawjson.Value) error {
	if !v.IsObject() {
		return rawjson.ErrNotObject
	}
	if name, ok := v.Repeated(); ok {
		return &rawjson.DuplicateError{Name: name}
	}
	return nil
}

func (c *Call) parseKeys(beside []string) error {
	harness, err := c.harnessKey(beside)
	if err != nil {
		return err
	}
	model, err := optionalString(c.arguments, KeyProperty, ReasonKeyInvalid)
	if err != nil && harness == "" {
		return err // else it is a member of the tool's own, or no matter
	}
	switch {
	case harness != "":
		c.Key, c.Source, c.ModelKey = harness, KeyHarness, model
	case model != "":
		c.Key, c.Source = model, KeyModel
	}
	c.RepeatOf, err = optionalString(c.arguments, RepeatProperty, ReasonRepeatUnknown)
	return err
}

// harnessKey returns the one key that the harness's carriers agree on, "" where
// there are none.
func (c *Call) harnessKey(beside []string) (string, error) {
	meta, err := carried(c.meta, metaKey)
	if err != nil {
		return "", err
	}
	params, err := carried(c.params, paramsKey)
	if err != nil {
		return "", err
	}
	derived, err := c.runKey()
	if err != nil {
		return "", err
	}
	var key string
	if slices.Contains(beside, "") {
		return "", &CallError{ReasonKeyInvalid, "the key that came beside the request is empty"}
	}
	for _, k := range append([]string{meta, params, derived}, beside...) {
		switch {
		case k == "" || k == key:
		case key == "":
			key = k
		default:
			return "", &CallError{ReasonKeyConflict, "the request carries two different idempotency keys"}
		}
	}
	return key, nil
}

// runKey derives a key from a run and a step in it, "" where there are none, so
// that a resumed run comes to the same key.
func (c *Call) runKey() (string, error) {
	run, err := carried(c.meta, metaRun)
	if err != nil {
		return "", err
	}
	step, err := carried(c.meta, metaStep)
	if err != nil {
		return "", err
	}
	if run == "" && step == "" {
		return "", nil
	}
	if run == "" || step == "" {
		return "", &CallError{ReasonKeyInvalid, fmt.Sprintf("_meta has only one of %q and %q", metaRun, metaStep)}
	}
	h := sha256.New()
	for _, part := range []string{run, step} {
		// With its length before each part no two pairs read the same.
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
	return "run:" + hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// carried returns a harness's member, "" where it is absent.
func carried(o *rawjson.Value, name string) (string, error) {
	value := o.Get(name)
	if value == nil {
		return "", nil
	}
	if text, ok := value.Text(); ok && text != "" {
		return text, nil
	}
	return "", &CallError{ReasonKeyInvalid, name + " is not a string, or an empty one"}
}

// optionalString returns a model's member. Models fill what they leave out with
// null or "", so these count as absent.
func optionalString(o *rawjson.Value, name string, reason CallReason) (string, error) {
	value := o.Get(name)
	if value == nil || value.Is("null") {
		return "", nil
	}
	text, ok := value.Text()
	if !ok {
		return "", &CallError{reason, name + " is not a string"}
	}
	return text, nil
}
