package upstream

import (
	"errors"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// A discovery is what a modern server has said of itself.
type discovery struct {
	capabilities *rawjson.Value
	info         *rawjson.Value // may be nil
	instructions *rawjson.Value // may be nil
}

// discovered reads the answer to server/discover. It fails with errNoHandshake.
func discovered(m jsonrpc.Message) (discovery, error) {
	v, err := rawjson.ParseTo(m.Result, 3)
	if err != nil || !v.IsObject() || !v.Get("capabilities").IsObject() {
		return discovery{}, errNoHandshake
	}
	if versions, ok := v.Get("supportedVersions").Texts(); ok && !mcp.IsModernProtocol(mcp.NegotiateMutuallySupportedVersion(versions)) {
		return discovery{}, &olderError{versions}
	}
	return discovery{
		capabilities: v.Get("capabilities"),
		info:         v.Get("_meta").Get(mcp.MetaKeyServerInfo),
		instructions: v.Get("instructions"),
	}, nil
}

// An olderError says of a server that it knows what a modern client begins with, and
// speaks older revisions only. It is an errNoHandshake to who has others to try.
type olderError struct{ versions []string }

func (e *olderError) Error() string {
	return "speaks only the revisions " + strings.Join(e.versions, ", ") + " of the protocol, and not the era that was asked for"
}

func (*olderError) Is(target error) bool { return target == errNoHandshake }

// noHandshake says what was wrong with an answer that is no handshake, and what to
// check.
func noHandshake(err error, check string) string {
	var older *olderError
	if errors.As(err, &older) {
		return older.Error() + "; let the era be found out"
	}
	return errNoHandshake.Error() + "; check that " + check
}

// initializeResult says the same as a legacy server says in answer to initialize.
// The version is the one that the client has asked for, where the legacy era has
// it: what the client is told in that version is the same. A server without a
// name gets the fallback, since the legacy era demands one.
func (d discovery) initializeResult(params []byte, fallback string) []byte {
	members := []metaMember{
		{"protocolVersion", rawjson.Quote(legacyVersion(params))},
		{"capabilities", d.capabilities.Raw()},
	}
	info := slices.Concat([]byte(`{"name":`), rawjson.Quote(fallback), []byte(`,"version":""}`))
	if d.info.IsObject() {
		info = d.info.Raw()
	}
	members = append(members, metaMember{"serverInfo", info})
	if _, ok := d.instructions.Text(); ok {
		members = append(members, metaMember{"instructions", d.instructions.Raw()})
	}
	return objectOf(members)
}

// changes returns the lists whose changes the server announces.
func (d discovery) changes() filter {
	announced := func(capability string) bool { return d.capabilities.Get(capability).Get("listChanged").Is("true") }
	return filter{tools: announced("tools"), prompts: announced("prompts"), resources: announced("resources")}
}

// legacyVersion returns the version that a legacy server would agree to.
func legacyVersion(params []byte) string {
	asked := ""
	if v, err := rawjson.ParseTo(params, 1); err == nil {
		asked, _ = v.Get("protocolVersion").Text()
	}
	if slices.Contains(mcp.LegacyProtocolVersions(), asked) {
		return asked
	}
	return mcp.LATEST_LEGACY_PROTOCOL_VERSION
}

// codeUnsupportedVersion is the error of a server that does not know the version
// of a request; its data name those that it knows.
const codeUnsupportedVersion = -32022

// otherVersion returns the newest modern version that both sides know, where the
// error says that the server does not know the one that was tried.
func otherVersion(e *jsonrpc.Error, tried string) (version string, ok bool) {
	if e.Code != codeUnsupportedVersion {
		return "", false
	}
	data, err := rawjson.ParseTo(e.Data, 2)
	if err != nil {
		return "", false
	}
	supported, _ := data.Get("supported").Texts()
	version = mcp.NegotiateMutuallySupportedVersion(supported)
	return version, mcp.IsModernProtocol(version) && version != tried
}

// A filter names what a modern server is asked to announce, on the stream of
// subscriptions/listen. It is a value: nothing in it is changed.
type filter struct {
	tools, prompts, resources bool     // changes of these lists
	uris                      []string // changes of these resources
}

func (f filter) empty() bool { return !f.tools && !f.prompts && !f.resources && len(f.uris) == 0 }

func (f filter) with(uri string, on bool) filter {
	f.uris = slices.DeleteFunc(slices.Clone(f.uris), func(u string) bool { return u == uri })
	if on {
		f.uris = append(f.uris, uri)
	}
	return f
}

// params are those of subscriptions/listen.
func (f filter) params() []byte {
	var members []metaMember
	for _, list := range f.lists() {
		members = append(members, metaMember{list + "ListChanged", []byte("true")})
	}
	if len(f.uris) > 0 {
		members = append(members, metaMember{"resourceSubscriptions", stringsOf(f.uris)})
	}
	return objectOf([]metaMember{{"notifications", objectOf(members)}})
}

func (f filter) lists() []string {
	var lists []string
	for _, l := range []struct {
		name   string
		wanted bool
	}{{"tools", f.tools}, {"prompts", f.prompts}, {"resources", f.resources}} {
		if l.wanted {
			lists = append(lists, l.name)
		}
	}
	return lists
}

// missed returns the announcements that may have been missed while nobody
// listened.
func (f filter) missed() []jsonrpc.Message {
	var all []jsonrpc.Message
	for _, list := range f.lists() {
		all = append(all, jsonrpc.Notification("notifications/"+list+"/list_changed", nil))
	}
	for _, uri := range f.uris {
		all = append(all, jsonrpc.Notification("notifications/resources/updated", objectOf([]metaMember{{"uri", rawjson.Quote(uri)}})))
	}
	return all
}

func stringsOf(texts []string) []byte {
	out := []byte{'['}
	for i, text := range texts {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, rawjson.Quote(text)...)
	}
	return append(out, ']')
}
