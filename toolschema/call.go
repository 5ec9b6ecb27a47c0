package toolschema

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

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
	params    rawjson.Object
	meta      rawjson.Object // valid where hasMeta
	arguments rawjson.Object // of {} where there are none

	hasMeta, hasArguments bool
}

// ParseCall reads the params of a tools/call request. Its errors are of type
// *CallError.
//
// With an error the Call has the name, where there is one. Where the reason is
// about the key or the repeat member only, the Call is complete but for these,
// and Forward works, so that a tool that needs no key can be called all the
// same. Repeated member names inside nested arguments are found by Fingerprint.
func ParseCall(params []byte) (Call, error) {
	c := Call{raw: params}
	var err error
	if c.params, err = rawjson.ParseObject(params); err != nil {
		return c, &CallError{ReasonParams, "params of tools/call: " + err.Error()}
	}
	if c.Name, _ = c.params.String("name"); c.Name == "" {
		return c, &CallError{ReasonParams, "params of tools/call have no name"}
	}
	if err := c.parseArguments(); err != nil {
		return c, err
	}
	if err := c.parseMeta(); err != nil {
		return c, err
	}
	return c, c.parseKeys()
}

func (c *Call) parseArguments() error {
	var raw []byte
	if raw, c.hasArguments = c.params.Get("arguments"); !c.hasArguments {
		raw = []byte("{}")
	}
	var err error
	if c.arguments, err = rawjson.ParseObject(raw); err != nil {
		return &CallError{ReasonArguments, "arguments: " + err.Error()}
	}
	return nil
}

func (c *Call) parseMeta() error {
	raw, ok := c.params.Get(metaMember)
	if !ok || string(raw) == "null" {
		return nil
	}
	var err error
	if c.meta, err = rawjson.ParseObject(raw); err != nil {
		return &CallError{ReasonParams, "_meta: " + err.Error()}
	}
	c.hasMeta = true
	c.ProgressToken, _ = c.meta.Get("progressToken")
	return nil
}

func (c *Call) parseKeys() error {
	harness, err := c.harnessKey()
	if err != nil {
		return err
	}
	model, err := optionalString(c.arguments, KeyProperty, ReasonKeyInvalid)
	if err != nil {
		return err
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
func (c *Call) harnessKey() (string, error) {
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
	for _, k := range []string{meta, params, derived} {
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
func carried(o rawjson.Object, name string) (string, error) {
	if _, ok := o.Get(name); !ok {
		return "", nil
	}
	if text, ok := o.String(name); ok && text != "" {
		return text, nil
	}
	return "", &CallError{ReasonKeyInvalid, name + " is not a string, or an empty one"}
}

// optionalString returns a model's member. Models fill what they leave out with
// null or "", so these count as absent.
func optionalString(o rawjson.Object, name string, reason CallReason) (string, error) {
	value, ok := o.Get(name)
	if !ok || string(value) == "null" {
		return "", nil
	}
	text, ok := rawjson.Unquote(value)
	if !ok {
		return "", &CallError{reason, name + " is not a string"}
	}
	return text, nil
}

// Fingerprint condenses the arguments, less KeyProperty and RepeatProperty. It
// does not depend on white space, the order of members, escapes or the spelling
// of numbers; absent arguments equal {}. It fails with a *CallError on a member
// name repeated anywhere and on nesting beyond MaxDepth.
func (c Call) Fingerprint() (Fingerprint, error) {
	rest := []byte("{}")
	if c.hasArguments {
		rest = c.arguments.Without(KeyProperty, RepeatProperty)
	}
	canonical, err := appendCanonical(make([]byte, 0, len(rest)), rest)
	if err != nil {
		return Fingerprint{}, callError(err)
	}
	return sha256.Sum256(canonical), nil
}

func callError(err error) *CallError {
	if duplicate, ok := errors.AsType[*rawjson.DuplicateError](err); ok {
		return &CallError{ReasonArguments, "arguments: " + duplicate.Error()}
	}
	return &CallError{ReasonArguments, "arguments: " + err.Error()}
}

// Forward returns the params that go upstream: without the harness's carriers
// and the members that t's offered schema has and its own lacks, every other
// byte as it came. For a Native tool the value of its own KeyProperty becomes
// derived. The Call has to be one that ParseCall returned, with no error other
// than those about the key.
func (c Call) Forward(t Tool, derived string) []byte {
	out := c.raw
	if arguments, changed := c.forwardArguments(t, derived); changed {
		out = set(out, "arguments", arguments)
	}
	strip := []string{paramsKey}
	if c.hasMeta {
		kept := c.meta.Without(metaKey, metaRun, metaStep)
		had := len(c.meta.Members())
		switch left := len(parsed(kept).Members()); {
		case left == 0 && had > 0:
			strip = append(strip, metaMember)
		case left < had:
			out = set(out, metaMember, kept)
		}
	}
	return parsed(out).Without(strip...)
}

func (c Call) forwardArguments(t Tool, derived string) (arguments []byte, changed bool) {
	var strip []string
	if _, ok := c.arguments.Get(KeyProperty); ok && !t.ownsKey {
		strip = append(strip, KeyProperty)
	}
	if _, ok := c.arguments.Get(RepeatProperty); ok && !t.ownsRepeat {
		strip = append(strip, RepeatProperty)
	}
	if !t.Native && len(strip) == 0 {
		return nil, false
	}
	rest := c.arguments.Without(strip...)
	if t.Native {
		rest = set(rest, KeyProperty, rawjson.Quote(derived))
	}
	return rest, true
}

// parsed reads an object that this package has read before, or made by editing
// such a one, and that therefore is one.
func parsed(object []byte) rawjson.Object {
	o, err := rawjson.ParseObject(object)
	if err != nil {
		panic(fmt.Sprintf("toolschema: an edit broke an object: %v", err))
	}
	return o
}

func set(object []byte, name string, value []byte) []byte {
	return parsed(object).Set(name, value)
}
