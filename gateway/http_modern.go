package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// visit answers a message of the modern era: all that is known of the client is in
// it.
func (h *HTTP) visit(a *arrival, m jsonrpc.Message, p preamble) *refusal {
	switch {
	case m.IsNotification(): // there is none that would mean anything here
		a.w.WriteHeader(http.StatusAccepted)
		return nil
	case !m.IsRequest():
		return refuse(http.StatusBadRequest, jsonrpc.CodeInvalidRequest, "a response answers nothing in this revision")
	}
	problem := checkStandardHeaders(a.r.Header, m, p)
	if problem == nil {
		problem = p.fault()
	}
	if problem == nil && isRemoved(m.Method) {
		problem = &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "Method not found: " + m.Method}
	}
	if problem == nil && m.Method == "tools/call" {
		problem = h.checkParamHeaders(a.r, m)
	}
	if problem != nil {
		return (&refusal{status: statusOf(problem.Code), problem: problem}).forMessage(m)
	}
	if !h.letIn() {
		return refuse(http.StatusServiceUnavailable, codeUnavailable, "%d requests are open already; nothing was sent", MaxVisits).forMessage(m)
	}
	defer h.letOut()
	if m.Method == "subscriptions/listen" {
		return h.subscribe(a, m)
	}
	h.host(a, m, p)
	return nil
}

func (h *HTTP) letIn() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.visitors >= MaxVisits {
		return false
	}
	h.visitors++
	return true
}

func (h *HTTP) letOut() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.visitors--
}

// statusOf is the HTTP status of an error that is found before anything is done
// (basic/index and basic/transports/streamable-http, 2026-07-28).
func statusOf(code int) int {
	if code == jsonrpc.CodeMethodNotFound {
		return http.StatusNotFound
	}
	return http.StatusBadRequest
}

// refusesRequest reports whether an error says that the request itself was wrong,
// whoever has found that.
func refusesRequest(code int) bool {
	switch code {
	case jsonrpc.CodeMethodNotFound, jsonrpc.CodeInvalidRequest, jsonrpc.CodeInvalidParams, mcp.HEADER_MISMATCH, mcp.MISSING_REQUIRED_CLIENT_CAPABILITY, mcp.UNSUPPORTED_PROTOCOL_VERSION:
		return true
	}
	return false
}

// A visitor is the client of one modern request: the outlet of what is said to it.
type visitor struct {
	answer *stream
	level  severity // least of the log messages that it wants; zero: none
}

func (v visitor) put(m jsonrpc.Message, _ *Exchange) bool {
	switch {
	case m.IsResponse():
		return v.answer.end(m)
	case m.IsRequest(): // there are none in this era
		return false
	case m.Method == methodMessage && (v.level == 0 || severityOf(m) < v.level):
		return true
	}
	return v.answer.put(m)
}

// host has a request answered, and writes what is said to it. A client that hangs up
// cancels it (section Cancellation); a call that is recorded runs on nevertheless.
func (h *HTTP) host(a *arrival, m jsonrpc.Message, p preamble) {
	out := visitor{answer: newStream()}
	out.answer.events = a.accepts.prefersEvents()
	out.level, _ = parseSeverity(p.logLevel)
	out.answer.head = func(_ http.Header, alone *jsonrpc.Message) int {
		if alone != nil {
			if e, ok := jsonrpc.ParseError(alone.Error); ok && refusesRequest(e.Code) {
				return statusOf(e.Code)
			}
		}
		return http.StatusOK
	}
	requests := newExchanges(h.life, out)
	defer requests.end(nil)
	defer h.register(requests)()
	caller := newCaller(func(jsonrpc.Message) {})
	caller.namespace = a.principal
	caller.introduceAs(p.client)
	x := &Exchange{Caller: caller, era: modern, keys: headerKeys(a.r.Header), stream: out.answer}
	requests.begin(neutral(m), x, func(ctx context.Context, x *Exchange) jsonrpc.Message {
		return h.site.serve(ctx, x, neutral(m), out.level)
	})
	if !out.answer.serve(a.r.Context(), a.w, false) {
		requests.cancel(jsonrpc.Notification("notifications/cancelled", fmt.Appendf(nil, `{"requestId":%s,"reason":"the client closed the stream"}`, m.ID)))
	}
	requests.handlers.Wait()
}

// register lets a shutdown know of requests, until done is called. Those that come
// behind it are refused.
func (h *HTTP) register(requests *exchanges) (done func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.taking.Err() != nil {
		requests.close()
	}
	h.visits[requests] = true
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.visits, requests)
	}
}

// checkStandardHeaders holds the headers against the message (section Server
// Validation): whoever routes by them must see what is executed.
func checkStandardHeaders(h http.Header, m jsonrpc.Message, p preamble) *jsonrpc.Error {
	if p.stated {
		if problem := checkHeader(h, mcp.HeaderProtocolVersion, p.version); problem != nil {
			return problem
		}
	}
	if p.version != mcp.ProtocolVersion20260728 {
		return nil // that is worse than any header
	}
	if problem := checkHeader(h, mcp.HeaderMethod, m.Method); problem != nil {
		return problem
	}
	member := map[string]string{"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}[m.Method]
	if member == "" {
		return nil
	}
	params, err := rawjson.ParseObject(m.Params)
	if err != nil {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: m.Method + ": " + err.Error()}
	}
	name, ok := params.String(member)
	if !ok {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: m.Method + ": params have no " + member}
	}
	return checkHeader(h, mcp.HeaderName, name)
}

func checkHeader(h http.Header, name, want string) *jsonrpc.Error {
	values := h.Values(name)
	if len(values) != 1 || values[0] == "" {
		return mismatch("the header %s must be there, once; nothing was sent", name)
	}
	value, ok := values[0], true
	if name == mcp.HeaderName {
		value, ok = mcp.DecodeHeaderValue(value)
	}
	if !ok || value != want {
		return mismatch("the header %s is %q, and the body says %q; nothing was sent", name, values[0], want)
	}
	return nil
}

func mismatch(format string, args ...any) *jsonrpc.Error {
	return &jsonrpc.Error{Code: codeHeaderMismatch, Message: "Header mismatch: " + fmt.Sprintf(format, args...)}
}

// checkParamHeaders holds the headers that the tool's schema asks for against the
// arguments. What the tool is, is learned here rather than in the call's journey:
// a client that is told of a mismatch sends the call again by itself, so nothing may
// have been claimed. A tool that cannot be found is for the journey to speak of.
func (h *HTTP) checkParamHeaders(r *http.Request, m jsonrpc.Message) *jsonrpc.Error {
	params, err := rawjson.ParseObject(m.Params)
	if err != nil {
		return nil
	}
	name, _ := params.String("name")
	tool, err := h.site.find(r.Context(), name)
	if err != nil {
		return nil
	}
	schema := boundSchema(tool.Definition)
	if schema == nil {
		return nil
	}
	arguments, ok := params.Get("arguments")
	if !ok {
		arguments = []byte(`{}`)
	}
	err = mcp.ValidateParamHeadersLookup(func(name string) (string, bool) {
		values := r.Header.Values(name)
		return strings.Join(values, ", "), len(values) > 0 // as one (RFC 9110, section 5.3)
	}, &mcp.Tool{RawInputSchema: schema}, slices.Concat([]byte(`{"arguments":`), arguments, []byte("}")))
	var wrong mcp.HeaderMismatchError
	if errors.As(err, &wrong) {
		return mismatch("%s: %s; nothing was sent", wrong.Header, wrong.Reason)
	}
	return nil
}
