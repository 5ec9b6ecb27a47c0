package toolschema

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// A Tool is one upstream tool and how it is offered.
type Tool struct {
	Name string
	Decision
	// Window is how long a recorded answer of the tool is replayed.
	Window time.Duration
	// Definition is the definition to offer: the upstream's with the additions, or
	// the upstream's bytes where nothing is added.
	Definition []byte
	// Problem, where it is not empty, says in one line why no key can be demanded
	// by the schema of a tool that needs one. Policy.OnProblem says what becomes
	// of it.
	Problem string
	// Natives are the tool's own properties that take a key. They are filled in on
	// the way upstream.
	Natives []NativeKey
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
	def, err := rawjson.Parse(definition)
	if err != nil {
		return Tool{}, fmt.Errorf("unreadable tool definition: %w", err)
	}
	return p.rewrite(def)
}

func (p Policy) rewrite(def *rawjson.Value) (Tool, error) {
	t, err := p.prepare(def)
	if err == nil && p.Prefix != "" {
		t.Definition = Rename(t.Definition, p.Prefix+t.Name)
	}
	return t, err
}

// Rename returns a definition of a tool, a prompt or anything else that has a name,
// with another one. What has none stays as it is.
func Rename(definition []byte, name string) []byte {
	def, err := rawjson.ParseTo(definition, 1)
	if err != nil || def.Get("name") == nil {
		return definition
	}
	var edits rawjson.Edits
	old := def.Get("name")
	edits.Replace(old.Start, old.End, rawjson.Quote(name))
	return edits.Apply(def)
}

func (p Policy) prepare(def *rawjson.Value) (Tool, error) {
	if !def.IsObject() {
		return Tool{}, fmt.Errorf("unreadable tool definition: %w", rawjson.ErrNotObject)
	}
	if name, ok := def.Repeated(); ok {
		return Tool{}, fmt.Errorf("unreadable tool definition: %w", &rawjson.DuplicateError{Name: shorten(name)})
	}
	name, _ := def.Get("name").Text()
	if name == "" {
		return Tool{}, errors.New("tool definition without a name")
	}
	p.Window = cmp.Or(p.wordOn(name).Window, p.Window) // which is stated in what follows
	t := Tool{Name: name, Decision: p.Classify(name, annotationsOf(def)), Window: p.Window, Definition: def.Raw()}
	output := def.Get("outputSchema")
	t.HasOutputSchema = output != nil && !output.Is("null")
	t.AnnotatesOutput = !t.HasOutputSchema
	input := def.Get("inputSchema")
	properties := input.Get("properties")
	t.ownsKey, t.ownsRepeat = mayHave(input, KeyProperty), mayHave(input, RepeatProperty)
	if !t.Keyed() {
		return t, nil
	}
	natives := p.natives(name, input)
	if p.HarnessKeys {
		t.Natives = shown(natives)
		return t, nil
	}
	rewritten := t
	rewritten.ownsKey, rewritten.ownsRepeat = properties.Get(KeyProperty) != nil, properties.Get(RepeatProperty) != nil
	if err := p.rewriteKeyed(&rewritten, def, natives); err != nil {
		t.Problem = err.Error()
		t.Natives = shown(slices.DeleteFunc(natives, func(n native) bool { return n.isKey() })) // the schema has said what else that is
		return p.withProblem(t, def), nil
	}
	return rewritten, nil
}

func annotationsOf(def *rawjson.Value) []byte {
	if annotations := def.Get("annotations"); annotations != nil {
		return annotations.Raw()
	}
	return nil
}

// mayHave reports whether arguments of a schema that is offered as it is may have
// a member of the name which is the tool's own.
func mayHave(schema *rawjson.Value, name string) bool {
	return schema.Get("additionalProperties").IsObject() || timesNamed(schema, name) > 0
}

// shown are the native keys of a tool whose schema stays as it is.
func shown(natives []native) (keys []NativeKey) {
	for _, n := range natives {
		n.Shown = true
		keys = append(keys, n.NativeKey)
	}
	return keys
}

// withProblem is the tool as the policy offers it. Where its calls are refused,
// its description says so, lest a model tries.
func (p Policy) withProblem(t Tool, def *rawjson.Value) Tool {
	if p.OnProblem != OnProblemRefuse && p.OnProblem != "" {
		return t
	}
	var edits rawjson.Edits
	own, _ := def.Get("description").Text()
	text := fitting(own, "Calls are refused: no "+KeyProperty+" can be demanded of them ("+t.Problem+").", "Calls are refused.")
	if describe(def, text, &edits) == nil {
		t.Definition = edits.Apply(def)
	}
	return t
}

// rewriteKeyed writes the additions into the definition. What it returns is the
// tool's Problem.
func (p Policy) rewriteKeyed(t *Tool, def *rawjson.Value, natives []native) error {
	var edits rawjson.Edits
	if err := t.rewriteInput(def.Get("inputSchema"), natives, &edits); err != nil {
		return fmt.Errorf("inputSchema %w", err)
	}
	if err := describe(def, p.added(def), &edits); err != nil {
		return err
	}
	if err := p.addMeta(t.Decision, def, &edits); err != nil {
		return err
	}
	if t.HasOutputSchema {
		t.AnnotatesOutput = admitOutcome(def.Get("outputSchema"), &edits)
	}
	t.Definition = edits.Apply(def)
	return nil
}

// added is the paragraph that the definition's description gets.
func (p Policy) added(def *rawjson.Value) string {
	own, _ := def.Get("description").Text()
	text := p.policyText()
	if strings.Contains(strings.ToLower(own), "idempoten") && mintsKeys(own) {
		text = mintedText + " " + text
	}
	return fitting(own, text, shortPolicyText)
}

// fitting is the first of the texts that an own description has room for, "" where
// it has none. One that is too long for model APIs anyway has room for any.
func fitting(own string, texts ...string) string {
	length := utf8.RuneCountInString(own) + len("\n\n")
	for _, text := range texts {
		if length > maxDescription || length+utf8.RuneCountInString(text) <= maxDescription {
			return text
		}
	}
	return ""
}

// describe adds a paragraph at the end of the definition's description.
func describe(def *rawjson.Value, text string, edits *rawjson.Edits) error {
	description := def.Get("description")
	own, ok := description.Text()
	switch {
	case text == "":
		return nil
	case description == nil:
		edits.Append(def, slices.Concat([]byte(`"description":`), rawjson.Quote(text)))
		return nil
	case description.Is("null"):
		edits.Replace(description.Start, description.End, rawjson.Quote(text))
		return nil
	case !ok:
		return errors.New("description is not a string")
	case own != "":
		text = "\n\n" + text
	}
	quoted := rawjson.Quote(text)
	edits.Insert(description.End-1, quoted[1:len(quoted)-1])
	return nil
}

func (p Policy) addMeta(d Decision, def *rawjson.Value, edits *rawjson.Edits) error {
	policy := slices.Concat(rawjson.Quote(PolicyMeta), []byte(":"), p.policyMeta(d))
	meta := def.Get("_meta")
	switch {
	case meta == nil || meta.Is("null"):
		appendTo(def, "_meta", policy, edits)
	case !meta.IsObject():
		return errors.New("_meta is unreadable: not a JSON object")
	case meta.Get(PolicyMeta) != nil:
		return fmt.Errorf("_meta has a %s of its own", PolicyMeta)
	default:
		edits.Append(meta, policy)
	}
	return nil
}

// rewriteInput edits the input schema so that it demands the key, and settles
// what depends on its shape: Natives and NearDuplicate.
func (t *Tool) rewriteInput(input *rawjson.Value, natives []native, edits *rawjson.Edits) error {
	switch {
	case !input.IsObject():
		return fmt.Errorf("is unreadable: %w", rawjson.ErrNotObject)
	case !hasType(input, "object"):
		return errors.New("is of a type other than object")
	case t.ownsRepeat:
		return fmt.Errorf("has a property %s of its own", RepeatProperty)
	}
	b, err := t.demandKey(input, natives)
	if errors.Is(err, errCounted) {
		// With the repeat member the limits would have to be one higher than
		// without. So such a tool does without, and its near-duplicates can only be
		// pointed out, not asked about.
		t.NearDuplicate = NearDuplicateWarn
		b, err = t.demandKey(input, natives)
	}
	if err != nil {
		return err
	}
	edits.Add(b.edits)
	return nil
}

func (t *Tool) demandKey(input *rawjson.Value, natives []native) (*blinding, error) {
	if err := checkConfigured(natives); err != nil {
		return nil, err
	}
	b := newBlinding(input, t.additions(natives))
	t.Natives = b.hide(natives)
	if err := b.demand(t.ownsKey); err != nil {
		return nil, err
	}
	return b, b.finish()
}

// additions are the members that the input schema is to take besides its own.
func (t *Tool) additions(natives []native) (added []addition) {
	if !t.ownsKey {
		added = append(added, addition{name: KeyProperty, schema: keySchemaSaying(keyText, longestKey(natives)), required: true})
	}
	if t.NearDuplicate == NearDuplicateConfirm || t.NearDuplicate == NearDuplicateAsk {
		added = append(added, addition{name: RepeatProperty, schema: repeatSchema()})
	}
	return added
}

// demand edits the root so that it takes the additions and requires the key,
// which it may have as a property of its own.
func (b *blinding) demand(ownsKey bool) error {
	at, edits := b.root, &b.edits
	if b.root.Get("$ref") != nil {
		target := b.inlined()
		if modern, _ := b.draft(); target == nil && !modern {
			return errors.New("has $ref at its root that cannot give way to what it refers to")
		}
		if target != nil {
			at, edits = target, &rawjson.Edits{}
			if err := b.refs.unname(target, edits); err != nil {
				return err
			}
		}
	}
	if err := b.blind(at, edits); err != nil {
		return err
	}
	if ownsKey {
		if err := b.takeOwnKey(at, edits); err != nil {
			return fmt.Errorf("has a property %s %w", KeyProperty, err)
		}
	}
	b.requireKey(at, edits)
	if at != b.root {
		return b.inline(at, edits)
	}
	return nil
}

func (b *blinding) requireKey(at *rawjson.Value, edits *rawjson.Edits) {
	var members []byte
	for i, a := range b.added {
		if i > 0 {
			members = append(members, ',')
		}
		members = append(append(append(members, rawjson.Quote(a.name)...), ':'), a.schema...)
	}
	if len(members) > 0 {
		appendTo(at, "properties", members, edits)
	}
	key := rawjson.Quote(KeyProperty)
	required := at.Get("required")
	list := slices.Concat([]byte("["), key, []byte("]"))
	switch {
	case required == nil:
		edits.Append(at, slices.Concat([]byte(`"required":`), list))
		return
	case required.Is("null"):
		edits.Replace(required.Start, required.End, list)
		return
	}
	if names, _ := required.Texts(); !slices.Contains(names, KeyProperty) {
		edits.Prepend(required, key)
	}
}

// hide takes the native keys out of the schema that are neither to be shown nor
// the key itself, and returns them all.
func (b *blinding) hide(natives []native) (keys []NativeKey) {
	holders := map[*rawjson.Value]bool{}
	for _, n := range natives {
		n.Shown = n.Shown || n.isKey()
		switch {
		case n.holder == nil || n.isKey():
		case n.Shown || holders[n.holder]:
			n.Shown = true
		default:
			holders[n.holder] = true
			n.hide(b.root, b.refs, &b.edits)
		}
		if n.Shown && n.schema != nil && !n.isKey() {
			n.mend(&b.edits)
		}
		keys = append(keys, n.NativeKey)
	}
	return keys
}

// finish completes the edits, and makes sure that no reference leads to what
// they change.
func (b *blinding) finish() error {
	if err := b.checkReferences(); err != nil {
		return err
	}
	return b.addDefinitions()
}
