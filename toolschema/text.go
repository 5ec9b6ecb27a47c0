package toolschema

import (
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// The members that a keyed tool takes besides its own.
const (
	// KeyProperty carries the model's idempotency key.
	KeyProperty = "idempotency_key"
	// RepeatProperty carries the id of an earlier operation that the caller
	// knowingly repeats.
	RepeatProperty = "idempotency_repeat_of"
	// OutcomeProperty is the member that a replay adds to structuredContent.
	OutcomeProperty = "idempotency"
	// PolicyMeta is the member of a tool's _meta that states its policy.
	PolicyMeta = "mcp-idem/policy"
)

// The length of a key in characters, as the schema demands it.
const (
	MinKeyLength = 8
	MaxKeyLength = 255
)

// ExampleKey is the key that descriptions show. As a real key it is worthless,
// because every model has read it.
const ExampleKey = "refund:order-4812:1"

// A provider's usual "must be unique for every request" makes models mint a new
// key for a retry, which is the one thing that a key must prevent. So the text
// speaks of effects and retries, never of requests.
const keyText = "Names the one effect that this call is meant to have, as verb:thing:occurrence, for example " +
	ExampleKey + ". Use one key per intended effect. On any retry, timeout or unknown result send the SAME key. " +
	"Use a new key only for a new intent. Put no personal data in it."

// mintedText takes back what a tool's own description says to the contrary.
const mintedText = "Whatever is said above of new keys: a retry has the SAME key."

// shownNativeText describes a native key that stays in the schema although its
// value is filled in.
const shownNativeText = "Filled in from " + KeyProperty + "; any value will do."

// minting are the ways in which descriptions ask for a new key for each request:
// "a unique value per request", "generate a new UUID for every call", "must be
// different each time".
var minting = regexp.MustCompile(`(?i)\b(unique|new|fresh|random|different|distinct|own|generate\w*|uuid)\b[^.;\n]{0,60}\b(each|every|per|any)\b[^.;\n]{0,30}\b(request|call|invocation|attempt|try|time|submission|operation|execution)s?\b|` +
	`\b(each|every|per|any)\b[^.;\n]{0,30}\b(request|call|invocation|attempt|try|time|submission|execution)s?\b[^.;\n]{0,60}\b(unique|new|fresh|random|different|distinct|own)\b|` +
	`\b(never|not|don't)\b[^.;\n]{0,20}\bre-?us(e|ing)\b`)

// mintsKeys reports whether the description of a key tells the caller to make a
// new one for each request, which is the one thing that a key must prevent.
func mintsKeys(text string) bool { return minting.MatchString(text) }

const repeatText = "Only when a call was refused as a duplicate of an earlier one and is really wanted a second time: " +
	"the operation_id named in that refusal. Else leave it out, or empty."

const outcomeText = "Present on a replayed answer: when the call was executed, and that it was not executed again."

// keySchema is a plain string property. Strict modes of model APIs refuse
// pattern and format, so neither is used; where they refuse lengths as well, the
// clients that switch them on take lengths out.
func keySchema() []byte { return keySchemaSaying(keyText, MaxKeyLength) }

func keySchemaSaying(text string, longest int) []byte {
	return fmt.Appendf(nil, `{"type":"string","minLength":%d,"maxLength":%d,"description":%s}`,
		MinKeyLength, longest, rawjson.Quote(text))
}

func repeatSchema() []byte {
	return fmt.Appendf(nil, `{"type":"string","description":%s}`, rawjson.Quote(repeatText))
}

func outcomeSchema() []byte {
	return fmt.Appendf(nil, `{"type":"object","description":%s}`, rawjson.Quote(outcomeText))
}

// policyText is the line that a keyed tool's description ends with.
func (p Policy) policyText() string {
	line := "At most one effect per " + KeyProperty + ": a call repeated with the same key within " +
		spell(p.Window) + " gets the first answer again. After EFFECT_UNKNOWN it may have been executed: keep the key"
	if p.StatusTool != "" {
		line += " and ask " + p.StatusTool
	}
	return line + "."
}

// shortPolicyText stands in its place where a description has no room for more.
const shortPolicyText = "Send the same " + KeyProperty + " on any retry."

// policyMeta is the same for programs that plan calls.
func (p Policy) policyMeta(d Decision) []byte {
	meta := fmt.Appendf(nil, `{"class":%s,"window_seconds":%d,"near_duplicate":%s`,
		rawjson.Quote(string(d.Class)), int64(p.Window/time.Second), rawjson.Quote(string(d.NearDuplicate)))
	if p.StatusTool != "" {
		meta = fmt.Appendf(meta, `,"status_tool":%s`, rawjson.Quote(p.StatusTool))
	}
	return append(meta, '}')
}

// spell writes a window in its largest whole unit: 168h as "7 days".
func spell(d time.Duration) string {
	const day = 24 * time.Hour
	for _, u := range []struct {
		size time.Duration
		name string
	}{{day, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}} {
		switch {
		case d == u.size:
			return "1 " + u.name
		case d > 0 && d%u.size == 0:
			return fmt.Sprintf("%d %ss", d/u.size, u.name)
		}
	}
	return fmt.Sprintf("%d seconds", d/time.Second)
}

// shorten keeps a foreign text that is quoted in a message to one short line.
func shorten(s string) string {
	const limit = 60
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
	if runes := []rune(s); len(runes) > limit {
		s = string(runes[:limit]) + "…"
	}
	return s
}
