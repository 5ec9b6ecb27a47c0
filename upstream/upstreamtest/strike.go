package upstreamtest

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// strike lets the faults of this point act, in the order of the flags. Without
// goOn the call ends here, answered or not.
func (s *server) strike(c call, when string, answer *jsonrpc.Message) (_ *jsonrpc.Message, goOn bool) {
	for i, f := range s.faults {
		if !f.strikes(c, when) {
			continue
		}
		switch actions[f.action].kind {
		case pauses:
			s.pause(f, c)
		case shapes:
			c.line.shape(f)
		case answers:
			answer = replace(f, c, answer)
		case replies:
			c.line.reply(nonsense(f, c, answer))
			return nil, false
		case fails:
			fail(f, c)
			return nil, false
		case asks:
			if i >= c.passed && !s.ask(c, i, f.detail) {
				return nil, false
			}
		}
	}
	return answer, true
}

// pause does what holds a call up, or says something, and does not change its
// answer.
func (s *server) pause(f fault, c call) {
	what, params, _ := strings.Cut(f.detail, ":")
	switch f.action {
	case "gate":
		s.pass(f.detail)
	case "delay":
		<-time.After(f.duration())
	case "progress":
		token, _ := c.meta.Get("progressToken")
		for i := range f.number(0) {
			c.line.say(jsonrpc.Notification("notifications/progress",
				fmt.Appendf(nil, `{"progressToken":%s,"progress":%d}`, orNull(token), i+1)))
		}
	case "log":
		if _, asked := c.meta.Get(mcp.MetaKeyLogLevel); asked || !c.modern {
			c.line.say(jsonrpc.Notification("notifications/message",
				fmt.Appendf(nil, `{"level":"info","logger":"scripted","data":%s}`, rawjson.Quote(f.detail))))
		}
	case "request":
		s.inquire(c.line, what, []byte(params))
	case "notify":
		s.hub.tell(jsonrpc.Notification(what, []byte(params)))
	case "forget":
		s.sessions.forget()
		s.hub.close()
	}
}

// replace returns the answer that is to be sent in place of the one that there
// is, if there is one.
func replace(f fault, c call, answer *jsonrpc.Message) *jsonrpc.Message {
	reply := c.orEmpty(answer)
	switch f.action {
	case "error":
		code, text, _ := f.code()
		return c.refused(code, "%s", text)
	case "iserror":
		reply = c.result(fmt.Appendf(nil, `{"content":[{"type":"text","text":%s}],"isError":true}`, rawjson.Quote(f.detail)))
	case "result":
		reply = jsonrpc.Result(c.m.ID, []byte(f.detail))
	case "big":
		reply = c.result(fmt.Appendf(nil, `{"content":[{"type":"text","text":"%s"}]}`, bytes.Repeat([]byte("x"), f.number(0))))
	case "wrong_id":
		reply = reply.With("id", []byte("987654321"))
	case "string_id":
		reply = reply.With("id", []byte(`"`+string(c.m.ID)+`"`))
	case "twice":
		c.line.say(reply)
	}
	return &reply
}

// nonsense is what is sent where an answer belongs.
func nonsense(f fault, c call, answer *jsonrpc.Message) []byte {
	switch f.action {
	case "garbage":
		return []byte("Traceback (most recent call last):")
	case "broken":
		return fmt.Appendf(nil, `{"id":%s,"result":{}}`, orNull(c.m.ID))
	case "batch":
		return fmt.Appendf(nil, `[%s]`, c.orEmpty(answer).Raw())
	}
	return []byte("{}")
}

// fail does what leaves the request without an answer.
func fail(f fault, c call) {
	switch f.action {
	case "exit":
		os.Exit(f.number(1))
	case "kill":
		self, err := os.FindProcess(os.Getpid())
		must(err)
		must(self.Kill())
		select {} // until the signal comes
	default:
		c.line.fail(f)
	}
}

func (c call) orEmpty(answer *jsonrpc.Message) jsonrpc.Message {
	if answer == nil {
		return c.result([]byte(`{"content":[]}`))
	}
	return *answer
}
