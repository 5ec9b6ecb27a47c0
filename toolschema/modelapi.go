package toolschema

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// The model APIs whose rules for tools are known.
const (
	APIAnthropic = "anthropic" // tools of the Messages API
	APIOpenAI    = "openai"    // function tools of Chat Completions and Responses
)

// A Refusal is a reason why a model API refuses a tool. An API that refuses one
// tool refuses the whole request, so that none of the host's tools can be used.
type Refusal struct {
	API     string // APIAnthropic or APIOpenAI
	Problem string // one line; names the place by a JSON pointer into the definition
}

// The longest tool names, in characters. Both APIs take the same characters.
//
// Anthropic: anthropics/claude-code#96152, home-assistant/core#147760; the limit
// was 64 until spring 2025, and still is in some hosts (malloydata/publisher#543).
// OpenAI: API reference, FunctionDefinition.name; nanbingxyz/5ire#33,
// mrexodia/ida-pro-mcp#129.
const (
	maxAnthropicName = 128
	maxOpenAIName    = 64
)

// maxDescription is the longest description of a function that OpenAI
// documents, in characters. OpenAI itself has not enforced it since May 2025
// (run-llama/llama_index#18784, OpenHands/OpenHands#10184), so a longer one is
// no Refusal; Azure enforced it at that time (langchain-ai/open_deep_research#80).
// A description within the limit had better stay within it. Descriptions of
// properties have none.
const maxDescription = 1024

// maxRefusals bounds what one definition is told.
const maxRefusals = 20

// maxRefusalDepth is how deeply nested schemas are looked at. Published ones
// nest about ten deep.
const maxRefusalDepth = 100

// Refusals lists why model APIs will refuse a tool, one element of a tools/list
// result, when a host hands its name, description and inputSchema on as they
// are. It is empty for a definition that no host can hand on because it is not
// JSON or has no object as its inputSchema.
//
// Only ordinary use is covered: the strict modes of both APIs refuse much more,
// and a host has to adapt schemas to them. Hosts that prefix names, as in
// mcp__server__tool, leave less room than is measured here by the name alone.
//
// The APIs document little of this. The sources of the rules are published error
// messages, named where the rule stands. There are at most 20 refusals, and
// schemas are looked at 100 levels deep. It is safe for concurrent use.
func Refusals(definition []byte) []Refusal {
	def, err := rawjson.Parse(definition)
	input := def.Get("inputSchema")
	if err != nil || !input.IsObject() {
		return nil
	}
	var r refusals
	if name, ok := def.Get("name").Text(); ok {
		r.name(name)
	}
	r.root(input)
	r.schema(input, "/inputSchema", 0)
	return r.found
}

type refusals struct{ found []Refusal }

func (r *refusals) add(problem string, apis ...string) {
	for _, api := range apis {
		if len(r.found) < maxRefusals {
			r.found = append(r.found, Refusal{API: api, Problem: problem})
		}
	}
}

var nameCharacters = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

func (r *refusals) name(name string) {
	if !nameCharacters.MatchString(name) {
		r.add(fmt.Sprintf("/name %q is not made of A-Z a-z 0-9 _ - alone", shorten(name)), APIAnthropic, APIOpenAI)
	}
	n := utf8.RuneCountInString(name)
	if n > maxAnthropicName {
		r.add(fmt.Sprintf("/name has %d characters, more than %d", n, maxAnthropicName), APIAnthropic)
	}
	if n > maxOpenAIName {
		r.add(fmt.Sprintf("/name has %d characters, more than %d", n, maxOpenAIName), APIOpenAI)
	}
}

// propertyName is what Anthropic takes as the name of a property at the root.
// Deeper ones are not looked at (decocms/studio#6874, and
// aws-solutions-library-samples/accelerated-intelligent-document-processing-on-aws#709).
var propertyName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)

// root checks what is demanded of the input schema itself.
//
// Anthropic: a type of "object" (lidge-jun/opencodex#75), no oneOf, allOf or
// anyOf (anthropics/claude-code#5973, kenn-io/kata#365), names of properties
// (anthropics/claude-code#79418). OpenAI: a type of "object" and none of oneOf,
// anyOf, allOf, enum and not (nspady/google-calendar-mcp#39,
// langchain-ai/langchainjs#9804); properties, even if there are none
// (github/copilot-cli#2223). A nested object without properties is accepted
// (caozhiyuan/copilot-api#131, prism-php/prism#746).
func (r *refusals) root(schema *rawjson.Value) {
	if typ, _ := schema.Get("type").Text(); typ != "object" {
		r.add(`/inputSchema has no type "object"`, APIAnthropic, APIOpenAI)
	}
	for _, keyword := range []string{"oneOf", "allOf", "anyOf"} {
		if schema.Get(keyword) != nil {
			r.add("/inputSchema has a root "+keyword, APIAnthropic, APIOpenAI)
		}
	}
	for _, keyword := range []string{"enum", "not"} {
		if schema.Get(keyword) != nil {
			r.add("/inputSchema has a root "+keyword, APIOpenAI)
		}
	}
	properties := schema.Get("properties")
	if properties == nil {
		r.add("/inputSchema has no properties, not even an empty object", APIOpenAI)
	}
	for _, f := range properties.Fields() {
		if !propertyName.MatchString(f.Name) {
			r.add(fmt.Sprintf("/inputSchema/properties has a name %q that is not 1 to 64 of A-Z a-z 0-9 _ . -", shorten(f.Name)), APIAnthropic)
		}
	}
}

// schema checks one schema at any depth.
//
// Both APIs validate it against the meta-schema of draft 2020-12, whatever its
// $schema says, and neither resolves references. Anthropic:
// "must match JSON Schema draft 2020-12" (openclaw/openclaw#98588, which tells
// what is accepted, too; Dokploy/mcp#74, taazkareem/clickup-mcp-server#16); older
// models let some of it pass. OpenAI: "is not of type 'object', 'boolean'"
// (advanced-security/codeql-development-mcp-server#262), "None is not of type
// 'array'" (yomorun/yomo#860).
//
// OpenAI also wants items of every array, even beside prefixItems or where the
// type is one of several (digitalocean-labs/mcp-digitalocean#265,
// PrefectHQ/fastmcp#2464, tidewave-ai/tidewave_phoenix#224). That has been seen
// under properties, items and anyOf, and is taken to hold everywhere.
func (r *refusals) schema(v *rawjson.Value, at string, depth int) {
	if depth > maxRefusalDepth || isBoolean(v) {
		return
	}
	if !v.IsObject() {
		r.invalid(at, "a schema")
		return
	}
	for _, f := range v.Fields() {
		if k, ok := keywords[f.Name]; ok {
			r.keyword(k, f.Value, at+"/"+f.Name, depth)
		}
	}
	if slices.Contains(typeNames(v.Get("type")), "array") && v.Get("items") == nil {
		r.add(at+" is an array without items", APIOpenAI)
	}
	if pattern, ok := v.Get("pattern").Text(); ok {
		r.pattern(pattern, at+"/pattern")
	}
	for _, f := range v.Get("patternProperties").Fields() {
		r.pattern(f.Name, at+"/patternProperties")
	}
}

func (r *refusals) invalid(at, want string) {
	r.add(at+" is not "+want+", as draft 2020-12 of JSON Schema demands", APIAnthropic, APIOpenAI)
}

// pattern checks a regular expression. OpenAI compiles it as Python does, which
// has no \p and no \u{, and names groups otherwise (BerriAI/litellm#40485,
// pleaseai/shunt#488, bman654/clodex#198); since GPT-5.5 it refuses to look
// around as well (SmartBear/smartbear-mcp#491, cline/cline#14019). Anthropic does
// not compile it (BerriAI/litellm#40358).
func (r *refusals) pattern(pattern, at string) {
	if construct := foreignRegexp(pattern); construct != "" {
		r.add(fmt.Sprintf("%s %q uses %s", at, shorten(pattern), construct), APIOpenAI)
	}
}

// foreignRegexp returns the first construct of a regular expression that OpenAI
// is known to refuse, or "".
func foreignRegexp(pattern string) string {
	inClass := false
	for i := 0; i < len(pattern); i++ {
		switch rest := pattern[i:]; {
		case hasPrefix(rest, `\p`, `\P`, `\u{`):
			return rest[:2]
		case rest[0] == '\\':
			i++
		case inClass || rest[0] == '[':
			inClass = rest[0] != ']'
		case hasPrefix(rest, "(?=", "(?!", "(?<=", "(?<!"):
			return "look-around"
		case hasPrefix(rest, "(?<"):
			return "(?<name>"
		}
	}
	return ""
}

func hasPrefix(s string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(s, prefix) })
}

// keyword is what the meta-schema allows as the value of a keyword.
type keyword uint8

const (
	keywordSchema keyword = iota
	keywordSchemas
	keywordSchemaMap
	keywordNamesMap
	keywordDependencies // a map of schemas and lists of names
	keywordNames
	keywordTypes
	keywordText
	keywordNumber
	keywordPositive
	keywordCount
	keywordFlag
	keywordList
)

// keywords are those that the meta-schema of draft 2020-12 has an opinion on:
// its vocabularies and the older keywords that it still describes. The patterns
// of $id and of anchors, and $vocabulary, are left out.
var keywords = map[string]keyword{
	"items": keywordSchema, "contains": keywordSchema, "additionalProperties": keywordSchema, "propertyNames": keywordSchema,
	"if": keywordSchema, "then": keywordSchema, "else": keywordSchema, "not": keywordSchema, "contentSchema": keywordSchema,
	"unevaluatedItems": keywordSchema, "unevaluatedProperties": keywordSchema,

	"allOf": keywordSchemas, "anyOf": keywordSchemas, "oneOf": keywordSchemas, "prefixItems": keywordSchemas,

	"properties": keywordSchemaMap, "patternProperties": keywordSchemaMap, "dependentSchemas": keywordSchemaMap,
	"$defs": keywordSchemaMap, "definitions": keywordSchemaMap,

	"dependentRequired": keywordNamesMap, "dependencies": keywordDependencies,

	"type": keywordTypes, "enum": keywordList, "examples": keywordList, "required": keywordNames,
	"uniqueItems": keywordFlag, "deprecated": keywordFlag, "readOnly": keywordFlag, "writeOnly": keywordFlag,

	"minimum": keywordNumber, "maximum": keywordNumber, "exclusiveMinimum": keywordNumber, "exclusiveMaximum": keywordNumber,
	"multipleOf": keywordPositive,
	"minLength":  keywordCount, "maxLength": keywordCount, "minItems": keywordCount, "maxItems": keywordCount,
	"minContains": keywordCount, "maxContains": keywordCount, "minProperties": keywordCount, "maxProperties": keywordCount,

	"title": keywordText, "description": keywordText, "$comment": keywordText, "pattern": keywordText, "format": keywordText,
	"contentEncoding": keywordText, "contentMediaType": keywordText, "$schema": keywordText, "$id": keywordText,
	"$ref": keywordText, "$anchor": keywordText, "$dynamicRef": keywordText, "$dynamicAnchor": keywordText,
	"$recursiveRef": keywordText, "$recursiveAnchor": keywordText,
}

func (r *refusals) keyword(k keyword, v *rawjson.Value, at string, depth int) {
	switch k {
	case keywordSchema:
		r.schema(v, at, depth+1)
	case keywordSchemas:
		if len(v.Elements()) == 0 {
			r.invalid(at, "a list of schemas")
		}
		for i, e := range v.Elements() {
			r.schema(e, at+"/"+strconv.Itoa(i), depth+1)
		}
	case keywordSchemaMap, keywordNamesMap, keywordDependencies:
		if !v.IsObject() {
			r.invalid(at, "an object")
		}
		for _, f := range v.Fields() {
			r.entry(k, f.Value, at+"/"+pointerEscaper.Replace(shorten(f.Name)), depth)
		}
	default:
		if want := plainKeywords[k]; !want.accepts(v) {
			r.invalid(at, want.text)
		}
	}
}

// entry checks one value in a map of schemas, of names or of both.
func (r *refusals) entry(k keyword, v *rawjson.Value, at string, depth int) {
	if k == keywordNamesMap || k == keywordDependencies && v.IsArray() {
		r.keyword(keywordNames, v, at, depth)
		return
	}
	r.schema(v, at, depth+1)
}

// pointerEscaper escapes a member name in a JSON pointer (RFC 6901, section 3).
var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

// plainKeywords says of the keywords that hold no schemas what they do hold.
var plainKeywords = map[keyword]struct {
	text    string
	accepts func(*rawjson.Value) bool
}{
	keywordNames:    {"a list of different names", isNames},
	keywordTypes:    {"a type or a list of different types", isTypes},
	keywordText:     {"a string", func(v *rawjson.Value) bool { return v.Kind == '"' }},
	keywordNumber:   {"a number", func(v *rawjson.Value) bool { return v.Kind == '0' }},
	keywordPositive: {"a number above 0", isPositive},
	keywordCount:    {"a whole number from 0", isCount},
	keywordFlag:     {"true or false", isBoolean},
	keywordList:     {"a list", (*rawjson.Value).IsArray},
}

func isBoolean(v *rawjson.Value) bool { return v.Kind == 't' || v.Kind == 'f' }

func isNames(v *rawjson.Value) bool {
	names, ok := v.Texts()
	return ok && allDifferent(names)
}

func isTypes(v *rawjson.Value) bool {
	names := typeNames(v)
	return len(names) > 0 && allDifferent(names) && !slices.ContainsFunc(names, func(name string) bool {
		return !slices.Contains([]string{"array", "boolean", "integer", "null", "number", "object", "string"}, name)
	})
}

// typeNames returns the one type or the several of a type keyword.
func typeNames(v *rawjson.Value) []string {
	if one, ok := v.Text(); ok {
		return []string{one}
	}
	names, _ := v.Texts()
	return names
}

func allDifferent(names []string) bool {
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		seen[name] = true
	}
	return len(seen) == len(names)
}

func isPositive(v *rawjson.Value) bool {
	return v.Kind == '0' && !hasPrefix(string(appendNumber(nil, string(v.Raw()))), "-", "0")
}

func isCount(v *rawjson.Value) bool {
	if v.Kind != '0' {
		return false
	}
	number := string(appendNumber(nil, string(v.Raw())))
	return !strings.HasPrefix(number, "-") && !strings.Contains(number, "e-")
}
