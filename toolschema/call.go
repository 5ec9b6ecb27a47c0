package toolschema

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

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
// *CallError.
//
// With an error the Call has the name, where there is one. Where the reason is
// about the key or the repeat member only, the Call is complete but for these,
// and Forward works, so that a tool that needs no key can be called all the
// same. Repeated member names inside nested arguments are found by Fingerprint.
func ParseCall(params []byte) (Call, error) {
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
	return c, c.parseKeys()
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

// Fingerprint condenses the arguments, less KeyProperty, RepeatProperty and t's
// native keys. It does not depend on white space, the order of members, escapes
// or the spelling of numbers; absent arguments equal {}. It fails with a
// *CallError on a member name repeated anywhere and on nesting beyond MaxDepth.
func (c Call) Fingerprint(t Tool) (Fingerprint, error) {
	rest := []byte("{}")
	if c.arguments != nil {
		var edits rawjson.Edits
		ours := []string{KeyProperty, RepeatProperty}
		for top, inner := range c.withNatives(t, func(NativeKey) []byte { return nil }) {
			if inner == nil {
				ours = append(ours, top)
			} else if value := c.arguments.Get(top); value != nil {
				edits.Replace(value.Start, value.End, inner)
			}
		}
		edits.RemoveMembers(c.arguments, ours...)
		rest = edits.Apply(c.arguments)
	}
	canonical, err := appendCanonical(make([]byte, 0, len(rest)), rest)
	if err != nil {
		return Fingerprint{}, callError(err)
	}
	return sha256.Sum256(canonical), nil
}

// withNatives returns the members of the arguments in which t's native keys
// stand, with the values that they are to have, or without those that are to have
// none. What is nil is to go as a whole.
func (c Call) withNatives(t Tool, value func(NativeKey) []byte) map[string][]byte {
	members := map[string][]byte{}
	for _, n := range t.Natives {
		top := n.Path[0]
		inner, ok := members[top]
		if !ok && c.arguments.Get(top) != nil {
			inner = c.arguments.Get(top).Raw()
		}
		if len(n.Path) == 1 {
			members[top] = value(n)
		} else if inner, ok = fill(inner, n.Path[1:], value(n)); ok {
			members[top] = inner
		}
	}
	return members
}

// fill sets the member that the path leads to, or takes it out where value is
// nil. It fails where what it stands in is not there.
func fill(object []byte, path []string, value []byte) (filled []byte, ok bool) {
	o, err := rawjson.ParseObject(object)
	switch {
	case err != nil:
		return object, false
	case len(path) == 1 && value == nil:
		return o.Without(path[0]), true
	case len(path) == 1:
		return o.Set(path[0], value), true
	}
	inner, ok := o.Get(path[0])
	if !ok {
		return object, false
	}
	if inner, ok = fill(inner, path[1:], value); !ok {
		return object, false
	}
	return o.Set(path[0], inner), true
}

func callError(err error) *CallError {
	if duplicate, ok := errors.AsType[*rawjson.DuplicateError](err); ok {
		return &CallError{ReasonArguments, "arguments: " + duplicate.Error()}
	}
	return &CallError{ReasonArguments, "arguments: " + err.Error()}
}

// Forward returns the params that go upstream: without the harness's carriers
// and the members that t's offered schema has and its own lacks, every other
// byte as it came. t's native keys get the derived key, or the caller's own
// where they are raw. The Call has to be one that ParseCall returned, with no
// error other than those about the key.
func (c Call) Forward(t Tool, key, derived string) []byte {
	var edits rawjson.Edits
	strip := []string{paramsKey}
	if c.meta != nil {
		carriers := []string{metaKey, metaRun, metaStep}
		left := slices.ContainsFunc(c.meta.Fields(), func(f rawjson.Field) bool { return !slices.Contains(carriers, f.Name) })
		if left || len(c.meta.Fields()) == 0 {
			edits.RemoveMembers(c.meta, carriers...)
		} else {
			strip = append(strip, metaMember)
		}
	}
	edits.RemoveMembers(c.params, strip...)
	c.forwardArguments(t, key, derived, &edits)
	if edits.Empty() {
		return c.raw
	}
	return slices.Concat(c.raw[:c.params.Start], edits.Apply(c.params), c.raw[c.params.End:])
}

func (c Call) forwardArguments(t Tool, key, derived string, edits *rawjson.Edits) {
	var strip []string
	if !t.ownsKey {
		strip = append(strip, KeyProperty)
	}
	if !t.ownsRepeat {
		strip = append(strip, RepeatProperty)
	}
	if c.arguments != nil {
		edits.RemoveMembers(c.arguments, strip...)
	}
	natives := c.withNatives(t, func(n NativeKey) []byte {
		if n.Raw {
			return rawjson.Quote(key)
		}
		return rawjson.Quote(derived)
	})
	var added []byte
	for _, top := range slices.Sorted(maps.Keys(natives)) {
		if value := c.arguments.Get(top); value != nil {
			edits.Replace(value.Start, value.End, natives[top])
			continue
		}
		if added != nil {
			added = append(added, ',')
		}
		added = append(append(append(added, rawjson.Quote(top)...), ':'), natives[top]...)
	}
	switch {
	case added == nil:
	case c.arguments != nil:
		edits.Append(c.arguments, added)
	default:
		edits.Append(c.params, slices.Concat([]byte(`"arguments":{`), added, []byte("}")))
	}
}

// Downstream says at which places, and in which form, the upstream gets a key
// with the call, for instance "params.client_token" or "idempotency_key raw";
// empty where it gets none. It is at most MaxDownstream bytes long.
//
// A call without the object that a native key stands in has no place for it: to
// make that up would say more than the caller has said.
func (c Call) Downstream(t Tool) string {
	var places []string
	for _, n := range t.Natives {
		if len(n.Path) > 1 {
			top := c.arguments.Get(n.Path[0])
			if top == nil {
				continue
			}
			if _, ok := fill(top.Raw(), n.Path[1:], nil); !ok {
				continue
			}
		}
		place := n.String()
		if n.Raw {
			place += " raw"
		}
		places = append(places, place)
	}
	text := strings.Join(places, ", ")
	if len(text) > MaxDownstream {
		digest := sha256.Sum256([]byte(text))
		text = "sha256 " + hex.EncodeToString(digest[:])
	}
	return text
}

// MaxDownstream is the length of what Call.Downstream returns, in bytes.
const MaxDownstream = 255
