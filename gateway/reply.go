package gateway

import (
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
	"github.com/mcp-idem/mcp-idem/toolschema"
)

// A told is what a caller is told: an outcome, its words, and the result beside
// which they stand.
type told struct {
	outcome Outcome
	text    string // the first line of the text block; stands by itself
	// result is the upstream's, fresh or recorded; nil for the gateway's own
	// outcome.
	result []byte
	// question is the result where it asks for input before the call goes on.
	question []byte
	// quote is the upstream's text that an outcome of the gateway's own quotes.
	quote string
	// notError: an outcome of the gateway's own that is no error.
	notError bool
}

// bytes is the result of a tools/call. What the upstream answered keeps its
// bytes: the outcome is put into _meta, and words are only appended.
func (t told) bytes(tool toolschema.Tool) []byte {
	if t.result == nil {
		return t.own(tool)
	}
	result := t.result
	if t.text != "" {
		result = appendText(result, t.block())
	}
	replayed := t.outcome.WasReplay && t.text != "" // a repeated handle of a task has no words
	if replayed && tool.AnnotatesOutput {
		result = annotateStructured(result, t.outcome)
	}
	if replayed && tool.HasOutputSchema {
		result = excuseUnstructured(result)
	}
	return withOutcome(result, t.outcome)
}

// own is a result that has no upstream's answer in it. Clients validate
// structuredContent against the tool's outputSchema even on errors, so it is
// left out where there is one; and they want it on a success, so that is an
// error then.
func (t told) own(tool toolschema.Tool) []byte {
	result := []byte(`{"content":[`)
	result = append(result, textBlock(t.block())...)
	result = append(result, ']')
	if !tool.HasOutputSchema {
		result = append(result, `,"structuredContent":{"`+structuredMember+`":`...)
		result = append(result, t.outcome.json()...)
		result = append(result, '}')
	}
	if !t.notError || tool.HasOutputSchema {
		result = append(result, `,"isError":true`...)
	}
	return withOutcome(append(result, '}'), t.outcome)
}

// block is the text that a model reads: the fact, the outcome as JSON, and the
// upstream's own words marked as such.
func (t told) block() string {
	block := t.text + "\n" + string(t.outcome.json())
	if t.quote != "" {
		block += "\nThe tool's server said: " + t.quote
	}
	return block
}

func textBlock(text string) []byte {
	return append(append([]byte(`{"type":"text","text":`), rawjson.Quote(text)...), '}')
}

// appendText adds a text block behind the result's content. A result whose
// content is no array is left as it is: what cannot be read is not changed.
func appendText(result []byte, text string) []byte {
	o, err := rawjson.ParseObject(result)
	if err != nil {
		return result
	}
	content, ok := o.Get("content")
	if !ok {
		content = []byte(`[]`)
	}
	content, err = rawjson.AppendElement(content, textBlock(text))
	if err != nil {
		return result
	}
	return o.Set("content", content)
}

// annotateStructured adds the outcome to a structuredContent that is an object.
func annotateStructured(result []byte, outcome Outcome) []byte {
	o, err := rawjson.ParseObject(result)
	if err != nil {
		return result
	}
	structured, ok := o.Get("structuredContent")
	if !ok {
		return result
	}
	inner, err := rawjson.ParseObject(structured)
	if err != nil {
		return result
	}
	if _, taken := inner.Get(structuredMember); taken {
		return result
	}
	return o.Set("structuredContent", inner.Set(structuredMember, outcome.json()))
}

// excuseUnstructured marks a success without structuredContent as an error.
// Clients refuse such an answer of a tool with an outputSchema as a whole, and then
// nobody would learn that the call was executed. It is on record where a person has
// given it, or where the tool had no outputSchema at the time.
func excuseUnstructured(result []byte) []byte {
	o, err := rawjson.ParseObject(result)
	if err != nil {
		return result
	}
	structured, ok := o.Get("structuredContent")
	if isError, _ := o.Get("isError"); ok && string(structured) != "null" || string(isError) == "true" {
		return result
	}
	return o.Set("isError", []byte("true"))
}

// withOutcome puts the outcome into the result's _meta, whose other members stay.
func withOutcome(result []byte, outcome Outcome) []byte {
	o, err := rawjson.ParseObject(result)
	if err != nil {
		return result
	}
	meta, _ := o.Get("_meta")
	inner, err := rawjson.ParseObject(meta)
	if err != nil {
		inner, _ = rawjson.ParseObject([]byte(`{}`))
	}
	return o.Set("_meta", inner.Set(OutcomeMember, outcome.json()))
}
