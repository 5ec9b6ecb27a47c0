package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// root reads the whole file.
func (r *reader) root(n *node) {
	r.slips(n)
	if m, ok := n.member("pass_env"); ok {
		r.fault(m.at, "pass_env is a member of a server; write it into those that get the variables")
	}
	var standard Guard
	if block, ok := n.member("idempotency"); ok {
		r.settings(block.value, &standard)
	}
	servers, ok := r.findServers(n)
	if !ok {
		return
	}
	off := r.switchedOff(n)
	live := 0
	for _, m := range servers.value.members {
		if why := off(m.name, m.value); why != "" {
			r.note(m.at, "server %q is left out: %s", m.name, why)
			continue
		}
		live++
		r.readServer(m, standard)
	}
	if live == 0 {
		r.fault(servers.at, "every server in %s is switched off; switch one on", servers.name)
	}
}

// slips are names so near to one of ours that no client can mean them: to leave them
// alone would leave out what they say.
func (r *reader) slips(n *node) {
	ours := []string{"idempotency", "pass_env"}
	for _, m := range n.members {
		if near := nearest(m.name, ours); near != "" && near != m.name {
			r.fault(m.at, "the member %q is not known; perhaps %s is meant", m.name, near)
		}
	}
}

// A home is where clients keep their servers.
type home struct {
	name     string // a dot stands for a member of a member, or for itself
	openCode bool   // whose variables have a spelling of their own
}

// homes are looked through in this order.
var homes = []home{{"mcpServers", false}, {"servers", false}, {"context_servers", false}, {"mcp.servers", true}, {"mcp", true}, {"mcp_servers", false}}

// findServers finds the object of servers: the first that has an object in it, since
// some of the names are used for other things too.
func (r *reader) findServers(n *node) (chosen member, ok bool) {
	var empty member
	for _, home := range homes {
		m, there := at(n, home.name)
		switch {
		case !there:
		case !ok && m.value.holdsObject():
			chosen, ok, r.openCode = m, true, home.openCode
		case ok && m.value.holdsObject("servers"): // mcp.servers is in mcp
			r.note(m.at, "the servers in %s are not read, since there are some in %s", m.name, chosen.name)
		case empty.value == nil:
			empty = m
		}
	}
	switch {
	case ok:
	case empty.value != nil:
		r.fault(empty.at, "there are no servers in %s; give an object with each server by its name", empty.name)
	default:
		r.fault(n.at, "there are no servers; give mcpServers, an object with each server by its name")
	}
	return chosen, ok
}

// at finds a member by its name, and else by the path that the name may be.
func at(n *node, home string) (member, bool) {
	if m, ok := n.member(home); ok {
		return m, true
	}
	outer, inner, dotted := strings.Cut(home, ".")
	if !dotted {
		return member{}, false
	}
	m, ok := n.member(outer)
	if !ok {
		return member{}, false
	}
	m, ok = m.value.member(inner)
	m.name = home
	return m, ok
}

// switchedOff returns what says why a server is left out, or "": its own members say
// so, or Gemini's lists beside the servers.
func (r *reader) switchedOff(n *node) func(name string, server *node) string {
	lists, _ := n.member("mcp")
	listed := func(list, name string) (there, isList bool) {
		m, ok := lists.value.member(list)
		if !ok || m.value.kind != kindList {
			return false, false
		}
		return slices.ContainsFunc(m.value.items, func(i *node) bool { return i.text == name }), true
	}
	return func(name string, server *node) string {
		if m, ok := server.given("disabled"); ok && !m.value.isFalse() && r.isTruth(name, m) {
			return "disabled is true"
		}
		if m, ok := server.given("enabled"); ok && !m.value.isTrue() && r.isTruth(name, m) {
			return "enabled is false"
		}
		if there, _ := listed("excluded", name); there {
			return "it is in mcp.excluded"
		}
		if there, isList := listed("allowed", name); isList && !there {
			return "it is not in mcp.allowed"
		}
		return ""
	}
}

// isTruth adds an error where a switch is neither true nor false.
func (r *reader) isTruth(server string, m member) bool {
	r.server = server
	defer func() { r.server = "" }()
	_, ok := r.truth(m.name, m.value)
	return ok
}

// MaxName is how many characters the name of a server may have: it is a prefix of the
// names of tools, for which model APIs have 64 in all.
const MaxName = 32

var (
	goodName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
	badRun   = regexp.MustCompile(`[^A-Za-z0-9-]+`)
)

// checkName adds an error where a name cannot be told from its tools' names in
// NAME__TOOL.
func (r *reader) checkName(m member) bool {
	var why string
	switch {
	case !goodName.MatchString(m.name):
		why = "may have letters, digits, - and _"
	case len(m.name) > MaxName:
		why = fmt.Sprintf("may have %d characters", MaxName)
	case strings.Contains(m.name, "__") || strings.HasSuffix(m.name, "_"):
		why = "may have no __ in it and no _ at its end"
	default:
		return true
	}
	better := strings.Trim(badRun.ReplaceAllString(m.name, "_"), "_-")
	better = strings.TrimRight(better[:min(len(better), MaxName)], "_-")
	if better == "" {
		better = "server"
	}
	r.fault(m.at, "the name %q begins the names of its tools, and %s; call it for instance %s", m.name, why, better)
	return false
}

// readServer reads one server, and keeps it.
func (r *reader) readServer(m member, standard Guard) {
	named := r.checkName(m)
	if m.value.kind != kindObject {
		r.fault(m.value.at, "server %q is no object; give one with command, or with url", m.name)
		return
	}
	if named {
		r.server = m.name
		defer func() { r.server = "" }()
	}
	r.slips(m.value)
	s := Server{Name: m.name, Guard: standard}
	r.entry(m, &s)
	if block, ok := m.value.member("idempotency"); ok {
		r.guard(block.value, &s)
	}
	r.file.Servers = append(r.file.Servers, s)
}
