package gateway

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// An era is how a client speaks. Within the gateway everything is as in the legacy
// one: neutral makes a request so, and era.answer gives the answer its shape.
type era int

const (
	legacy era = iota // a handshake, then requests: revisions up to 2025-11-25
	modern            // each request says all of it: revisions from 2026-07-28 on
)

// The codes that the revision 2026-07-28 defines (basic/index, section Error Codes).
const (
	codeHeaderMismatch     = -32020
	codeUnsupportedVersion = -32022
)

// A preamble is what a modern request says of its client in its _meta, in place of
// a handshake.
type preamble struct {
	stated       bool   // there is a protocol version
	version      string // as the client wrote it
	client       []byte // clientInfo, raw, or nil; never an identity
	capabilities []byte // raw, or nil
	logLevel     string // least severe of the log messages that the client wants; "": none
}

// preambleMembers are those that concern only the hop from the client to here.
var preambleMembers = []string{
	mcp.MetaKeyProtocolVersion, mcp.MetaKeyClientInfo, mcp.MetaKeyClientCapabilities, mcp.MetaKeyLogLevel,
}

// readPreamble reads the preamble of a request's params; zero where there is none.
func readPreamble(params []byte) (p preamble) {
	meta := metaOf(params).Get("_meta")
	version := meta.Get(mcp.MetaKeyProtocolVersion)
	p.stated = version != nil
	p.version, _ = version.Text()
	if client := meta.Get(mcp.MetaKeyClientInfo); client.IsObject() {
		p.client = client.Raw()
	}
	if capabilities := meta.Get(mcp.MetaKeyClientCapabilities); capabilities.IsObject() {
		p.capabilities = capabilities.Raw()
	}
	p.logLevel, _ = meta.Get(mcp.MetaKeyLogLevel).Text()
	return p
}

// metaOf reads params that may have a preamble, and is nil for all others.
func metaOf(params []byte) *rawjson.Value {
	if !bytes.Contains(params, []byte(`io.modelcontextprotocol/`)) && !bytes.Contains(params, []byte(`\`)) {
		return nil // an escaped name has a backslash in it
	}
	read, err := rawjson.ParseTo(params, 2)
	if err != nil {
		return nil
	}
	return read
}

// era says how the request is to be taken. One that states a legacy revision in its
// _meta has still come by a handshake; one that states a revision that nobody knows
// is for modern error codes to answer.
func (p preamble) era() era {
	if p.stated && !slices.Contains(mcp.LegacyProtocolVersions(), p.version) {
		return modern
	}
	return legacy
}

// fault says what makes a modern request unfit to be served, by the rules that hold
// on every transport; nil: nothing.
func (p preamble) fault() *jsonrpc.Error {
	switch {
	case p.version == "":
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "missing or invalid _meta field " + mcp.MetaKeyProtocolVersion}
	case p.version != mcp.ProtocolVersion20260728:
		return unsupportedVersion(p.version)
	case p.capabilities == nil:
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "missing or invalid _meta field " + mcp.MetaKeyClientCapabilities}
	}
	return nil
}

func unsupportedVersion(version string) *jsonrpc.Error {
	return &jsonrpc.Error{
		Code: codeUnsupportedVersion, Message: "Unsupported protocol version",
		Data: fmt.Appendf(nil, `{"supported":%s,"requested":%s}`, supportedVersions(), rawjson.Quote(version)),
	}
}

// supportedVersions are the protocol's revisions, newest first, as a JSON array.
func supportedVersions() []byte {
	return []byte(`["` + strings.Join(mcp.ValidProtocolVersions, `","`) + `"]`)
}

var revision = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}$`)

// isModernRevision reports whether a protocol version is one of the modern era,
// known or not. Revisions are dates.
func isModernRevision(version string) bool {
	return revision.MatchString(version) && mcp.IsModernProtocol(version)
}

// isRemoved reports whether a method of the legacy era is none in the modern one
// (changelog of 2026-07-28).
func isRemoved(method string) bool {
	switch method {
	case "initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe":
		return true
	}
	return false
}

// neutral returns a request without its preamble: what a client of the legacy era
// would have sent. What the client can do stays, if it can do anything: a modern
// upstream is told that for each request.
func neutral(m jsonrpc.Message) jsonrpc.Message {
	params := metaOf(m.Params)
	meta := params.Get("_meta")
	if !meta.IsObject() {
		return m
	}
	var edits rawjson.Edits
	goes := slices.Clone(preambleMembers)
	if can := meta.Get(mcp.MetaKeyClientCapabilities); can.IsObject() && !can.Is("{}") {
		goes = slices.DeleteFunc(goes, func(name string) bool { return name == mcp.MetaKeyClientCapabilities })
	}
	left := slices.ContainsFunc(meta.Fields(), func(f rawjson.Field) bool { return !slices.Contains(goes, f.Name) })
	if left || len(meta.Fields()) == 0 {
		edits.RemoveMembers(meta, goes...)
	} else {
		edits.RemoveMembers(params, "_meta")
	}
	if edits.Empty() {
		return m
	}
	return m.With("params", edits.Apply(params))
}

// answer gives the answer to a request of the method the shape of the caller's era;
// every other byte stays. server is the upstream's serverInfo, raw, or nil.
func (e era) answer(method string, reply jsonrpc.Message, server []byte) jsonrpc.Message {
	if reply.Result == nil {
		return reply
	}
	result := reply.Result
	switch e {
	case legacy:
		result = withoutComplete(result)
	case modern:
		result = complete(method, result, server)
	}
	if len(result) == len(reply.Result) {
		return reply
	}
	return reply.With("result", result)
}

// withoutComplete takes out a resultType that says what an absent one says too. A
// legacy client knows no such member, and may validate.
func withoutComplete(result []byte) []byte {
	if !bytes.Contains(result, []byte(`resultType`)) {
		return result
	}
	o, err := rawjson.ParseObject(result)
	if err != nil {
		return result
	}
	if kind, ok := o.String("resultType"); !ok || kind != string(mcp.ResultTypeComplete) {
		return result
	}
	return o.Without("resultType")
}

// complete adds the members that every modern result has to have (basic/index of
// 2026-07-28), where it lacks them. A cache is told not to keep what may be another
// caller's, or be over in a moment.
func complete(method string, result, server []byte) []byte {
	read, err := rawjson.ParseTo(result, 2)
	if err != nil || !read.IsObject() {
		return result
	}
	var edits rawjson.Edits
	add := func(member, value string) {
		if read.Get(member) == nil {
			edits.Append(read, []byte(`"`+member+`":`+value))
		}
	}
	add("resultType", `"complete"`)
	if isCached(method) {
		add("ttlMs", "0")
		add("cacheScope", `"private"`)
	}
	if server != nil {
		identity := slices.Concat([]byte(`"`+mcp.MetaKeyServerInfo+`":`), server)
		switch meta := read.Get("_meta"); {
		case meta == nil:
			edits.Append(read, slices.Concat([]byte(`"_meta":{`), identity, []byte("}")))
		case meta.IsObject() && meta.Get(mcp.MetaKeyServerInfo) == nil:
			edits.Append(meta, identity)
		}
	}
	return edits.Apply(read)
}

// isCached reports whether results of the method carry hints for caches
// (2026-07-28, server/utilities/caching).
func isCached(method string) bool {
	switch method {
	case "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read", "server/discover":
		return true
	}
	return false
}

// discovery is the result of server/discover, made of a handshake's.
func discovery(welcome []byte) []byte {
	o, err := rawjson.ParseObject(welcome)
	if err != nil {
		return []byte(`{}`)
	}
	capabilities, ok := o.Get("capabilities")
	if !ok {
		capabilities = []byte(`{}`)
	}
	result := slices.Concat([]byte(`{"supportedVersions":`), supportedVersions(), []byte(`,"capabilities":`), capabilities)
	if instructions, ok := o.Get("instructions"); ok {
		result = slices.Concat(result, []byte(`,"instructions":`), instructions)
	}
	return append(result, '}')
}
