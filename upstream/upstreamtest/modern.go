package upstreamtest

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// The eras of the protocol that a server can be of.
const (
	legacy = "legacy" // with a handshake, and sessions over HTTP
	modern = "modern" // since the revision 2026-07-28
	both   = "both"   // each client as it likes
	sse    = "sse"    // the HTTP transport of 2024-11-05
)

// modernVersion is the one revision of the modern era.
const modernVersion = mcp.ProtocolVersion20260728

const serverInfo = `{"name":"scripted","version":"1"}`

func (s *server) speaksModern() bool { return s.era == modern || s.era == both }

// supported lists the revisions that the server speaks, newest first.
func (s *server) supported() string {
	if s.era == both {
		return fmt.Sprintf(`["%s",%s]`, modernVersion, rawjson.Quote(s.protocol))
	}
	return `["` + modernVersion + `"]`
}

// refuse returns the answer to a request that is not of an era of the server, or
// says too little of itself; else nil.
func (s *server) refuse(c call) *jsonrpc.Message {
	capabilities, _ := c.meta.Get(mcp.MetaKeyClientCapabilities)
	_, err := rawjson.ParseObject(capabilities)
	version := c.version()
	if version == "" && c.m.Method == "initialize" {
		version, _ = c.params.String("protocolVersion")
	}
	switch {
	case !c.modern && s.era != modern:
		return nil
	case !c.modern && version == "":
		return c.refused(jsonrpc.CodeInvalidParams, "missing or invalid _meta field %s", mcp.MetaKeyProtocolVersion)
	case version != modernVersion:
		reply := jsonrpc.ErrorReply(c.m.ID, &jsonrpc.Error{
			Code: mcp.UNSUPPORTED_PROTOCOL_VERSION, Message: "unsupported protocol version",
			Data: fmt.Appendf(nil, `{"supported":%s,"requested":%s}`, s.supported(), rawjson.Quote(version)),
		})
		return &reply
	case err != nil:
		return c.refused(jsonrpc.CodeInvalidParams, "missing or invalid _meta field %s", mcp.MetaKeyClientCapabilities)
	}
	return nil
}

// respondModern answers what is there since the revision 2026-07-28 only.
func (s *server) respondModern(c call) *jsonrpc.Message {
	switch c.m.Method {
	case "server/discover":
		more := ""
		if s.faults.has("task") {
			more = `,"extensions":{"io.modelcontextprotocol/tasks":{}}`
		}
		reply := c.result([]byte(`{"supportedVersions":` + s.supported() + `,"capabilities":{"tools":{"listChanged":true},` +
			`"resources":{"subscribe":true},"prompts":{}` + more + `},"instructions":"Refund with care."}`))
		return &reply
	case "subscriptions/listen":
		return s.listen(c)
	}
	return c.refused(jsonrpc.CodeMethodNotFound, "Method not found")
}

// cacheable are the methods whose results say how long they keep.
var cacheable = map[string]bool{
	"tools/list": true, "resources/list": true, "prompts/list": true, "resources/read": true, "server/discover": true,
}

// modernResult adds the members that a result has since the revision
// 2026-07-28, unless they are there.
func modernResult(method string, raw []byte) []byte {
	raw = withDefault(raw, "resultType", `"complete"`)
	if cacheable[method] {
		raw = withDefault(raw, "ttlMs", "0")
		raw = withDefault(raw, "cacheScope", `"private"`)
	}
	raw = withDefault(raw, "_meta", "{}")
	object, err := rawjson.ParseObject(raw)
	must(err)
	meta, _ := object.Get("_meta")
	return object.Set("_meta", withDefault(meta, mcp.MetaKeyServerInfo, serverInfo))
}

func withDefault(raw []byte, member, value string) []byte {
	object, err := rawjson.ParseObject(raw)
	must(err)
	if _, ok := object.Get(member); ok {
		return raw
	}
	return object.Set(member, []byte(value))
}

// mismatch says what is wrong with the headers of a modern request, which have to
// say the same as its body; else it is empty.
func (s *server) mismatch(c call, header http.Header) string {
	switch version := header.Get(mcp.HeaderProtocolVersion); {
	case header.Get(mcp.HeaderLastEventID) != "":
		return "Last-Event-ID: streams are not resumable"
	case version != c.version():
		return fmt.Sprintf("%s: header value %q does not match %q", mcp.HeaderProtocolVersion, version, c.version())
	}
	if err := mcp.ValidateStandardHeaders(header.Get, c.version(), mcp.MCPMethod(c.m.Method), c.m.Params); err != nil {
		return err.Error()
	}
	if id, _ := c.params.String("taskId"); strings.HasPrefix(c.m.Method, "tasks/") && header.Get(mcp.HeaderName) != id {
		return mcp.HeaderName + ": header value does not match the task"
	}
	if !c.tool {
		return ""
	}
	schema, _ := s.tools[c.target].Get("inputSchema")
	lookup := func(name string) (string, bool) {
		values := header.Values(name)
		return strings.Join(values, ","), len(values) > 0
	}
	if err := mcp.ValidateParamHeadersLookup(lookup, &mcp.Tool{RawInputSchema: schema}, c.m.Params); err != nil {
		return err.Error()
	}
	return ""
}
