package config

import (
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/mcp-idem/mcp-idem/gateway"
	"github.com/mcp-idem/mcp-idem/toolschema"
	"github.com/mcp-idem/mcp-idem/upstream"
)

// Where members of idempotency belong that stand in the wrong block.
const (
	inTop    = "it holds for all servers together; write it into the idempotency beside the servers"
	inServer = "it holds for one server; write it into the idempotency of that server"
	inGuard  = "it holds for all tools of a server; write it into the idempotency of the server"
	inTool   = "it holds for tools; write tools: {GLOB: {…}} into the idempotency of their server, and it there"
	inEntry  = "it is a member of the server itself; write it beside idempotency"
)

// fromFlags are flags that have another form in a file.
var fromFlags = map[string]string{
	"name":     "a server's name is that of its member in mcpServers",
	"url":      inEntry,
	"header":   "headers are a member of the server itself; write them beside idempotency",
	"pass_env": inEntry,
}

// misplaced says of the names of members where they belong.
func misplaced(where string, m members, others map[string]string) map[string]string {
	all := map[string]string{}
	for name := range m {
		all[name] = where
	}
	for name, place := range others {
		all[name] = place
	}
	return all
}

// settings reads the idempotency block at the top.
func (r *reader) settings(n *node, guard *Guard) {
	elsewhere := misplaced(inServer, r.serverMembers(&Server{}), fromFlags)
	elsewhere = misplaced(inTool, r.toolMembers(&Tool{}), elsewhere)
	r.block(n, "idempotency", r.topMembers(&r.file.Settings).with(r.guardMembers(guard)), elsewhere)
}

// guard reads the idempotency block of a server.
func (r *reader) guard(n *node, s *Server) {
	elsewhere := misplaced(inTop, r.topMembers(&Settings{}), fromFlags)
	elsewhere = misplaced(inTool, r.toolMembers(&Tool{}), elsewhere)
	r.block(n, "idempotency", r.serverMembers(s).with(r.guardMembers(&s.Guard)), elsewhere)
}

func (r *reader) topMembers(s *Settings) members {
	return members{
		"ledger":       r.toLedger(&s.Ledger),
		"namespace":    r.toText(&s.Namespace),
		"http":         r.toAddress(&s.HTTP),
		"token_file":   r.toPath(&s.TokenFile),
		"max_body":     r.toSize(&s.MaxBody),
		"allow_origin": r.toOrigins(&s.AllowOrigins),
		"session_idle": r.toSpan(&s.SessionIdle),
		"late_start":   r.toSpan(&s.LateStart),
		"log_level":    toWord(r, &s.LogLevel, "debug", "info", "warn", "error", "disabled"),
		"log_format":   toWord(r, &s.LogFormat, "auto", "json", "console"),
	}
}

func (r *reader) guardMembers(g *Guard) members {
	return members{
		"call_timeout":          r.toSpan(&g.CallTimeout),
		"late_window":           r.toSpanOrNone(&g.LateWindow),
		"wait":                  r.toSpan(&g.Wait),
		"start_timeout":         r.toSpan(&g.StartTimeout),
		"window":                r.toSpan(&g.Window),
		"input_window":          r.toSpan(&g.InputWindow),
		"upstream_window":       r.toSpan(&g.UpstreamWindow),
		"near_duplicate_window": r.toSpan(&g.NearDuplicateWindow),
		"trust_annotations":     toWord(r, &g.TrustAnnotations, TrustAuto, TrustYes, TrustNo),
		"keys":                  toWord(r, &g.Keys, gateway.KeysModel, gateway.KeysHarness, gateway.KeysEither),
		"on_problem":            toWord(r, &g.OnProblem, toolschema.OnProblemRefuse, toolschema.OnProblemHarness, toolschema.OnProblemOmit),
		"era":                   toWord(r, &g.Era, upstream.EraAuto, upstream.EraLegacy, upstream.EraModern),
		"process":               toWord(r, &g.Process, gateway.Shared, gateway.PerSession),
		"strict_codes":          r.toTruth(&g.StrictCodes),
	}.with(r.textMembers(&g.Texts))
}

func (r *reader) serverMembers(s *Server) members {
	return members{
		"account": r.toText(&s.Account),
		"tools":   r.toTools(&s.Tools),
	}
}

func (r *reader) textMembers(t *Texts) members {
	return members{
		"ambiguous_texts":        r.toPatterns(&t.Ambiguous),
		"refusal_texts":          r.toPatterns(&t.Refusal),
		"nothing_happened_texts": r.toPatterns(&t.NothingHappened),
	}
}

// toLedger reads a path, or a URL, which may hold a password.
func (r *reader) toLedger(to *string) read {
	return func(name string, n *node) {
		text, ok := r.text(name, n)
		switch {
		case !ok:
		case strings.Contains(text, "://"):
			*to = text
		default:
			r.toPath(to)(name, n)
		}
	}
}

// toAddress reads a host and a port to listen on.
func (r *reader) toAddress(to *string) read {
	return func(name string, n *node) {
		text, ok := r.text(name, n)
		if !ok {
			return
		}
		_, port, err := net.SplitHostPort(text)
		if err == nil {
			_, err = strconv.ParseUint(port, 10, 16)
		}
		if err != nil {
			r.fault(n.at, "%s: %s is no address to listen on; give for instance 127.0.0.1:7423", name, shown(n))
			return
		}
		*to = text
	}
}

// toSize reads a number of bytes.
func (r *reader) toSize(to *int64) read {
	return func(name string, n *node) {
		text, ok := r.text(name, n)
		if !ok {
			return
		}
		bytes, err := strconv.ParseInt(text, 10, 64)
		if err != nil || bytes <= 0 {
			r.fault(n.at, "%s: %s is no number of bytes; give a whole one above 0, for instance 4194304", name, shown(n))
			return
		}
		*to = bytes
	}
}

// toOrigins reads a list of what browsers send as Origin (RFC 6454, section 7).
func (r *reader) toOrigins(to *[]string) read {
	return func(name string, n *node) {
		if n.kind != kindList {
			r.fault(n.at, "%s is no list; give one of origins", name)
			return
		}
		for _, item := range n.items {
			origin, ok := r.text(name, item)
			if !ok {
				continue
			}
			u, err := url.Parse(origin)
			if err != nil || u.Scheme == "" || u.Host == "" || origin != u.Scheme+"://"+u.Host {
				r.fault(item.at, "%s: %s is not what a browser sends as Origin; give for instance https://app.example or http://localhost:6274", name, shown(item))
				continue
			}
			*to = append(*to, origin)
		}
	}
}
