package upstreamtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// A call is one message of the client on its way, most often a request.
type call struct {
	m      jsonrpc.Message
	line   line
	params rawjson.Object
	meta   rawjson.Object // of the params
	modern bool           // it is of the revision 2026-07-28
	reused bool           // its connection has carried another before

	tool      bool
	target    string // the tool, or else the method
	arguments []byte
	number    int // over all tools
	nth       int // of its target

	passed    int       // the questions of so many faults have been answered
	resumes   *question // the one that was answered last
	responses []byte    // the answers, raw

	over *ending // of the subscription that it opens
}

// newCall reads what a message says of itself.
func (s *server) newCall(m jsonrpc.Message, l line) call {
	c := call{m: m, line: l, target: m.Method, arguments: []byte("{}")}
	c.params, _ = rawjson.ParseObject(m.Params) // without params: no members
	raw, _ := c.params.Get("_meta")
	c.meta, _ = rawjson.ParseObject(raw)
	c.modern = s.speaksModern() && mcp.IsModernProtocol(c.version())
	if m.Method == "tools/call" && m.IsRequest() {
		c.tool = true
		c.target, _ = c.params.String("name")
		if raw, ok := c.params.Get("arguments"); ok {
			c.arguments = raw
		}
	}
	return c
}

// version is the revision that the request itself is in, empty before
// 2026-07-28.
func (c call) version() string {
	version, _ := c.meta.String(mcp.MetaKeyProtocolVersion)
	return version
}

// begin counts the call, and reports whether it is to be run.
func (s *server) begin(c *call) bool {
	if _, ok := s.tools[c.target]; c.tool && !ok {
		c.line.answer(jsonrpc.ErrorReply(c.m.ID, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Unknown tool: " + c.target}))
		return false
	}
	s.count(c)
	if c.m.Method == "subscriptions/listen" {
		c.over = s.subscribe(c.m.ID)
	}
	early, goOn := s.strike(*c, beforeRead, nil)
	if early != nil && goOn {
		c.line.answer(*early)
		return false
	}
	return goOn
}

// count gives the call its number. What is no call of a tool is counted in
// memory only.
func (s *server) count(c *call) {
	if !c.tool {
		s.mu.Lock()
		s.others[c.target]++
		c.nth = s.others[c.target]
		s.mu.Unlock()
		return
	}
	var err error
	c.number, c.nth, err = s.tally.count(c.target)
	must(err)
}

// run takes one request to its answer.
func (s *server) run(c call) {
	if c.tool && s.gate != "" {
		must(os.WriteFile(filepath.Join(s.gate, "started."+strconv.Itoa(c.number)), nil, 0o600))
	}
	switch {
	case !s.takeUp(&c): // with the answers to an earlier question
	case s.isTask(c):
		s.hand(c)
	default:
		s.work(c)
	}
}

// work does what the request asks for, and answers it.
func (s *server) work(c call) {
	early, goOn := s.strike(c, beforeEffect, nil)
	if !goOn {
		return
	}
	if early != nil { // an answer in place of the effect
		c.settle(*early)
		c.line.answer(*early)
		return
	}
	reply := s.perform(c)
	if reply == nil {
		return
	}
	c.settle(*reply)
	if answer, goOn := s.strike(c, afterEffect, reply); goOn {
		c.line.answer(*answer)
	}
}

// perform has the effect and returns the answer of a server in good order, nil
// where there is none.
func (s *server) perform(c call) *jsonrpc.Message {
	if !c.tool {
		return s.respond(c)
	}
	if c.modern && c.target == "ask_roots" && c.responses == nil {
		s.question(c, len(s.faults), `"roots":{"method":"roots/list"}`)
		return nil
	}
	if t, ok := c.line.(*task); ok && !t.begin() {
		return nil
	}
	if s.effects != "" && !readers[c.target] {
		effect := Effect{Tool: c.target, Arguments: c.arguments, Call: c.number, PID: os.Getpid(), At: time.Now()}
		must(appendTo(s.effects, effect.line(), true))
	}
	reply := c.result(s.result(c))
	return &reply
}

// result is the answer with what a result has in the call's era.
func (c call) result(raw []byte) jsonrpc.Message {
	if c.modern {
		raw = modernResult(c.m.Method, raw)
	}
	return jsonrpc.Result(c.m.ID, raw)
}

// refused is the answer with an error.
func (c call) refused(code int, format string, args ...any) *jsonrpc.Message {
	reply := jsonrpc.ErrorReply(c.m.ID, &jsonrpc.Error{Code: code, Message: fmt.Sprintf(format, args...)})
	return &reply
}
