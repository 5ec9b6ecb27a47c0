package config

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// remote reads a server behind a URL.
func (r *reader) remote(n *node, address member, s *Server) {
	s.Headers = http.Header{}
	r.endpoint(address, s)
	r.headers(n, s)
	r.login(n, s)
}

// endpoint reads the URL. Of one that is refused no more than the scheme is told.
func (r *reader) endpoint(address member, s *Server) {
	text, ok := r.text(address.name, address.value)
	if !ok {
		return
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme == "":
		r.fault(address.value.at, "%s is no address of a server; give for instance https://example.com/mcp", address.name)
	case u.Scheme != "http" && u.Scheme != "https":
		r.fault(address.value.at, "%s begins with %s:, which is not spoken; give one that begins with https:// or http://", address.name, strconv.Quote(u.Scheme))
	case u.Host == "":
		r.fault(address.value.at, "%s names no host; give for instance https://example.com/mcp", address.name)
	default:
		s.URL = text
	}
}

// headers reads headers as all clients write them, and as Codex does.
func (r *reader) headers(n *node, s *Server) {
	for _, name := range []string{"headers", "http_headers"} {
		if m, ok := n.given(name); ok {
			r.headersOf(m, s, r.anyText)
		}
	}
	if m, ok := n.given("env_http_headers"); ok {
		r.headersOf(m, s, r.valueOf)
	}
	if m, ok := n.given("bearer_token_env_var"); ok {
		if token, ok := r.valueOf(m.name, m.value); ok {
			r.header(m.at, m.name, "Authorization", "Bearer "+token, s)
		}
	}
}

// headersOf reads an object of headers, whose values value makes.
func (r *reader) headersOf(m member, s *Server, value func(string, *node) (string, bool)) {
	if m.value.kind != kindObject {
		r.fault(m.value.at, "%s is no object; give one of headers by their names", m.name)
		return
	}
	for _, h := range m.value.members {
		if text, ok := value(m.name+"."+h.name, h.value); ok {
			r.header(h.at, m.name, h.name, text, s)
		}
	}
}

// valueOf is the value of the variable that a text names.
func (r *reader) valueOf(name string, n *node) (string, bool) {
	variable, ok := r.text(name, n)
	if !ok {
		return "", false
	}
	value, set := r.env(variable)
	if !set {
		r.fault(n.at, "%s: the variable it names is not set", name)
	}
	return value, set
}

// header adds a header (RFC 9110, section 5).
func (r *reader) header(at position, member, name, value string, s *Server) {
	value = strings.TrimSpace(value)
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		r.fault(at, "%s: %q is no name of a header", member, name)
	case strings.EqualFold(name, "Host"):
		r.fault(at, "%s: the host is that of the URL; put it there", member)
	case s.Headers.Values(name) != nil:
		r.fault(at, "%s: %s is given twice; take one out", member, name)
	case !httpguts.ValidHeaderFieldValue(value):
		r.fault(at, "%s: the value of %s has a character that no header may have", member, name)
	default:
		s.Headers.Set(name, value)
	}
}

// login adds an error where a client would log in and we cannot: without headers of
// its own the server would refuse every call.
func (r *reader) login(n *node, s *Server) {
	if s.Headers.Get("Authorization") != "" {
		return
	}
	for _, name := range []string{"oauth", "auth", "authProviderType"} {
		if m, ok := n.member(name); ok && m.value.says() {
			r.fault(m.at, "%s: there is no login here; give headers with Authorization", name)
		}
	}
}
