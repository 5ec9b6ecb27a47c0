package toolschema

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// Fingerprint condenses the arguments, less KeyProperty, RepeatProperty and t's
// native keys. It does not depend on white space, the order of members, escapes
// or the spelling of numbers; absent arguments equal {}. It fails with a
// *CallError on a member name repeated anywhere and on nesting beyond MaxDepth.
func (c Call) Fingerprint(t Tool) (Fingerprint, error) {
	rest := []byte("{}")
	if c.arguments != nil {
		var edits rawjson.Edits
		ours := t.ours()
		if c.Source == KeyModel { // then it is the key, whatever the tool says of it today
			ours = append(ours, KeyProperty)
		}
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

// ours are the members of arguments that are the gateway's and not the tool's.
func (t Tool) ours() (names []string) {
	if !t.ownsKey || slices.ContainsFunc(t.Natives, NativeKey.isKey) {
		names = append(names, KeyProperty)
	}
	if !t.ownsRepeat {
		names = append(names, RepeatProperty)
	}
	return names
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
	case len(path) == 1 && value == nil && !hasOthers(o, path[0]):
		return nil, true // what holds nothing but the key is as good as absent
	case len(path) == 1 && value == nil:
		return o.Without(path[0]), true
	case len(path) == 1:
		return o.Set(path[0], value), true
	}
	inner, ok := o.Get(path[0])
	if !ok {
		return object, false
	}
	inner, ok = fill(inner, path[1:], value)
	switch {
	case !ok:
		return object, false
	case inner == nil && !hasOthers(o, path[0]):
		return nil, true
	case inner == nil:
		return o.Without(path[0]), true
	}
	return o.Set(path[0], inner), true
}

func hasOthers(o rawjson.Object, name string) bool {
	return slices.ContainsFunc(o.Members(), func(m rawjson.Member) bool { return m.Name != name })
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
	if c.arguments != nil {
		ours := t.ours()
		if t.ownsKey { // it is filled in
			ours = slices.DeleteFunc(ours, func(name string) bool { return name == KeyProperty })
		}
		edits.RemoveMembers(c.arguments, ours...)
	}
	if len(t.Natives) == 0 {
		return
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
