package toolschema

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A schemaWriter draws random schemas as JSON text. They are schemas in at least
// one dialect as a rule, and most can be satisfied.
type schemaWriter struct {
	chooser
	container   string // of the definitions
	addressing  string // how definitions are referred to: "path", or the word that names them
	definitions int
}

var (
	memberNames = []string{"a", "b", "default", "n"}
	// oddNames are those of patternProperties and of what is unknown.
	oddNames = []string{"x1", "long_name", "B_key", "n_of", "latency", "$ref", "properties"}
	// leafTexts stand where a schema describes no object.
	leafTexts = []string{
		`{"type":"string"}`, `{"type":"string","minLength":1,"maxLength":3,"pattern":"^[a-z]*$"}`, `{"type":"integer"}`, `{}`,
		`{"type":"number","minimum":0,"maximum":5,"multipleOf":1}`, `{"enum":["s","t",1,{"$ref":"#"}]}`, `{"type":["string","null"]}`,
		`{"type":"boolean","default":{"$ref":"#"},"title":"T"}`, `{"const":"s"}`, `{"not":{"type":"string"}}`, `true`, `{"format":"hostname"}`,
		`{"contentMediaType":"application/json","contentEncoding":"base64","examples":[{"idempotency_key":1}]}`,
	}
	// silentTexts say nothing of objects.
	silentTexts = []string{
		`"title":"T"`, `"description":"idempotency_key"`, `"$comment":"C"`, `"default":{"$ref":"#"}`, `"examples":[{"$ref":"#"}]`, `"deprecated":true`,
		`"readOnly":true`, `"writeOnly":false`, `"x-odd":{"const":{},"$anchor":"d0"}`, `"minLength":2`, `"maximum":1e400`, `"maxItems":0`,
		`"pattern":"^x$"`, `"format":"uuid"`, `"items":{"type":"null"}`, `"contentMediaType":"text/plain"`, `"uniqueItems":true`, `"multipleOf":3`,
	}
	nameTexts = []string{
		`true`, `{"maxLength":3}`, `{"minLength":2}`, `{"pattern":"^[a-z_]+$"}`, `{"pattern":"^[A-Z]"}`, `{"enum":["a","b","n"]}`, `{"const":"a"}`,
		`{"not":{"const":"b"}}`, `false`, `{"type":"string","format":"hostname"}`, `{"anyOf":[{"maxLength":1},{"enum":["long_name"]}]}`,
	}
)

// A chooser returns a number below n, all of them equally likely.
type chooser func(n int) int

// drawn chooses by rapid, so that what was chosen can be made smaller.
func drawn(t *rapid.T) chooser {
	return func(n int) int { return rapid.SampledFrom(upTo[:n]).Draw(t, "pick") }
}

var upTo = func() (numbers [100]int) {
	for i := range numbers {
		numbers[i] = i
	}
	return numbers
}()

// chance is true in percent of a hundred draws. What is drawn least, because
// rapid looks for the smallest, makes nothing.
func (pick chooser) chance(percent int) bool { return pick(100) >= 100-percent }

func (pick chooser) oneOf(texts ...string) string { return texts[pick(len(texts))] }

// drawSchema draws a whole schema.
func drawSchema(pick chooser) string {
	w := schemaWriter{chooser: pick, container: "$defs", addressing: "path"}
	if w.chance(40) {
		w.container = "definitions"
	}
	if w.chance(15) {
		w.addressing = w.oneOf("$anchor", "$id", "id", "address")
	}
	if w.addressing != "path" && w.addressing != "$anchor" {
		w.container = "definitions" // the one that drafts which know such names look into
	}
	w.definitions = w.chooser(4)
	var members []string
	if w.chance(30) {
		members = append(members, `"$schema":"`+w.oneOf("http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-06/schema#",
			"http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2019-09/schema", "https://json-schema.org/draft/2020-12/schema")+`"`)
	}
	if w.chance(5) {
		members = append(members, `"$id":"https://tool.example/root.json"`)
	}
	members = append(members, w.rootMembers()...)
	if w.definitions > 0 {
		members = append(members, fmt.Sprintf(`%q:{%s}`, w.container, strings.Join(w.drawDefinitions(), ",")))
	}
	return "{" + strings.Join(members, ",") + "}"
}

// rootMembers are those of the root; one in ten is nothing but a definition.
func (w schemaWriter) rootMembers() []string {
	if w.definitions > 0 && w.chance(10) {
		return []string{`"$ref":"` + w.refersTo(w.chooser(w.definitions)) + `"`}
	}
	return w.members(2, 0)
}

func (w schemaWriter) drawDefinitions() (out []string) {
	for i := range w.definitions {
		members := w.members(1, i+1)
		switch w.addressing {
		case "$anchor":
			members = append(members, fmt.Sprintf(`"$anchor":"d%d"`, i))
		case "$id", "id":
			members = append(members, fmt.Sprintf(`%q:"#d%d"`, w.addressing, i))
		case "address":
			members = append(members, fmt.Sprintf(`"$id":"https://tool.example/d%d"`, i))
		}
		out = append(out, fmt.Sprintf(`"d%d":{%s}`, i, strings.Join(members, ",")))
	}
	if w.chance(10) { // a name that a copy may be given
		out = append(out, fmt.Sprintf(`"keyed%d":false`, 1+w.chooser(2)))
	}
	return out
}

func (w schemaWriter) refersTo(definition int) string {
	if w.addressing == "address" {
		return fmt.Sprintf("https://tool.example/d%d", definition)
	}
	if w.addressing != "path" && w.chance(70) {
		return fmt.Sprintf("#d%d", definition)
	}
	return fmt.Sprintf("#/%s/d%d", w.container, definition)
}

// applied draws a schema that applies to the same instance as the one around
// it. Only definitions from the given one on are referred to, so that none
// stands for itself.
func (w schemaWriter) applied(depth, from int) string {
	switch {
	case from < w.definitions && w.chance(30):
		return `{"$ref":"` + w.refersTo(from+w.chooser(w.definitions-from)) + `"}`
	case w.chance(4):
		return w.oneOf("true", "false", `{"type":"string"}`, `{"enum":[1,"s",[{}]]}`, `{"const":7}`)
	}
	return "{" + strings.Join(w.members(depth, from), ",") + "}"
}

// value draws a schema of a member, which may be of any kind and refer to
// anything.
func (w schemaWriter) value(depth int) string {
	switch {
	case w.definitions > 0 && w.chance(20):
		return `{"$ref":"` + w.refersTo(w.chooser(w.definitions)) + `"}`
	case depth <= 0 || w.chance(60):
		return leafTexts[w.chooser(len(leafTexts))]
	case w.chance(3):
		return w.oneOf(`{"$ref":"#"}`, `{"$ref":"#/properties/a"}`)
	case w.chance(20):
		return fmt.Sprintf(w.oneOf(`{"type":"array","items":%s}`, `{"prefixItems":[%s],"unevaluatedItems":false}`, `{"contains":%s,"minContains":1,"maxContains":2}`,
			`{"items":[%s],"additionalItems":false}`, `{"type":"array","minItems":1,"items":%s}`), w.value(depth-1))
	}
	return "{" + strings.Join(w.members(depth-1, 0), ",") + "}"
}

// members draws those of a schema that may describe an object.
func (w schemaWriter) members(depth, from int) (out []string) {
	add := func(percent int, draw func() string) {
		if w.chance(percent) {
			out = append(out, draw())
		}
	}
	add(50, func() string { return w.oneOf(`"type":"object"`, `"type":"object"`, `"type":["object","null"]`) })
	add(65, func() string {
		return fmt.Sprintf(`"properties":%s`, w.named(memberNames, func() string { return w.value(depth) }))
	})
	add(30, func() string {
		return w.oneOf(`"required":["a"]`, `"required":["b"]`, `"required":["a","n"]`, `"required":["zz"]`)
	})
	add(35, func() string { return fmt.Sprintf(`"additionalProperties":%s`, w.others()) })
	add(15, func() string { return fmt.Sprintf(`"unevaluatedProperties":%s`, w.others()) })
	add(8, func() string { return w.oneOf(`"minProperties":0`, `"minProperties":1`, `"minProperties":2`) })
	add(8, func() string {
		return w.oneOf(`"maxProperties":3`, `"maxProperties":2`, `"maxProperties":1`, `"maxProperties":0`)
	})
	add(8, func() string {
		return fmt.Sprintf(`"patternProperties":{%q:%s}`, w.oneOf("^x", "^[A-Z]", "^b$", "^long"), w.value(depth))
	})
	add(3, func() string { // these are about the additions as well
		return fmt.Sprintf(`"patternProperties":{%q:%s}`, w.oneOf("", "_key$", "_of$", "y$", "(?=i)"), w.value(0))
	})
	add(8, func() string { return `"propertyNames":` + nameTexts[w.chooser(len(nameTexts))] })
	add(15, func() string { return silentTexts[w.chooser(len(silentTexts))] })
	add(6, func() string {
		return w.oneOf(`"dependentRequired":{"a":["b"]}`, `"dependencies":{"a":["b"],"default":["a"]}`)
	})
	add(1, func() string {
		return w.oneOf(`"const":{}`, `"enum":[{"a":"s"},1]`, `"$dynamicRef":"#x"`, `"required":["idempotency_key"]`, `"$recursiveRef":"#"`)
	})
	if depth > 0 {
		out = append(out, w.combinations(depth-1, from)...)
	}
	return dedupe(out)
}

// combinations draws the members that apply further schemas to the instance.
func (w schemaWriter) combinations(depth, from int) (out []string) {
	sub := func() string { return w.applied(depth, from) }
	for _, word := range []string{"allOf", "anyOf", "oneOf"} {
		if w.chance(22) {
			list := []string{sub()}
			for range w.chooser(3) {
				list = append(list, sub())
			}
			out = append(out, fmt.Sprintf(`%q:[%s]`, word, strings.Join(list, ",")))
		}
	}
	if w.chance(10) {
		out = append(out, `"not":`+sub())
	}
	if w.chance(15) {
		for _, word := range []string{"if", "then", "else"} {
			if w.chance(75) {
				out = append(out, fmt.Sprintf(`%q:%s`, word, sub()))
			}
		}
	}
	for _, word := range []string{"dependentSchemas", "dependencies"} {
		if w.chance(8) {
			out = append(out, fmt.Sprintf(`%q:%s`, word, w.named(memberNames[:2], sub)))
		}
	}
	if from < w.definitions && w.chance(6) {
		out = append(out, `"$ref":"`+w.refersTo(from+w.chooser(w.definitions-from))+`"`)
	}
	return out
}

// others draws what is said of members without a description.
func (w schemaWriter) others() string {
	if w.definitions > 0 && w.chance(10) {
		return `{"$ref":"` + w.refersTo(w.chooser(w.definitions)) + `"}`
	}
	return w.oneOf("false", "false", "false", "true", `{"type":"integer"}`, `{"type":"string","maxLength":5}`, `{"not":{}}`, `{"type":["object","string"]}`)
}

func (w schemaWriter) named(names []string, schema func() string) string {
	var out []string
	for _, name := range names {
		if w.chance(50) {
			out = append(out, fmt.Sprintf("%q:%s", name, schema()))
		}
	}
	return "{" + strings.Join(out, ",") + "}"
}

// dedupe keeps the first of several members of one name.
func dedupe(members []string) (out []string) {
	seen := map[string]bool{}
	for _, m := range members {
		name, _, _ := strings.Cut(m, ":")
		if !seen[name] {
			seen[name] = true
			out = append(out, m)
		}
	}
	return out
}

// generatedTally counts what a run of generated schemas has proved.
type generatedTally struct{ schemas, refused, unread, objects, accepted atomic.Int64 }

// check draws a schema and objects for it, and returns how the rule is broken
// in one of the roles and dialects, or "".
func (g *generatedTally) check(t require.TestingT, pick chooser) string {
	text := drawSchema(pick)
	root, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	require.NoError(t, err, text)
	w := instanceWriter{chooser: pick, root: root}
	objects := make([]map[string]any, 8)
	for i := range objects {
		objects[i] = w.object()
	}
	upstream := newUpstreamSchema([]byte(text))
	for _, r := range roles {
		o := r.offer(t, upstream)
		g.schemas.Add(1)
		if o.refused != "" {
			g.refused.Add(1)
			continue
		}
		for _, dialect := range usualDialects {
			p, ok := o.pledge(t, dialect)
			if !ok {
				g.unread.Add(1)
				continue
			}
			if breach := g.checkObjects(p, objects); breach != "" {
				return fmt.Sprintf("%s in %s: %s\nbefore %s\nafter  %s", r.name, dialect, breach, text, o.after)
			}
		}
	}
	return ""
}

func (g *generatedTally) checkObjects(p pledge, objects []map[string]any) string {
	for _, object := range objects {
		if breach := p.breach(object); breach != "" {
			return breach
		}
		g.objects.Add(1)
		if p.before.Validate(object) == nil {
			g.accepted.Add(1)
		}
	}
	return ""
}

// shares says what the run was about. They are bounded, so that the rule cannot
// be kept by refusing every schema, nor by objects of one sort.
func (g *generatedTally) shares(t *testing.T) {
	t.Helper()
	schemas, refused, objects, accepted := g.schemas.Load(), g.refused.Load(), g.objects.Load(), g.accepted.Load()
	t.Logf("%d schemas in a role, %d %% of them refused, %d unread in a dialect; %d objects, %d %% of them valid",
		schemas, refused*100/schemas, g.unread.Load(), objects, accepted*100/max(objects, 1))
	assert.Less(t, refused*100, schemas*45, "too many schemas are refused")
	assert.Greater(t, accepted*100, objects*15, "too few objects are valid")
	assert.Less(t, accepted*100, objects*85, "too few objects are invalid")
}

// Equally likely choices make larger schemas than rapid's, which prefers the
// small.
func TestSeededSchemasKeepTheRuleInEveryRole(t *testing.T) {
	t.Parallel()
	var g generatedTally
	for seed := range uint64(250) {
		if breach := g.check(t, seeded(seed)); breach != "" {
			t.Fatalf("seed %d: %s", seed, breach)
		}
	}
	g.shares(t)
}

func seeded(seed uint64) chooser { return rand.New(rand.NewPCG(seed, 0)).IntN }

func TestRandomSchemasKeepTheRuleInEveryRole(t *testing.T) {
	t.Parallel()
	var g generatedTally
	rapid.Check(t, func(r *rapid.T) {
		for range 2 {
			require.Empty(r, g.check(r, drawn(r)))
		}
	})
	g.shares(t)
}

// FuzzRandomSchemasKeepTheRule is the same with the fuzzer's luck in place of
// rapid's.
func FuzzRandomSchemasKeepTheRule(f *testing.F) {
	for seed := range byte(8) {
		f.Add(randomBytes(seed, 8<<10))
	}
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) { require.Empty(t, new(generatedTally).check(t, drawn(t))) }))
}

// randomBytes are the same for the same seed.
func randomBytes(seed byte, n int) []byte {
	out := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(out) // it never fails
	return out
}
