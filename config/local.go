package config

import (
	"fmt"
	"path/filepath"
	"strings"
)

// A manner is how a server is reached, by its type.
type manner int

const (
	mannerUnsaid manner = iota
	mannerLocal
	mannerRemote
)

// entry reads how a server is reached.
func (r *reader) entry(m member, s *Server) {
	n := m.value
	if !r.servable(n) {
		return
	}
	said := r.manner(n)
	command, hasCommand := n.given("command")
	address, hasAddress := n.firstOf("url", "serverUrl", "httpUrl")
	switch {
	case hasCommand && hasAddress:
		r.fault(m.at, "it has a command and %s; take one of them out", address.name)
	case hasCommand && said == mannerRemote, hasAddress && said == mannerLocal:
		r.fault(m.at, "its type does not go with what it has; a command goes with stdio, and a url with http or sse")
	case hasCommand:
		r.local(n, command, s)
		r.idle(n, "a command", "headers", "http_headers", "env_http_headers", "bearer_token_env_var")
	case hasAddress:
		r.remote(n, address, s)
		r.idle(n, "a URL", "args", "env", "environment", "env_vars", "cwd")
	case m.name == "idempotency":
		r.fault(m.at, "this would be a server; write idempotency into a server, or beside the object of all servers")
	default:
		r.fault(m.at, "it has neither a command nor a url; give one of them")
	}
}

// unserved are members that change what a server is or does, and what to do, since
// nothing of the kind is done here.
var unserved = []struct{ name, advice string }{
	{"headersHelper", "a program that makes headers is not run; give headers"},
	{"http_headers_helper", "a program that makes headers is not run; give http_headers"},
	{"bearer_token", "a token does not stand in the file; name its variable in bearer_token_env_var"},
	{"envFile", "a file of variables is not read; give them in env, or their names in pass_env"},
	{"sandboxEnabled", "a client's sandbox is not made here; start the server by a sandbox's own command, or take it out"},
}

// servable adds an error for what cannot be served here.
func (r *reader) servable(n *node) bool {
	before := len(r.faults.list)
	for _, u := range unserved {
		if m, ok := n.member(u.name); ok && m.value.says() {
			r.fault(m.at, "%s: %s", u.name, u.advice)
		}
	}
	if m, ok := n.given("source"); ok && m.value.text != "custom" {
		r.fault(m.at, "a server of an extension is started by the client alone; give the server's own command")
	}
	for _, filter := range []string{"disabledTools", "disabled_tools", "excludeTools", "includeTools", "enabled_tools", "tools"} {
		m, ok := n.member(filter)
		all := ok && len(m.value.items) == 1 && m.value.items[0].text == "*"
		if ok && m.value.kind == kindList && m.value.says() && !all {
			r.note(m.at, "%s does nothing here: all tools are offered", filter)
		}
	}
	return len(r.faults.list) == before
}

// manner reads the type, which some call transport.
func (r *reader) manner(n *node) manner {
	m, ok := n.firstOf("type", "transport")
	if !ok {
		return mannerUnsaid
	}
	switch folded(m.value.text) {
	case "stdio", "local":
		return mannerLocal
	case "http", "streamablehttp", "remote", "sse": // which of them it is, is found out
		return mannerRemote
	case "ws", "websocket":
		r.fault(m.value.at, "web sockets are not spoken; give the server's URL for streamable HTTP")
	default:
		r.fault(m.value.at, "%s %s is not known; it may be stdio, http or sse", m.name, shown(m.value))
	}
	return mannerUnsaid
}

// idle notes members that say something and do nothing. Ours is an error.
func (r *reader) idle(n *node, to string, names ...string) {
	for _, name := range names {
		if m, ok := n.member(name); ok && m.value.says() {
			r.note(m.at, "%s does nothing: the server is reached by %s", name, to)
		}
	}
	if m, ok := n.member("pass_env"); ok && to == "a URL" {
		r.fault(m.at, "pass_env is for a server that is started by a command; take it out")
	}
}

// local reads a server that is started by a command: a text; or, as opencode has it,
// a list with the arguments; or, as old files of Zed's have it, an object.
func (r *reader) local(n *node, command member, s *Server) {
	program := command.value
	switch program.kind {
	case kindList:
		if len(program.items) == 0 {
			r.fault(program.at, "command is empty; give the program and its arguments")
			return
		}
		r.arguments(member{name: "command", value: &node{kind: kindList, items: program.items[1:], at: program.at}}, s)
		program = program.items[0]
	case kindObject:
		r.parameters(program, s)
		path, ok := program.given("path")
		if !ok {
			r.fault(program.at, "command has no path; give the program")
			return
		}
		program = path.value
	}
	r.program(program, s)
	r.parameters(n, s)
	r.checkItself(command, s)
}

// program reads what is started: a name for the PATH, or a path.
func (r *reader) program(n *node, s *Server) {
	text, ok := r.text("command", n)
	switch {
	case !ok:
	case strings.ContainsRune(filepath.ToSlash(text), '/'):
		r.toPath(&s.Command)("command", n)
	default:
		s.Command = text
	}
}

// parameters reads what a command is given.
func (r *reader) parameters(n *node, s *Server) {
	if m, ok := n.given("args"); ok {
		r.arguments(m, s)
	}
	for _, name := range []string{"env", "environment"} {
		if m, ok := n.given(name); ok {
			r.environment(m, s)
		}
	}
	if m, ok := n.given("cwd"); ok {
		r.toPath(&s.Dir)("cwd", m.value)
	}
	for _, name := range []string{"pass_env", "env_vars"} {
		if m, ok := n.given(name); ok {
			r.passed(m, s)
		}
	}
}

func (r *reader) arguments(m member, s *Server) {
	if m.value.says() && len(s.Args) > 0 {
		r.fault(m.value.at, "the arguments are given twice, in the command too; take one of them out")
		return
	}
	s.Args = append(s.Args, r.texts(m.name, m.value)...)
}

// environment reads an object of variables.
func (r *reader) environment(m member, s *Server) {
	if m.value.kind != kindObject {
		r.fault(m.value.at, "%s is no object; give one of variables by their names", m.name)
		return
	}
	given := map[string]bool{} // by the other spelling
	for _, variable := range s.Env {
		name, _, _ := strings.Cut(variable, "=")
		given[name] = true
	}
	for _, v := range m.value.members {
		switch {
		case !goodVariable(v.name):
			r.fault(v.at, "%s: the name of a variable is empty, or has = in it", m.name)
		case given[v.name]:
			r.fault(v.at, "%s: %s is given twice; take one out", m.name, v.name)
		case v.value.kind == kindNull:
			r.fault(v.value.at, "%s.%s has no value; give one, or \"\" for an empty one", m.name, v.name)
		default:
			if text, ok := r.anyText(m.name+"."+v.name, v.value); ok {
				s.Env = append(s.Env, v.name+"="+text)
			}
		}
	}
}

func goodVariable(name string) bool { return name != "" && !strings.ContainsAny(name, "=\x00") }

// passed reads a list of names of variables. Codex's may be objects that say where a
// variable comes from.
func (r *reader) passed(m member, s *Server) {
	if m.value.kind != kindList {
		r.fault(m.value.at, "%s is no list; give one of the names of variables", m.name)
		return
	}
	for i, item := range m.value.items {
		where := fmt.Sprintf("%s[%d]", m.name, i)
		if source, ok := item.given("source"); ok && source.value.text != "local" {
			r.fault(source.at, "%s: a variable comes from here; take its source out", where)
			continue
		}
		if name, ok := item.given("name"); ok {
			item = name.value
		}
		switch name, ok := r.text(where, item); {
		case !ok:
		case !goodVariable(name):
			r.fault(item.at, "%s is no name of a variable", where)
		default:
			s.PassEnv = append(s.PassEnv, name)
		}
	}
}

// checkItself adds an error where the server is mcp-idem: to serve one's own file
// would start processes without end, and a second gateway would ask for second keys.
func (r *reader) checkItself(command member, s *Server) {
	program := filepath.Base(filepath.ToSlash(s.Command))
	if strings.TrimSuffix(program, ".exe") == "mcp-idem" {
		r.fault(command.at, "it is mcp-idem itself; give the server's own command, or take the server out")
	}
}
