package upstream

import (
	"bytes"
	"slices"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// Methods that one of the eras has not.
const (
	methodDiscover         = "server/discover"
	methodListen           = "subscriptions/listen"
	methodSetLevel         = "logging/setLevel"
	methodSubscribe        = "resources/subscribe"
	methodUnsubscribe      = "resources/unsubscribe"
	notifyInitialized      = "notifications/initialized"
	notifyCancelled        = "notifications/cancelled"
	notifyRootsListChanged = "notifications/roots/list_changed"
	notifyAcknowledged     = "notifications/subscriptions/acknowledged"
)

// emptyResult answers the requests of the legacy era that need no server.
var emptyResult = []byte("{}")

// A dialect writes what is said in the manner of the legacy era as revision
// 2026-07-28 of the protocol wants it, and the reverse, for one connection. What
// initialize established once stands there in the _meta of each request. It is
// safe for concurrent use.
type dialect struct {
	version string
	client  []metaMember // who the client is and what it can do

	mu       sync.Mutex
	level    []byte // as the last logging/setLevel named it, raw; nil without one
	filter   filter
	refilter func() // told, without the lock, that the filter has changed; may be nil
}

// A metaMember is one member of _meta.
type metaMember struct {
	name  string
	value []byte // raw
}

// newDialect returns the dialect of a version, for the client whose initialize
// had these params.
func newDialect(version string, params []byte) *dialect {
	d := &dialect{version: version}
	d.client = append(d.client, metaMember{mcp.MetaKeyProtocolVersion, rawjson.Quote(version)})
	capabilities := []byte("{}")
	if v, err := rawjson.ParseTo(params, 2); err == nil {
		if own := v.Get("_meta").Get(mcp.MetaKeyClientCapabilities); own.IsObject() {
			capabilities = own.Raw()
		} else if own := v.Get("capabilities"); own.IsObject() {
			capabilities = own.Raw()
		}
		if info := v.Get("clientInfo"); info.IsObject() {
			d.client = append(d.client, metaMember{mcp.MetaKeyClientInfo, info.Raw()})
		}
	}
	d.client = append(d.client, metaMember{mcp.MetaKeyClientCapabilities, capabilities})
	return d
}

// legacyParams returns params without what only the modern era is told: what the
// client of a request can do. See Server.Initialize and Session.SendTo.
func legacyParams(params []byte) []byte {
	if !bytes.Contains(params, []byte(mcp.MetaKeyClientCapabilities)) && !bytes.Contains(params, []byte(`\u`)) {
		return params
	}
	v, err := rawjson.ParseTo(params, 2)
	if err != nil || v.Get("_meta").Get(mcp.MetaKeyClientCapabilities) == nil {
		return params
	}
	var edits rawjson.Edits
	if meta := v.Get("_meta"); len(meta.Fields()) > 1 {
		edits.RemoveMembers(meta, mcp.MetaKeyClientCapabilities)
	} else {
		edits.RemoveMembers(v, "_meta")
	}
	return edits.Apply(v)
}

// request returns the request as it is sent, or, for what the modern era does not
// have, the result that it gets here.
func (d *dialect) request(m jsonrpc.Message) (out jsonrpc.Message, local []byte) {
	switch m.Method {
	case methodPing:
		return m, emptyResult
	case methodSetLevel:
		d.setLevel(m.Params)
		return m, emptyResult
	case methodSubscribe, methodUnsubscribe:
		d.subscribe(m.Params, m.Method == methodSubscribe)
		return m, emptyResult
	}
	return m.With("params", d.withMeta(m.Params)), nil
}

// drops reports whether the modern era has no such notification.
func (d *dialect) drops(m jsonrpc.Message) bool {
	return m.Method == notifyInitialized || m.Method == notifyRootsListChanged
}

// withMeta adds what every request has to say to the params of one; everything
// else in them stays as it is. Params that are no object stay whole.
func (d *dialect) withMeta(params []byte) []byte {
	members := d.metaMembers()
	if params == nil {
		return slices.Concat([]byte(`{"_meta":`), objectOf(members), []byte("}"))
	}
	v, err := rawjson.ParseTo(params, 2)
	if err != nil || !v.IsObject() {
		return params
	}
	var edits rawjson.Edits
	meta := v.Get("_meta")
	switch {
	case meta == nil:
		edits.Append(v, slices.Concat([]byte(`"_meta":`), objectOf(members)))
	case !meta.IsObject():
		edits.Replace(meta.Start, meta.End, objectOf(members))
	default:
		for _, m := range members {
			old := meta.Get(m.name)
			switch {
			case old != nil && m.name == mcp.MetaKeyClientCapabilities: // the request's own
			case old != nil:
				edits.Replace(old.Start, old.End, m.value)
			default:
				edits.Append(meta, m.raw())
			}
		}
	}
	return edits.Apply(v)
}

func (d *dialect) metaMembers() []metaMember {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.level == nil {
		return d.client
	}
	return append(slices.Clip(d.client), metaMember{mcp.MetaKeyLogLevel, d.level})
}

func (m metaMember) raw() []byte { return slices.Concat(rawjson.Quote(m.name), []byte(":"), m.value) }

func objectOf(members []metaMember) []byte {
	out := []byte{'{'}
	for i, m := range members {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, m.raw()...)
	}
	return append(out, '}')
}

func (d *dialect) setLevel(params []byte) {
	v, err := rawjson.ParseTo(params, 1)
	if err != nil {
		return
	}
	if _, ok := v.Get("level").Text(); ok {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.level = v.Get("level").Raw()
	}
}

// subscribe adds the resource that the params name to what is listened for, or
// takes it away.
func (d *dialect) subscribe(params []byte, on bool) {
	v, err := rawjson.ParseTo(params, 1)
	if err != nil {
		return
	}
	uri, ok := v.Get("uri").Text()
	if !ok {
		return
	}
	d.mu.Lock()
	changed := slices.Contains(d.filter.uris, uri) != on
	if changed {
		d.filter = d.filter.with(uri, on)
	}
	refilter := d.refilter
	d.mu.Unlock()
	if changed && refilter != nil {
		refilter()
	}
}

// wanted returns what is listened for.
func (d *dialect) wanted() filter {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.filter
}

// incoming returns a notification of the server as the legacy era has it; ok is
// false for one that it has not.
func (d *dialect) incoming(m jsonrpc.Message) (out jsonrpc.Message, ok bool) {
	if m.Method == notifyAcknowledged {
		return m, false
	}
	v, err := rawjson.ParseTo(m.Params, 2)
	if err != nil {
		return m, true // no params
	}
	meta := v.Get("_meta")
	if meta.Get(mcp.MetaKeySubscriptionID) == nil {
		return m, true
	}
	var edits rawjson.Edits
	if len(meta.Fields()) == 1 {
		edits.RemoveMembers(v, "_meta")
	} else {
		edits.RemoveMembers(meta, mcp.MetaKeySubscriptionID)
	}
	return m.With("params", edits.Apply(v)), true
}

// onRefilter sets who is told, without the lock, when something else is wanted.
func (d *dialect) onRefilter(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refilter = f
}
