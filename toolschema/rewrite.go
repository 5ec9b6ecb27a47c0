package toolschema

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// MinNativeLength is the shortest maxLength, in characters, that a tool's own
// key property may have: a derived key is a UUID in text form.
const MinNativeLength = 36

// A Tool is one upstream tool and how it is offered.
type Tool struct {
	Name string
	Decision
	// Definition is the definition to offer. For a keyed tool without a Problem
	// it is the upstream's with the additions, else the upstream's bytes.
	Definition []byte
	// Problem, where it is not empty, says in one line why the tool cannot be
	// offered with a key.
	Problem string
	// Native says that the keyed tool has a property KeyProperty of its own. It
	// stays, and the derived key is forwarded in it.
	Native bool
	// HasOutputSchema says that results are to have structuredContent.
	HasOutputSchema bool
	// AnnotatesOutput says that structuredContent, where it is an object, may
	// be given the member OutcomeProperty without breaking the offered
	// outputSchema.
	AnnotatesOutput bool

	ownsKey    bool // the upstream's schema has KeyProperty
	ownsRepeat bool // the upstream's schema has RepeatProperty
}

// Keyed reports whether calls of the tool need a key.
func (t Tool) Keyed() bool { return t.Class.Keyed() }

// Rewrite classifies a tool and prepares its definition, one element of a
// tools/list result.
//
// It fails on a definition from which not even a name can be read. A tool that
// needs a key but cannot be given one is no error: it has a Problem. A tool that
// needs none is never rewritten, whatever its schema looks like.
func (p Policy) Rewrite(definition []byte) (Tool, error) {
	def, err := rawjson.ParseObject(definition)
	if err != nil {
		return Tool{}, fmt.Errorf("unreadable tool definition: %w", err)
	}
	name, ok := def.String("name")
	if !ok || name == "" {
		return Tool{}, errors.New("tool definition without a name")
	}
	annotations, _ := def.Get("annotations")
	t := Tool{Name: name, Decision: p.Classify(name, annotations), Definition: definition}
	output, ok := def.Get("outputSchema")
	t.HasOutputSchema = ok && string(output) != "null"
	t.AnnotatesOutput = !t.HasOutputSchema
	input, _ := def.Get("inputSchema")
	root, err := parseRoot(input)
	t.ownsKey, t.ownsRepeat = root.has(KeyProperty), root.has(RepeatProperty)
	if !t.Keyed() || p.HarnessKeys {
		return t, nil
	}
	if err == nil {
		err = p.rewriteKeyed(&t, def, root)
	} else {
		err = fmt.Errorf("inputSchema %w", err)
	}
	if err != nil {
		t.Problem = err.Error()
		t.Definition, t.Native, t.AnnotatesOutput = definition, false, !t.HasOutputSchema
	}
	return t, nil
}

// rewriteKeyed writes the additions into the definition, one member after the
// other. What it returns is the tool's Problem.
func (p Policy) rewriteKeyed(t *Tool, def rawjson.Object, root rootSchema) error {
	input, err := t.rewriteInput(root)
	if err != nil {
		return fmt.Errorf("inputSchema %w", err)
	}
	description, err := describe(def, p.policyText())
	if err != nil {
		return err
	}
	meta, err := member(def, "_meta")
	if err != nil {
		return err
	}
	edit := editor{def: def}
	edit.set("inputSchema", input)
	edit.set("description", description)
	edit.set("_meta", meta.Set(PolicyMeta, p.policyMeta(t.Decision)))
	if t.HasOutputSchema {
		output, _ := def.Get("outputSchema")
		if output, t.AnnotatesOutput = admitOutcome(output); t.AnnotatesOutput {
			edit.set("outputSchema", output)
		}
	}
	t.Definition = edit.bytes()
	return edit.err
}

// describe returns the definition's description with the text at its end.
func describe(def rawjson.Object, text string) ([]byte, error) {
	description, ok := def.Get("description")
	if !ok {
		return rawjson.Quote(text), nil
	}
	if _, ok := rawjson.Unquote(description); !ok {
		return nil, errors.New("description is not a string")
	}
	return rawjson.Extend(description, text), nil
}

// member returns the definition's member as an object, empty where it is
// absent.
func member(def rawjson.Object, name string) (rawjson.Object, error) {
	value, ok := def.Get(name)
	if !ok {
		value = []byte("{}")
	}
	o, err := rawjson.ParseObject(value)
	if err != nil {
		return o, fmt.Errorf("%s is unreadable: %w", name, err)
	}
	return o, nil
}

// rewriteInput returns the input schema that demands the key, and settles what
// depends on its shape: Native and NearDuplicate.
func (t *Tool) rewriteInput(root rootSchema) ([]byte, error) {
	if t.ownsRepeat {
		return nil, fmt.Errorf("has a property %s of its own", RepeatProperty)
	}
	var native []byte
	if t.ownsKey {
		var err error
		if native, err = nativeKey(root.properties); err != nil {
			return nil, fmt.Errorf("has a property %s that %w", KeyProperty, err)
		}
	} else {
		root.injected = append(root.injected, KeyProperty)
	}
	// An optional member cannot be counted exactly: the limits would have to be
	// one higher with it than without. Such a tool does without, and so its
	// near-duplicates can only be pointed out, not asked about.
	if root.counted() && t.NearDuplicate != NearDuplicateOff {
		t.NearDuplicate = NearDuplicateWarn
	}
	repeat := t.NearDuplicate == NearDuplicateConfirm || t.NearDuplicate == NearDuplicateAsk
	if repeat {
		root.injected = append(root.injected, RepeatProperty)
	}
	if err := root.check(); err != nil {
		return nil, err
	}
	t.Native = t.ownsKey
	return editInput(root, native, repeat)
}

// editInput writes the key, native or injected, and the repeat member into a
// schema that has been checked.
func editInput(root rootSchema, native []byte, repeat bool) ([]byte, error) {
	properties := editor{def: root.properties}
	if native != nil {
		properties.set(KeyProperty, native)
	} else {
		properties.set(KeyProperty, keySchema())
	}
	if repeat {
		properties.set(RepeatProperty, repeatSchema())
	}
	edit := editor{def: root.object, err: properties.err}
	edit.set("properties", properties.bytes())
	if required, ok := root.object.Get("required"); ok {
		edit.set("required", requireFirst(required))
	} else {
		edit.set("required", []byte(`["`+KeyProperty+`"]`))
	}
	if native == nil {
		for _, limit := range []string{"minProperties", "maxProperties"} {
			if value, ok := root.object.Get(limit); ok {
				n, err := strconv.ParseUint(string(value), 10, 32)
				if err != nil {
					return nil, fmt.Errorf("has a %s of %s", limit, shorten(string(value)))
				}
				edit.set(limit, strconv.AppendUint(nil, n+1, 10))
			}
		}
	}
	return edit.bytes(), edit.err
}

// requireFirst puts the key at the beginning of a required list that lacks it.
// The list has been checked to be one.
func requireFirst(required []byte) []byte {
	names, _ := stringList(required)
	if slices.Contains(names, KeyProperty) {
		return required
	}
	name := `"` + KeyProperty + `"`
	if len(names) > 0 {
		name += ","
	}
	at := bytes.IndexByte(required, '[') + 1
	return slices.Concat(required[:at], []byte(name), required[at:])
}

// nativeKey returns the tool's own key property with our description before its
// own. The property has to take the text of a UUID.
func nativeKey(properties rawjson.Object) ([]byte, error) {
	value, _ := properties.Get(KeyProperty)
	if string(value) == "true" {
		return keySchema(), nil
	}
	o, err := rawjson.ParseObject(value)
	if err != nil {
		return nil, errors.New("is no schema that can be described")
	}
	if !admitsString(o) {
		return nil, errors.New("does not take any string")
	}
	if most, ok := o.Get("maxLength"); ok {
		if n, err := strconv.Atoi(string(most)); err != nil || n < MinNativeLength {
			return nil, fmt.Errorf("takes no more than %s characters", shorten(string(most)))
		}
	}
	text := keyText
	if own, ok := o.String("description"); ok && own != "" {
		text += "\n\n" + own
	}
	return o.Set("description", rawjson.Quote(text)), nil
}

// admitsString reports whether a property's schema takes strings in general:
// by its own type, or by a branch, as in the usual "string or null".
func admitsString(schema rawjson.Object) bool {
	for _, narrowing := range []string{"enum", "const", "$ref", "$dynamicRef", "$recursiveRef", "allOf", "not", "if"} {
		if _, ok := schema.Get(narrowing); ok {
			return false
		}
	}
	if !admits(schema, "string") {
		return false
	}
	for _, choice := range []string{"anyOf", "oneOf"} {
		value, ok := schema.Get(choice)
		if !ok {
			continue
		}
		branches, err := rawjson.ParseArray(value)
		if err != nil || !slices.ContainsFunc(branches, isStringSchema) {
			return false
		}
	}
	return true
}

func isStringSchema(branch []byte) bool {
	o, err := rawjson.ParseObject(branch)
	return err == nil && admitsString(o)
}

// admitOutcome returns the output schema with OutcomeProperty as an optional
// member, or unchanged where it is allowed anyway; ok is false where it cannot
// be allowed without changing what else the schema accepts.
func admitOutcome(schema []byte) (_ []byte, ok bool) {
	root, err := parseRoot(schema)
	root.injected = []string{OutcomeProperty}
	if err != nil || root.has(OutcomeProperty) || root.counted() || root.check() != nil {
		return schema, false
	}
	additional, closed := root.object.Get("additionalProperties")
	_, unevaluated := root.object.Get("unevaluatedProperties")
	if !unevaluated && (!closed || string(additional) == "true") {
		return schema, true
	}
	return root.object.Set("properties", root.properties.Set(OutcomeProperty, outcomeSchema())), true
}

// An editor sets several members of an object, each on the result of the one
// before, and keeps the first error.
type editor struct {
	def rawjson.Object
	out []byte
	err error
}

func (e *editor) set(name string, value []byte) {
	if e.err != nil {
		return
	}
	e.out = e.def.Set(name, value)
	e.def, e.err = rawjson.ParseObject(e.out)
}

// bytes returns the edited object.
func (e *editor) bytes() []byte { return e.out }
