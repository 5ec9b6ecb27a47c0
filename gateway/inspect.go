package gateway

import (
	"context"
	"errors"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
	"github.com/mcp-idem/mcp-idem/toolschema"
	"github.com/mcp-idem/mcp-idem/upstream"
)

// inspectProtocol is the revision that Inspect speaks as a client. A server that
// answers with another one lists its tools all the same.
const inspectProtocol = "2025-11-25"

// An InspectedTool is a tool of an upstream, as the upstream defines it and as a
// gateway offers it.
type InspectedTool struct {
	// Tool is what a gateway makes of it. Its Definition is nil where the tool is
	// not offered; the Problem says why, and where the upstream's definition cannot
	// be read, that is all there is.
	toolschema.Tool
	// Upstream is the definition as the upstream wrote it.
	Upstream []byte
	// Offered says that clients are shown the tool.
	Offered bool
}

// Inspect starts the upstream, reads its tools as a gateway with these options
// does, and ends it again. It returns them in the upstream's order, those that are
// not offered at their places; the gateway's own status tool is not among them. No
// ledger is needed and no tool is called. version is what Inspect tells the
// upstream of itself.
//
// An upstream that cannot be started, or refuses the handshake, is an
// *upstream.StartError. Listing may take a minute. Only Scope.Upstream,
// Dial, Upstream, Policy, Keys, ReachWithin and Log of the options count.
func Inspect(ctx context.Context, options Options, version string) ([]InspectedTool, error) {
	g := New(nil, options)
	defer g.end(errShutdown)
	server, err := g.options.Dial(g.options.Upstream)
	if err != nil {
		return nil, err
	}
	g.server = server
	defer func() {
		last, cancel := within(ctx, hurryCloseFor)
		defer cancel()
		_ = server.Close(last) // its error is that of the context, and nothing is left in any case
	}()
	if _, err := g.introduceItself(ctx, version); err != nil {
		return nil, err
	}
	return g.inspect(ctx)
}

// introduceItself makes the handshake, as a client that can do nothing, and returns
// what the upstream has answered: a JSON object.
func (g *Gateway) introduceItself(ctx context.Context, version string) (result []byte, err error) {
	return g.introduce(ctx, fmt.Appendf(nil, `{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"mcp-idem","version":%s},"_meta":{%q:{}}}`,
		inspectProtocol, rawjson.Quote(version), mcp.MetaKeyClientCapabilities))
}

// introduce makes the handshake with the params of an initialize, and returns what
// the upstream has answered: a JSON object.
func (g *Gateway) introduce(ctx context.Context, params []byte) (result []byte, err error) {
	answer, err := g.server.Initialize(ctx, params)
	if err != nil {
		return nil, err
	}
	if refused, ok := jsonrpc.ParseError(answer.Error); ok {
		return nil, &upstream.StartError{Name: g.options.Scope.Upstream, Err: refused, Reason: "refused the handshake: " + refused.Error()}
	}
	if result, err := rawjson.ParseObject(answer.Result); err == nil {
		g.learn(result)
	}
	return answer.Result, g.server.Initialized(jsonrpc.Notification("notifications/initialized", nil))
}

func (g *Gateway) inspect(ctx context.Context) ([]InspectedTool, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, listWithin, fmt.Errorf("no answer within %s", listWithin))
	defer cancel()
	var results [][]byte
	_, err := g.tools.readAll(ctx, func(result []byte) { results = append(results, result) })
	var refused *jsonrpc.Error
	switch {
	case errors.As(err, &refused) && refused.Code == jsonrpc.CodeMethodNotFound && !g.hasTools.Load():
		return nil, nil // it has no tools, and has not said that it had
	case err != nil:
		return nil, fmt.Errorf("listing the tools of %q: %w", g.options.Scope.Upstream, err)
	}
	var all []InspectedTool
	for _, result := range results {
		page, err := inspectPage(g.options.Policy, result)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
	}
	return all, nil
}

// inspectPage sets the tools of one tools/list result beside what they become.
func inspectPage(policy toolschema.Policy, result []byte) ([]InspectedTool, error) {
	rewritten, err := policy.RewritePage(result)
	if err != nil {
		return nil, err
	}
	list, err := rawjson.Parse(result)
	if err != nil {
		return nil, err
	}
	offered, dropped := rewritten.Tools, rewritten.Dropped
	var all []InspectedTool
	for place, definition := range list.Get("tools").Elements() {
		t := InspectedTool{Upstream: definition.Raw()}
		if len(dropped) > 0 && dropped[0].Place == place {
			t.Tool, dropped = dropped[0].Tool, dropped[1:]
			t.Definition = nil
		} else {
			t.Tool, offered = offered[0], offered[1:]
			t.Offered = true
		}
		all = append(all, t)
	}
	return all, nil
}
