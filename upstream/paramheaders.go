package upstream

import (
	"bytes"
	"math"
	"net/http"
	"strconv"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// nameOf says which parameter the header Mcp-Name repeats, by method (SEP-2243,
// and SEP-2663 for tasks).
var nameOf = map[string]string{
	"tools/call": "name", "prompts/get": "name", "resources/read": "uri",
	"tasks/get": "taskId", "tasks/update": "taskId", "tasks/cancel": "taskId",
}

// bodyHeaders are the headers in which the modern era repeats what the body says.
// They are made from the message as it is sent.
func bodyHeaders(m jsonrpc.Message, bound *paramBindings) http.Header {
	h := http.Header{}
	h.Set(mcp.HeaderMethod, m.Method)
	member, named := nameOf[m.Method]
	if !named {
		return h
	}
	params, err := rawjson.ParseTo(m.Params, 1)
	if err != nil {
		return h
	}
	name, ok := params.Get(member).Text()
	if !ok {
		return h
	}
	if encoded, ok := mcp.EncodeHeaderValue(name); ok {
		h.Set(mcp.HeaderName, encoded)
	}
	if m.Method == methodToolsCall {
		bound.add(h, name, params.Get("arguments"))
	}
	return h
}

const (
	methodToolsCall = "tools/call"
	methodToolsList = "tools/list"
	paramHeader     = "x-mcp-header"
)

// paramBindings know which arguments of which tool are repeated in a header, from
// the definitions that the server gave last. They are safe for concurrent use.
type paramBindings struct {
	mu     sync.Mutex
	byTool map[string][]mcp.ParamHeaderBinding
}

// learn reads the definitions in a result of tools/list. A tool that binds
// parameters in a way that the protocol forbids has no bindings.
func (b *paramBindings) learn(result []byte) {
	binding := bytes.Contains(result, []byte(paramHeader))
	b.mu.Lock()
	defer b.mu.Unlock()
	if !binding && len(b.byTool) == 0 {
		return
	}
	v, err := rawjson.ParseTo(result, 3)
	if err != nil {
		return
	}
	for _, tool := range v.Get("tools").Elements() {
		name, ok := tool.Get("name").Text()
		if !ok {
			continue
		}
		delete(b.byTool, name)
		if found := bindingsOf(tool.Get("inputSchema")); len(found) > 0 {
			if b.byTool == nil {
				b.byTool = map[string][]mcp.ParamHeaderBinding{}
			}
			b.byTool[name] = found
		}
	}
}

func bindingsOf(schema *rawjson.Value) []mcp.ParamHeaderBinding {
	if schema == nil || !bytes.Contains(schema.Raw(), []byte(paramHeader)) {
		return nil
	}
	tool := &mcp.Tool{RawInputSchema: schema.Raw()}
	if mcp.ValidateParamHeaderAnnotations(tool) != nil {
		return nil
	}
	return mcp.ExtractParamHeaderBindings(tool)
}

// add sets the headers of a call's arguments, which may be nil.
func (b *paramBindings) add(h http.Header, tool string, arguments *rawjson.Value) {
	b.mu.Lock()
	bound := b.byTool[tool]
	b.mu.Unlock()
	if len(bound) == 0 || arguments == nil {
		return
	}
	all, err := rawjson.Parse(arguments.Raw())
	if err != nil {
		return
	}
	for _, binding := range bound {
		v := all
		for _, name := range binding.Path {
			v = v.Get(name)
		}
		if value, ok := headerValue(v); ok {
			h.Set(binding.HeaderName(), value)
		}
	}
}

// headerValue writes a string, a boolean or an integer as a header has it; ok is
// false for everything else, and for no value. Integers are exact.
func headerValue(v *rawjson.Value) (value string, ok bool) {
	switch {
	case v == nil:
		return "", false
	case v.Is("true"), v.Is("false"):
		return string(v.Raw()), true
	case v.Kind == '0':
		return integer(string(v.Raw()))
	}
	text, ok := v.Text()
	if !ok {
		return "", false
	}
	return mcp.EncodeHeaderValue(text)
}

// integer writes a JSON number that is an integer in decimal digits. One that is
// written with a fraction or an exponent is converted, as far as that is exact.
func integer(number string) (digits string, ok bool) {
	if _, err := strconv.ParseInt(number, 10, 64); err == nil && number != "-0" {
		return number, true
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return "", false
	}
	return strconv.FormatInt(int64(f), 10), true
}
