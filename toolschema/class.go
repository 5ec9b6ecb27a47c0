package toolschema

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// A Class says how calls of a tool may be repeated. The zero value is no class.
type Class string

// The classes. All but ClassReadOnly and ClassUnguarded need a key.
const (
	// ClassReadOnly has no side effects: passed through, nothing is recorded.
	ClassReadOnly Class = "READ_ONLY"
	// ClassUnguarded has side effects that the operator chose not to guard.
	ClassUnguarded Class = "UNGUARDED"
	// ClassSafeRetry is naturally idempotent: after an unknown outcome the same
	// key may run again.
	ClassSafeRetry Class = "SAFE_RETRY"
	// ClassDeduplicate has an upstream that honours a key of its own.
	ClassDeduplicate Class = "DEDUPLICATE"
	// ClassRequiresEffectCheck has a read-back that tells whether it executed.
	ClassRequiresEffectCheck Class = "REQUIRES_EFFECT_CHECK"
	// ClassNonRetryable is every other tool with side effects.
	ClassNonRetryable Class = "NON_RETRYABLE"
)

var classes = []Class{
	ClassReadOnly, ClassUnguarded, ClassSafeRetry,
	ClassDeduplicate, ClassRequiresEffectCheck, ClassNonRetryable,
}

// ParseClass accepts exactly the words of the Class constants. Its error lists
// them.
func ParseClass(s string) (Class, error) {
	if c := Class(s); slices.Contains(classes, c) {
		return c, nil
	}
	names := make([]string, len(classes))
	for i, c := range classes {
		names[i] = string(c)
	}
	return "", fmt.Errorf("unknown class %q: want one of %s", s, strings.Join(names, ", "))
}

// Stricter returns the tool whose class allows less. Of two that a server lists
// under one name, nobody knows which of them a call means.
func Stricter(a, b Tool) Tool {
	if slices.Index(classes, b.Class) > slices.Index(classes, a.Class) {
		return b
	}
	return a
}

// Keyed reports whether calls of the class need an idempotency key. It is true
// for the zero value too: what nobody classified is guarded.
func (c Class) Keyed() bool { return c != ClassReadOnly && c != ClassUnguarded }

// NearDuplicate says what happens to a call under a new key whose content
// equals that of a recent one.
type NearDuplicate string

// The ways to treat a near-duplicate.
const (
	NearDuplicateOff     NearDuplicate = "off"     // executed, nothing is said
	NearDuplicateWarn    NearDuplicate = "warn"    // executed, and the result says so
	NearDuplicateConfirm NearDuplicate = "confirm" // refused until the caller repeats it knowingly
	NearDuplicateAsk     NearDuplicate = "ask"     // a person decides; as confirm where nobody can be asked
)

// An Override is the operator's word on the tools that its pattern names. What it
// leaves zero, it says nothing about.
type Override struct {
	// Pattern is a tool's name or a glob in the syntax of path.Match, except
	// that "*" and "?" match "/" too: tool names are not paths.
	Pattern string
	Class   Class
	// NearDuplicate counts in place of what the name suggests. Where no key is
	// needed nothing is recorded, and it means nothing; see Decision too.
	NearDuplicate NearDuplicate
	// Window counts in place of Policy.Window, and is written like it.
	Window time.Duration
}

// ParseOverride reads "GLOB=CLASS". The last "=" separates, so that a name may
// contain one.
func ParseOverride(s string) (Override, error) {
	at := strings.LastIndexByte(s, '=')
	if at < 0 {
		return Override{}, fmt.Errorf("class override %q: want GLOB=CLASS", s)
	}
	if at == 0 {
		return Override{}, fmt.Errorf("class override %q: the glob before = is empty", s)
	}
	class, err := ParseClass(s[at+1:])
	if err != nil {
		return Override{}, fmt.Errorf("class override %q: %w", s, err)
	}
	if !validGlob(s[:at]) {
		return Override{}, fmt.Errorf("class override %q: bad glob %q", s, s[:at])
	}
	return Override{Pattern: s[:at], Class: class}, nil
}

// unslashed shows no slash to path.Match, which keeps "*" from crossing one.
var unslashed = strings.NewReplacer("/", "\x1f")

// matches reports whether the pattern, taken as a glob, names the tool.
func matches(pattern, name string) bool {
	ok, err := path.Match(unslashed.Replace(pattern), unslashed.Replace(name))
	return ok && err == nil
}

func validGlob(pattern string) bool {
	_, err := path.Match(pattern, "")
	return err == nil
}

// Naming returns the rules whose pattern, as of an Override, names the tool, in the
// order of their weight: of two that speak of the same thing the later one counts. A
// pattern that equals the name beats a glob; among equals the later beats the earlier.
func Naming[T any](rules []T, tool string, pattern func(T) string) []T {
	var globs, exact []T
	for _, rule := range rules {
		switch p := pattern(rule); {
		case p == tool:
			exact = append(exact, rule)
		case matches(p, tool):
			globs = append(globs, rule)
		}
	}
	return append(globs, exact...)
}

// Unmatched returns the patterns, as of an Override, that name none of the tools, each
// once.
func Unmatched(patterns, tools []string) (unmatched []string) {
	for _, pattern := range patterns {
		named := slices.ContainsFunc(tools, func(tool string) bool { return pattern == tool || matches(pattern, tool) })
		if !named && !slices.Contains(unmatched, pattern) {
			unmatched = append(unmatched, pattern)
		}
	}
	return unmatched
}

// A Policy is what decides on classes and on the texts of rewritten tools. The
// zero value believes names only.
type Policy struct {
	// Overrides and Natives are the operator's. For each thing that can be said of a
	// tool, a pattern that equals the name beats a glob, and among equals the later
	// beats the earlier.
	Overrides []Override
	Natives   []NativeRule
	// OnProblem says what becomes of a tool that needs a key and cannot be given
	// one; the zero value is OnProblemRefuse.
	OnProblem OnProblem
	// TrustAnnotations lets the upstream's annotations speak before the name.
	TrustAnnotations bool
	// Window is how long a recorded answer is replayed, in whole seconds, where no
	// override says otherwise. It is stated in descriptions.
	Window time.Duration
	// HarnessKeys says that keys never come as arguments: tools are classified, and
	// offered as they are.
	HarnessKeys bool
	// StatusTool is the name of the gateway's own status tool, "" without one.
	StatusTool string
	// Prefix stands before the names under which tools are offered. Tool.Name, and
	// what the operator says of tools, are without it.
	Prefix string
}

// OnProblem says what becomes of a tool that needs a key, but whose schema has a
// shape in which no key can be demanded.
type OnProblem string

// What can become of a tool with a Problem.
const (
	OnProblemRefuse  OnProblem = "refuse"  // offered as it is, and its calls are refused with the reason
	OnProblemHarness OnProblem = "harness" // offered as it is; a call needs a key in a harness's carrier
	OnProblemOmit    OnProblem = "omit"    // not offered
)

// ParseOnProblem reads the word.
func ParseOnProblem(word string) (OnProblem, error) {
	switch o := OnProblem(word); o {
	case OnProblemRefuse, OnProblemHarness, OnProblemOmit:
		return o, nil
	}
	return "", fmt.Errorf("%q says not what becomes of a tool that cannot be given a key: use refuse, harness or omit", word)
}

// Unmatched returns the patterns of the operator's that name none of the tools.
func (p Policy) Unmatched(names []string) (patterns []string) {
	given := make([]string, 0, len(p.Overrides)+len(p.Natives))
	for _, o := range p.Overrides {
		given = append(given, o.Pattern)
	}
	for _, n := range p.Natives {
		given = append(given, n.Pattern)
	}
	return Unmatched(given, names)
}

// A Decision is the class of a tool and the reason for it.
type Decision struct {
	Class Class
	// ByOperator reports whether an override decided on the class.
	ByOperator bool
	// Rule names what decided, for people: `verb "refund"`, `override "get_*"`.
	Rule string
	// NearDuplicate is what an override says, else NearDuplicateConfirm for tools that
	// send or create something and NearDuplicateOff for others. Without a key it is
	// NearDuplicateOff; where the schema has no room for RepeatProperty, Rewrite makes
	// NearDuplicateWarn of what would demand it.
	NearDuplicate NearDuplicate
}

// Classify decides on a tool by its name and by its annotations, a raw JSON
// object or nil. Annotations that cannot be read count as absent.
//
// The operator's word comes first, then trusted annotations, then the verb in
// the name; a tool that none of them describes has side effects, as the
// protocol itself assumes.
func (p Policy) Classify(name string, annotations []byte) Decision {
	said := readName(name)
	word := p.wordOn(name)
	d, ok := word.decision()
	if !ok && p.TrustAnnotations {
		d, ok = byAnnotations(readHints(annotations), said)
	}
	if !ok {
		d = byName(said)
	}
	switch {
	case !d.Class.Keyed():
		d.NearDuplicate = NearDuplicateOff
	case word.NearDuplicate != "":
		d.NearDuplicate = word.NearDuplicate
	case said.creates:
		d.NearDuplicate = NearDuplicateConfirm
	default:
		d.NearDuplicate = NearDuplicateOff
	}
	return d
}

// wordOn is all that the operator says of a tool. Its pattern is that of the override
// that has the class.
func (p Policy) wordOn(tool string) (word Override) {
	for _, o := range Naming(p.Overrides, tool, func(o Override) string { return o.Pattern }) {
		if o.Class != "" {
			word.Pattern, word.Class = o.Pattern, o.Class
		}
		word.NearDuplicate = cmp.Or(o.NearDuplicate, word.NearDuplicate)
		word.Window = cmp.Or(o.Window, word.Window)
	}
	return word
}

func (o Override) decision() (Decision, bool) {
	return Decision{Class: o.Class, ByOperator: true, Rule: fmt.Sprintf("override %q", o.Pattern)}, o.Class != ""
}

// hints are the annotations that matter here; nil means not given.
type hints struct{ readOnly, idempotent *bool }

func readHints(annotations []byte) hints {
	o, err := rawjson.ParseObject(annotations)
	if err != nil {
		return hints{}
	}
	get := func(name string) *bool {
		value, _ := o.Get(name)
		yes := string(value) == "true"
		if !yes && string(value) != "false" {
			return nil
		}
		return &yes
	}
	return hints{readOnly: get("readOnlyHint"), idempotent: get("idempotentHint")}
}

func byAnnotations(h hints, said reading) (Decision, bool) {
	is := func(hint *bool) bool { return hint != nil && *hint }
	switch {
	case is(h.readOnly) && said.sense == mutates:
		return Decision{Class: ClassNonRetryable, Rule: fmt.Sprintf("verb %q overrules readOnlyHint", said.word)}, true
	case is(h.readOnly):
		return Decision{Class: ClassReadOnly, Rule: "annotation readOnlyHint"}, true
	case is(h.idempotent) && said.creates:
		return Decision{Class: ClassNonRetryable, Rule: fmt.Sprintf("verb %q overrules idempotentHint", said.word)}, true
	case is(h.idempotent):
		return Decision{Class: ClassSafeRetry, Rule: "annotation idempotentHint"}, true
	case h.readOnly != nil:
		return Decision{Class: ClassNonRetryable, Rule: "annotation readOnlyHint false"}, true
	}
	return Decision{}, false
}

func byName(said reading) Decision {
	switch said.sense {
	case reads:
		return Decision{Class: ClassReadOnly, Rule: fmt.Sprintf("word %q", said.word)}
	case unclear:
		if said.word == "" {
			return Decision{Class: ClassNonRetryable, Rule: "no annotation, no known verb"}
		}
	}
	return Decision{Class: ClassNonRetryable, Rule: fmt.Sprintf("verb %q", said.word)}
}
