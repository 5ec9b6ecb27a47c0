package upstreamtest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// defaultTools are offered where no other tools are given. What is offered from
// a file has an effect, and answers with a line of text.
const defaultTools = `[
{"name":"refund","description":"Refund an order.","inputSchema":{"type":"object","properties":{"order":{"type":"string"},"amount":{"type":"number"}},"required":["order"]}},
{"name":"send_mail","description":"Send a mail.","inputSchema":{"type":"object","properties":{"to":{"type":"string"},"subject":{"type":"string"},"body":{"type":"string"}},"required":["to"]},"annotations":{"destructiveHint":false}},
{"name":"note_set","description":"Set a note.","inputSchema":{"type":"object","properties":{"name":{"type":"string"},"text":{"type":"string"}},"required":["name"]},"annotations":{"idempotentHint":true}},
{"name":"get_balance","description":"Read a balance.","inputSchema":{"type":"object","properties":{"account":{"type":"string"}}},"annotations":{"readOnlyHint":true}},
{"name":"echo_raw","description":"Return the arguments as they came.","inputSchema":{"type":"object","maxProperties":9007199254740993},"annotations":{"readOnlyHint":true}},
{"name":"ask_roots","description":"Ask the client for its roots.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}
]`

// readers are the tools without an effect.
var readers = map[string]bool{"get_balance": true, "echo_raw": true, "ask_roots": true}

// A call is one tools/call on its way.
type call struct {
	m         jsonrpc.Message
	tool      string
	arguments []byte
	number    int // over all tools
	nth       int // of its tool
}

// call counts the call and runs it beside the others.
func (s *server) call(m jsonrpc.Message) {
	params, _ := rawjson.ParseObject(m.Params) // without params: no such tool
	c := call{m: m, arguments: []byte("{}")}
	c.tool, _ = params.String("name")
	if raw, ok := params.Get("arguments"); ok {
		c.arguments = raw
	}
	if !s.names[c.tool] {
		s.write(jsonrpc.ErrorReply(m.ID, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Unknown tool: " + c.tool}))
		return
	}
	var err error
	c.number, c.nth, err = s.tally.count(c.tool)
	must(err)
	if _, goOn := s.strike(c, beforeRead, nil); goOn {
		go s.run(c)
	}
}

// run takes one call through its effect to its answer.
func (s *server) run(c call) {
	if s.gate != "" {
		must(os.WriteFile(filepath.Join(s.gate, "started."+strconv.Itoa(c.number)), nil, 0o600))
	}
	early, goOn := s.strike(c, beforeEffect, nil)
	if !goOn {
		return
	}
	if early != nil { // an answer in place of the effect
		s.write(*early)
		return
	}
	if s.effects != "" && !readers[c.tool] {
		effect := Effect{Tool: c.tool, Arguments: c.arguments, Call: c.number, PID: os.Getpid(), At: time.Now()}
		must(appendTo(s.effects, effect.line(), true))
	}
	reply := jsonrpc.Result(c.m.ID, s.result(c))
	if answer, goOn := s.strike(c, afterEffect, &reply); goOn {
		s.write(*answer)
	}
}

// result is what a tool says when nothing goes wrong.
func (s *server) result(c call) []byte {
	switch c.tool {
	case "echo_raw":
		return fmt.Appendf(nil, `{ "content":[{"type":"text","text":%s},{"type":"x-unknown","payload":%s}], `+
			`"structuredContent":%s,"x_unknown":9007199254740993,"_meta":{"x/n":1.10} }`,
			rawjson.Quote(string(c.arguments)), c.arguments, c.arguments)
	case "get_balance":
		return []byte(`{"content":[{"type":"text","text":"42.50"}],"structuredContent":{"balance":42.50}}`)
	case "ask_roots":
		return fmt.Appendf(nil, `{"content":[{"type":"text","text":%s}]}`, rawjson.Quote(string(s.ask("roots/list").Raw())))
	case "refund":
		return fmt.Appendf(nil, `{"content":[{"type":"text","text":"refunded re_%d"}],"structuredContent":{"refund_id":"re_%d"}}`, c.number, c.number)
	}
	return fmt.Appendf(nil, `{"content":[{"type":"text","text":"done: %s, call %d"}]}`, c.tool, c.number)
}

// strike lets the faults of this point act, in the order of the flags. Without
// goOn the call ends here, unanswered.
func (s *server) strike(c call, when string, answer *jsonrpc.Message) (_ *jsonrpc.Message, goOn bool) {
	for _, f := range s.faults {
		if !f.strikes(c.tool, c.nth, when) {
			continue
		}
		switch f.action {
		case "delay", "gate", "progress":
			s.linger(f, c.m)
		default:
			if answer = s.act(f, c.m, answer); answer == nil {
				return nil, false
			}
		}
	}
	return answer, true
}

// linger does what holds a call up and does not change its answer.
func (s *server) linger(f fault, m jsonrpc.Message) {
	switch f.action {
	case "gate":
		s.pass(f.detail)
	case "delay":
		pause, err := time.ParseDuration(f.detail)
		must(err)
		<-time.After(pause)
	case "progress":
		params, _ := rawjson.ParseObject(m.Params)
		raw, _ := params.Get("_meta")
		meta, _ := rawjson.ParseObject(raw)
		token, _ := meta.Get("progressToken")
		steps, err := strconv.Atoi(f.detail)
		must(err)
		for i := range steps {
			s.write(jsonrpc.Notification("notifications/progress",
				fmt.Appendf(nil, `{"progressToken":%s,"progress":%d}`, orNull(token), i+1)))
		}
	}
}

// act does what goes wrong and returns the answer that is still to be sent, or
// nil for none.
func (s *server) act(f fault, m jsonrpc.Message, answer *jsonrpc.Message) *jsonrpc.Message {
	var reply jsonrpc.Message
	switch f.action {
	case "exit", "kill", "hang", "drop", "close_stdout", "garbage", "broken":
		s.misbehave(f, m)
		return nil
	case "delay", "gate", "progress":
		s.linger(f, m)
		return answer
	case "error":
		code, text, _ := strings.Cut(f.detail, ":")
		number, err := strconv.Atoi(code)
		must(err)
		reply = jsonrpc.ErrorReply(m.ID, &jsonrpc.Error{Code: number, Message: text})
	case "iserror":
		reply = jsonrpc.Result(m.ID, fmt.Appendf(nil, `{"content":[{"type":"text","text":%s}],"isError":true}`, rawjson.Quote(f.detail)))
	case "result":
		reply = jsonrpc.Result(m.ID, []byte(f.detail))
	case "big":
		size, err := strconv.Atoi(f.detail)
		must(err)
		reply = jsonrpc.Result(m.ID, fmt.Appendf(nil, `{"content":[{"type":"text","text":"%s"}]}`, bytes.Repeat([]byte("x"), size)))
	case "wrong_id":
		reply = orEmpty(answer, m).With("id", []byte("987654321"))
	case "string_id":
		reply = orEmpty(answer, m).With("id", []byte(`"`+string(m.ID)+`"`))
	case "twice":
		reply = orEmpty(answer, m)
		s.write(reply)
	}
	return &reply
}

// misbehave does what leaves the request without an answer.
func (s *server) misbehave(f fault, m jsonrpc.Message) {
	switch f.action {
	case "exit":
		status, err := strconv.Atoi(f.detail)
		if f.detail == "" {
			status, err = 1, nil
		}
		must(err)
		os.Exit(status)
	case "kill":
		self, err := os.FindProcess(os.Getpid())
		must(err)
		must(self.Kill())
		select {} // until the signal comes
	case "close_stdout":
		must(os.Stdout.Close())
	case "garbage":
		_, err := os.Stdout.WriteString("Traceback (most recent call last):\n")
		must(err)
	case "broken":
		_, err := fmt.Fprintf(os.Stdout, "{\"id\":%s,\"result\":{}}\n", m.ID)
		must(err)
	}
}

func orEmpty(answer *jsonrpc.Message, m jsonrpc.Message) jsonrpc.Message {
	if answer == nil {
		return jsonrpc.Result(m.ID, []byte(`{"content":[]}`))
	}
	return *answer
}
