package upstreamtest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// A server is one run of the scripted server. What it has begun by itself ends
// with the process.
type server struct {
	options
	tally   *tally
	offered [][]byte // the tools, raw
	tools   map[string]rawjson.Object

	hub      hub
	sessions sessions
	behind   sync.WaitGroup // what goes on when its request has been answered

	mu        sync.Mutex
	others    map[string]int                  // how often each method that is no tool was called
	asked     map[string]chan jsonrpc.Message // our requests to the client, by id
	questions map[string]*question            // by requestState
	tasks     map[string]*task                // by taskId
	listening map[string]func()               // ends a subscription, by the id of its request
	waiting   map[string]jsonrpc.Message      // answers to be fetched, by event id
}

func newServer(o options) (s *server, err error) {
	s = &server{
		options: o, others: map[string]int{}, asked: map[string]chan jsonrpc.Message{}, questions: map[string]*question{},
		tasks: map[string]*task{}, listening: map[string]func(){}, waiting: map[string]jsonrpc.Message{},
	}
	if s.offered, s.tools, err = offer(o.tools); err != nil {
		return nil, err
	}
	s.tally, err = newTally(o.effects)
	return s, err
}

// serve reads from standard input until its end.
func (s *server) serve(in io.Reader) {
	out := newStdio()
	if s.era != modern {
		s.hub.join(&listener{send: out.say})
	}
	lines := jsonrpc.NewReader(in, maxMessage)
	for n := 1; ; n++ {
		line, err := lines.Next()
		if err != nil {
			return
		}
		s.note(line)
		m, err := jsonrpc.Parse(line)
		switch {
		case s.silent:
		case err != nil:
			out.answer(jsonrpc.ErrorReply(m.ID, err.(*jsonrpc.Error)))
		default:
			s.receive(s.newCall(m, out))
		}
		if n == s.stopReadingAfter {
			s.pass("read")
		}
	}
}

// receive takes one message from standard input.
func (s *server) receive(c call) {
	switch refusal := s.refuse(c); {
	case c.m.IsResponse():
		s.response(c.m)
	case c.m.IsNotification():
		s.notified(c)
	case refusal != nil:
		c.line.answer(*refusal)
	case !s.begin(&c):
	case c.tool || c.m.Method == "tasks/result" || c.m.Method == "subscriptions/listen":
		go s.run(c)
	default:
		s.run(c)
	}
}

// note writes down what was received.
func (s *server) note(message []byte) {
	if s.received == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	must(appendTo(s.received, jsonrpc.Line(message), false))
}

func (s *server) notified(c call) {
	switch c.m.Method {
	case "notifications/initialized":
		if s.listChanged && (s.httpAddr == "" || s.era == sse) { // else it waits for the standing stream
			s.hub.tell(jsonrpc.Notification("notifications/tools/list_changed", nil))
		}
	case "notifications/cancelled":
		id, _ := c.params.Get("requestId")
		s.mu.Lock()
		end := s.listening[jsonrpc.IDKey(id)]
		s.mu.Unlock()
		if end != nil {
			end()
		}
	}
}

// respond answers everything but tools/call.
func (s *server) respond(c call) *jsonrpc.Message {
	var result string
	switch c.m.Method {
	case "tools/list":
		result = s.page(c.params)
	case "resources/list":
		result = `{"resources":[{"uri":"note://1","name":"note","x":9007199254740993}]}`
	case "resources/read":
		uri, _ := c.params.Get("uri")
		result = fmt.Sprintf(`{"contents":[{"uri":%s,"text":"a note","x":9007199254740993}]}`, orNull(uri))
	case "prompts/list":
		result = `{"prompts":[{"name":"greet"}]}`
	case "prompts/get":
		result = `{"messages":[{"role":"user","content":{"type":"text","text":"hello"}}]}`
	case "tasks/get", "tasks/result", "tasks/cancel", "tasks/update":
		return s.onTask(c)
	default:
		if c.modern {
			return s.respondModern(c)
		}
		return s.respondLegacy(c)
	}
	reply := c.result([]byte(result))
	return &reply
}

// respondLegacy answers what is there before the revision 2026-07-28 only.
func (s *server) respondLegacy(c call) *jsonrpc.Message {
	result := `{}`
	switch c.m.Method {
	case "initialize":
		more := ""
		if s.faults.has("task") {
			more = `,"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}`
		}
		result = `{"protocolVersion":` + string(rawjson.Quote(s.protocol)) + `,"capabilities":{"tools":{"listChanged":true},` +
			`"resources":{},"prompts":{}` + more + `},"serverInfo":` + serverInfo + `,"instructions":"Refund with care."}`
	case "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe":
	default:
		return c.refused(jsonrpc.CodeMethodNotFound, "Method not found")
	}
	reply := c.result([]byte(result))
	return &reply
}

// inquire sends a request to the client and waits for the response. It is the
// zero message where the client has gone before.
func (s *server) inquire(l line, method string, params []byte) jsonrpc.Message {
	answered := make(chan jsonrpc.Message, 1)
	s.mu.Lock()
	id := fmt.Sprintf(`"ask-%d"`, len(s.asked)+1)
	s.asked[jsonrpc.IDKey([]byte(id))] = answered
	s.mu.Unlock()
	l.say(jsonrpc.Request([]byte(id), method, params))
	select {
	case m := <-answered:
		return m
	case <-l.gone():
		return jsonrpc.Message{}
	}
}

func (s *server) response(m jsonrpc.Message) {
	s.mu.Lock()
	answered := s.asked[jsonrpc.IDKey(m.ID)]
	s.mu.Unlock()
	if answered == nil {
		return
	}
	select {
	case answered <- m:
	default: // the first counts
	}
}

// pass makes NAME.waiting in the folder of gates and returns when NAME is there.
func (s *server) pass(name string) {
	must(os.WriteFile(filepath.Join(s.gate, name+".waiting"), nil, 0o600))
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for range tick.C {
		if _, err := os.Stat(filepath.Join(s.gate, name)); err == nil {
			return
		}
		if _, err := os.Stat(s.gate); errors.Is(err, fs.ErrNotExist) {
			os.Exit(2) // the test is over, and nobody will open anything
		}
	}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "scripted:", err)
		os.Exit(2)
	}
}

func orNull(raw []byte) []byte {
	if raw == nil {
		return []byte("null")
	}
	return raw
}
