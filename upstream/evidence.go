package upstream

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// A FindingKind says what the response to a tools/call proves.
type FindingKind int

// The kinds of findings. The zero value is none of them.
const (
	_                   FindingKind = iota
	FoundResult                     // row 5: the tool answered
	FoundErrorResult                // row 6: the tool answered that it could not; that is its last word
	FoundNotExecuted                // row 3, or 6 by a configured pattern: nothing was executed
	FoundAmbiguous                  // rows 3, 6, 7: an error that leaves open whether the effect happened
	FoundErrorReply                 // row 7: a JSON-RPC error that names a definite refusal
	FoundURLElicitation             // row 4: a person has to visit an address first; nothing was executed
	FoundUnreadable                 // row 8: no answer that can be read
	FoundInputRequired              // row 10: the server asks for more before it goes on
	FoundTask                       // row 5: the server goes on by itself and gave a task handle
)

// String returns the kind in words.
func (k FindingKind) String() string {
	return [...]string{"none", "result", "error result", "not executed", "ambiguous", "error reply",
		"URL elicitation", "unreadable", "input required", "task"}[k]
}

// A Finding is what one response proves. The rows are those of the table in
// docs/guarantees.md.
type Finding struct {
	Kind   FindingKind
	Row    int
	Reason string         // as the outcome has it; empty for FoundResult
	Result []byte         // raw, where the response has one
	Error  *jsonrpc.Error // where the response has one
	Proof  *NotExecuted   // for FoundNotExecuted and FoundURLElicitation, else nil
}

// NotExecuted is the proof, as far as the conventions of the protocol are one,
// that a request which was sent had no effect. Only Judge and JudgeLoss make it.
type NotExecuted struct {
	row  int
	text string
}

func (e *NotExecuted) Error() string { return "the server did not execute the call: " + e.text }

// ProvesNotExecuted returns the row of the table that allows the key to be
// freed, and the reason that the caller is told.
func (e *NotExecuted) ProvesNotExecuted() (row int, reason string) { return e.row, reasonRefused }

// Codes of the Model Context Protocol. Those from -32020 to -32022 are for
// headers and versions that do not fit: the server looked no further.
const (
	codeURLElicitation = -32042
	codeHeaderMismatch = -32020
	codeLastOfHeaders  = -32022
)

// A Judgement holds what the texts of errors are taken to mean. A text decides
// where the protocol says nothing by itself, and can take the force of a proof
// from a code, never give it. It is read-only and safe for concurrent use.
type Judgement struct {
	// StrictCodes makes row 3 no proof: such an error is FoundAmbiguous. For
	// servers that answer with these codes after they have executed.
	StrictCodes bool
	// HarmlessTexts are cut out of a text before AmbiguousTexts look at it: talk
	// of a parameter that is called "timeout" is no timeout.
	HarmlessTexts []*regexp.Regexp
	// AmbiguousTexts find errors after which the tool itself does not know
	// whether the effect happened. They go before RefusalTexts, and before the
	// codes of row 3: a server that lost its own upstream half way reports that
	// under any code, and SDKs put a code of row 3 on a session that broke.
	AmbiguousTexts []*regexp.Regexp
	// RefusalTexts find JSON-RPC errors that say definitely that the tool
	// refused.
	RefusalTexts []*regexp.Regexp
	// NothingHappened finds results with isError that prove that nothing was
	// executed. It goes before all others; there is no default.
	NothingHappened []*regexp.Regexp
}

// Judge says what the response to a tools/call proves.
func (j Judgement) Judge(m jsonrpc.Message) Finding {
	if m.Error != nil {
		e, ok := jsonrpc.ParseError(m.Error)
		if !ok {
			return Finding{Kind: FoundUnreadable, Row: 8, Reason: reasonBadAnswer}
		}
		return j.judgeError(e)
	}
	result, err := rawjson.ParseObject(m.Result)
	if err != nil {
		return Finding{Kind: FoundUnreadable, Row: 8, Reason: reasonBadAnswer, Result: m.Result}
	}
	f := j.judgeResult(result)
	f.Result = m.Result
	return f
}

func (j Judgement) judgeResult(result rawjson.Object) Finding {
	kind, _ := result.String("resultType")
	flag, _ := result.Get("isError")
	switch {
	case kind == "input_required":
		return Finding{Kind: FoundInputRequired, Row: 10, Reason: reasonInputRequired}
	case kind == "task" || hasTaskHandle(result):
		return Finding{Kind: FoundTask, Row: 5, Reason: reasonTask}
	case string(flag) != "true":
		return Finding{Kind: FoundResult, Row: 5}
	}
	text := textOf(result)
	switch {
	case matches(j.NothingHappened, text):
		return Finding{Kind: FoundNotExecuted, Row: 6, Reason: reasonRefused, Proof: &NotExecuted{row: 6, text: "its error says so"}}
	case j.ambiguous(text):
		return Finding{Kind: FoundAmbiguous, Row: 6, Reason: reasonAmbiguous}
	}
	return Finding{Kind: FoundErrorResult, Row: 6, Reason: reasonUpstreamError}
}

func (j Judgement) judgeError(e *jsonrpc.Error) Finding {
	f := Finding{Error: e}
	switch {
	case e.Code == codeURLElicitation:
		f.Kind, f.Row, f.Reason = FoundURLElicitation, 4, reasonRefused
		f.Proof = &NotExecuted{row: 4, text: e.Error()}
	case refusedByCode(e) && j.ambiguous(e.Message):
		f.Kind, f.Row, f.Reason = FoundAmbiguous, 7, reasonAmbiguous
	case refusedByCode(e) && j.StrictCodes:
		f.Kind, f.Row, f.Reason = FoundAmbiguous, 3, reasonAmbiguous
	case refusedByCode(e):
		f.Kind, f.Row, f.Reason = FoundNotExecuted, 3, reasonRefused
		f.Proof = &NotExecuted{row: 3, text: e.Error()}
	case !j.ambiguous(e.Message) && matches(j.RefusalTexts, e.Message):
		f.Kind, f.Row, f.Reason = FoundErrorReply, 7, reasonUpstreamError
	default:
		f.Kind, f.Row, f.Reason = FoundAmbiguous, 7, reasonAmbiguous
	}
	return f
}

// refusedByCode reports whether the code is, by convention, given before
// anything is executed. Older SDKs also use -32602 when the *output* of a tool
// that has run does not fit its schema. What else the text says is not its
// concern.
func refusedByCode(e *jsonrpc.Error) bool {
	switch e.Code {
	case jsonrpc.CodeParseError, jsonrpc.CodeInvalidRequest, jsonrpc.CodeMethodNotFound:
		return true
	case jsonrpc.CodeInvalidParams:
		return aboutInput.MatchString(e.Message) && !aboutOutput.MatchString(e.Message)
	}
	return codeLastOfHeaders <= e.Code && e.Code <= codeHeaderMismatch
}

func (j Judgement) ambiguous(text string) bool {
	for _, harmless := range j.HarmlessTexts {
		text = harmless.ReplaceAllString(text, " ")
	}
	return matches(j.AmbiguousTexts, text)
}

// textOf returns what a result says to a reader: its text blocks, or its
// structured content where it has none.
func textOf(result rawjson.Object) string {
	content, _ := result.Get("content")
	blocks, _ := rawjson.ParseArray(content) // no array: no text
	var texts []string
	for _, raw := range blocks {
		if block, err := rawjson.ParseObject(raw); err == nil {
			if text, ok := block.String("text"); ok {
				texts = append(texts, text)
			}
		}
	}
	if len(texts) == 0 {
		structured, _ := result.Get("structuredContent")
		return string(structured)
	}
	return strings.Join(texts, "\n")
}

// hasTaskHandle reports whether the result is the handle of a task as revision
// 2025-11-25 of the protocol writes it.
func hasTaskHandle(result rawjson.Object) bool {
	raw, ok := result.Get("task")
	if !ok || !bytes.HasPrefix(raw, []byte("{")) {
		return false
	}
	task, err := rawjson.ParseObject(raw)
	if err != nil {
		return false
	}
	_, ok = task.String("taskId")
	return ok
}

func matches(patterns []*regexp.Regexp, text string) bool {
	for _, pattern := range patterns {
		if pattern.MatchString(text) {
			return true
		}
	}
	return false
}
