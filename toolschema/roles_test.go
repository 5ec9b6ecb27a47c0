package toolschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// A role is what a schema is used for, which decides what is added to it.
type role struct {
	name           string
	tool           string // whose verb decides about the repeat member
	output, repeat bool
}

var roles = []role{
	{name: "input", tool: "update_thing"},
	{name: "input with repeat", tool: "create_thing", repeat: true},
	{name: "output", tool: "update_thing", output: true},
}

func (r role) member() string {
	if r.output {
		return "outputSchema"
	}
	return "inputSchema"
}

func (r role) definition(schema []byte) []byte {
	if r.output {
		return fmt.Appendf(nil, `{"name":%q,"inputSchema":{"type":"object"},"outputSchema":%s}`, r.tool, schema)
	}
	return fmt.Appendf(nil, `{"name":%q,"inputSchema":%s}`, r.tool, schema)
}

// An upstreamSchema is a schema as it came, compiled once in each dialect. It is
// not safe for concurrent use.
type upstreamSchema struct {
	text     []byte
	compiled map[string]*jsonschema.Schema // nil in a dialect that does not know it for a schema
}

func newUpstreamSchema(text []byte) *upstreamSchema {
	return &upstreamSchema{text: text, compiled: map[string]*jsonschema.Schema{}}
}

func (s *upstreamSchema) in(dialect string) *jsonschema.Schema {
	if _, ok := s.compiled[dialect]; !ok {
		s.compiled[dialect], _ = compileIn(dialect, s.text) // what it is not, it is not
	}
	return s.compiled[dialect]
}

// An offer is a schema as it came and as it is offered.
type offer struct {
	role
	Tool
	before  *upstreamSchema
	after   []byte
	refused string // why there are no additions, or ""
}

func (r role) offer(t require.TestingT, schema *upstreamSchema) offer {
	tool, err := guardAll.Rewrite(r.definition(schema.text))
	require.NoError(t, err)
	o := offer{role: r, Tool: tool, before: schema, refused: tool.Problem}
	def, err := rawjson.ParseObject(tool.Definition)
	require.NoError(t, err)
	o.after, _ = def.Get(r.member())
	if r.output {
		require.Empty(t, tool.Problem, "an output schema never costs a tool its key")
		if !tool.AnnotatesOutput {
			o.refused = "not annotated"
		}
	}
	if o.refused != "" {
		require.Equal(t, string(schema.text), string(o.after), "what is refused stays as it came")
	}
	return o
}

// asks reports whether the tool wants the repeat member.
func (o offer) asks() bool {
	return o.NearDuplicate == NearDuplicateConfirm || o.NearDuplicate == NearDuplicateAsk
}

var errNoNetwork = errors.New("tests load no schema from elsewhere")

type noLoader struct{}

func (noLoader) Load(string) (any, error) { return nil, errNoNetwork }

func compileIn(dialect string, schema []byte) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(dialects[dialect])
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(lenientRegexp)
	const address = "https://tool.example/offered"
	if err := c.AddResource(address, doc); err != nil {
		return nil, err
	}
	return c.Compile(address)
}

// A pledge is the rule for one offer in one dialect.
type pledge struct {
	offer
	before, after *jsonschema.Schema
}

// pledge compiles both schemas. ok is false where the dialect does not know the
// original for a schema, so that nothing can be demanded.
func (o offer) pledge(t require.TestingT, dialect string) (p pledge, ok bool) {
	before := o.before.in(dialect)
	if before == nil {
		return p, false
	}
	after, err := compileIn(dialect, o.after)
	require.NoError(t, err, "%s: %s\n%s", dialect, o.before.text, o.after)
	return pledge{offer: o, before: before, after: after}, true
}

func with(o map[string]any, members ...any) map[string]any {
	out := maps.Clone(o)
	if out == nil {
		out = map[string]any{}
	}
	for i := 0; i < len(members); i += 2 {
		out[members[i].(string)] = members[i+1]
	}
	return out
}

const repeatID = "op_01933b7e-7a4c-7c1e-9d2f-0a1b2c3d4e5f"

var (
	goodKeys = []any{"abcdefgh", strings.Repeat("k", MaxKeyLength)}
	badKeys  = []any{json.Number("7"), nil, "short", strings.Repeat("k", MaxKeyLength+1), map[string]any{}}
	outcomes = []any{map[string]any{}, map[string]any{"outcome": "COMPLETED", "was_replay": true, "operation_id": repeatID}}
)

// breach returns how the rule is broken for one object without additions, or "".
func (p pledge) breach(o map[string]any) string {
	if p.output {
		return p.outputBreach(o)
	}
	same := []map[string]any{with(o, KeyProperty, goodKey)}
	never := []map[string]any{o, with(o, RepeatProperty, repeatID)}
	if p.asks() {
		same = append(same, with(o, KeyProperty, goodKey, RepeatProperty, repeatID))
	} else if repeated := with(o, RepeatProperty, repeatID); p.before.Validate(repeated) == nil != (p.after.Validate(with(repeated, KeyProperty, goodKey)) == nil) {
		return fmt.Sprintf("a repeat member that is not offered is no other than any: %v", repeated)
	}
	return p.compare(p.before.Validate(o) == nil, same, never)
}

// keyBreach is breach for the limits of a key.
func (p pledge) keyBreach(o map[string]any) string {
	if p.output {
		return ""
	}
	var same, never []map[string]any
	for _, key := range goodKeys {
		same = append(same, with(o, KeyProperty, key))
	}
	for _, key := range badKeys {
		never = append(never, with(o, KeyProperty, key))
	}
	return p.compare(p.before.Validate(o) == nil, same, never)
}

func (p pledge) outputBreach(o map[string]any) string {
	same := []map[string]any{o}
	for _, outcome := range outcomes {
		same = append(same, with(o, OutcomeProperty, outcome))
	}
	return p.compare(p.before.Validate(o) == nil, same, nil)
}

func (p pledge) compare(want bool, same, never []map[string]any) string {
	for _, o := range same {
		if got := p.after.Validate(o) == nil; got != want {
			return fmt.Sprintf("accepted=%v in place of %v: %v", got, want, o)
		}
	}
	for _, o := range never {
		if p.after.Validate(o) == nil {
			return fmt.Sprintf("accepted without a good key: %v", o)
		}
	}
	return ""
}

// neighbours are objects near o: less a member, with another value of one, with
// an unknown one, and with the names of the additions inside of nested objects.
func neighbours(o map[string]any) []map[string]any {
	out := []map[string]any{o, with(o, "zz", "x"), with(o, "zz", json.Number("1"), "yy", map[string]any{})}
	for _, name := range slices.Sorted(maps.Keys(o)) {
		less := maps.Clone(o)
		delete(less, name)
		out = append(out, less, with(o, name, json.Number("7")), with(o, name, map[string]any{}))
		for _, nested := range intrude(o[name]) {
			out = append(out, with(o, name, nested))
		}
	}
	return out
}

// intrude returns the value with a name of ours in the objects within it.
func intrude(value any) (out []any) {
	switch v := value.(type) {
	case map[string]any:
		for _, name := range []string{KeyProperty, RepeatProperty} {
			out = append(out, with(v, name, goodKey))
		}
		out = append(out, with(v, OutcomeProperty, map[string]any{}))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			for _, nested := range intrude(v[name]) {
				out = append(out, with(v, name, nested))
			}
		}
	case []any:
		for i := range v {
			for _, nested := range intrude(v[i]) {
				changed := slices.Clone(v)
				changed[i] = nested
				out = append(out, changed)
			}
		}
	}
	return out
}
