package upstreamtest

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// A server is one run of the scripted server. Its goroutines end with the
// process.
type server struct {
	options
	out     *jsonrpc.Writer
	tally   *tally
	offered [][]byte // the tools, raw
	names   map[string]bool

	mu    sync.Mutex
	asked map[string]chan jsonrpc.Message // our requests to the client, by id
}

func newServer(o options) (*server, error) {
	s := &server{options: o, out: jsonrpc.NewWriter(os.Stdout), names: map[string]bool{}, asked: map[string]chan jsonrpc.Message{}}
	list := []byte(defaultTools)
	var err error
	if o.tools != "" {
		if list, err = os.ReadFile(o.tools); err != nil {
			return nil, err
		}
	}
	if s.offered, err = rawjson.ParseArray(list); err != nil {
		return nil, fmt.Errorf("tools: %w", err)
	}
	for _, raw := range s.offered {
		tool, err := rawjson.ParseObject(raw)
		if err != nil {
			return nil, fmt.Errorf("tools: %w", err)
		}
		name, _ := tool.String("name")
		s.names[name] = true
	}
	s.tally, err = newTally(o.effects)
	return s, err
}

// serve reads until the end of the input.
func (s *server) serve(in io.Reader) {
	lines := jsonrpc.NewReader(in, 256<<20)
	for n := 1; ; n++ {
		line, err := lines.Next()
		if err != nil {
			return
		}
		if s.received != "" {
			must(appendTo(s.received, jsonrpc.Line(line), false))
		}
		m, err := jsonrpc.Parse(line)
		switch {
		case s.silent:
		case err != nil:
			s.write(jsonrpc.ErrorReply(m.ID, err.(*jsonrpc.Error)))
		case m.IsRequest():
			s.request(m)
		case m.IsResponse():
			s.response(m)
		case m.Method == "notifications/initialized" && s.listChanged:
			s.write(jsonrpc.Notification("notifications/tools/list_changed", nil))
		}
		if n == s.stopReadingAfter {
			s.pass("read")
		}
	}
}

func (s *server) request(m jsonrpc.Message) {
	if m.Method == "tools/call" {
		s.call(m)
		return
	}
	answer := s.answer(m)
	for _, f := range s.faults {
		if f.strikes(m.Method, 0, afterEffect) || f.strikes(m.Method, 0, beforeEffect) {
			if answer = s.act(f, m, answer); answer == nil {
				return
			}
		}
	}
	s.write(*answer)
}

// answer answers everything but tools/call.
func (s *server) answer(m jsonrpc.Message) *jsonrpc.Message {
	params, _ := rawjson.ParseObject(m.Params) // without params: no members
	var result string
	switch m.Method {
	case "initialize":
		result = `{"protocolVersion":` + string(rawjson.Quote(s.protocol)) + `,"capabilities":{"tools":{"listChanged":true},` +
			`"resources":{},"prompts":{}},"serverInfo":{"name":"scripted","version":"1"},"instructions":"Refund with care."}`
	case "ping", "logging/setLevel":
		result = `{}`
	case "tools/list":
		result = s.page(params)
	case "resources/list":
		result = `{"resources":[{"uri":"note://1","name":"note","x":9007199254740993}]}`
	case "resources/read":
		uri, _ := params.Get("uri")
		result = fmt.Sprintf(`{"contents":[{"uri":%s,"text":"a note","x":9007199254740993}]}`, orNull(uri))
	case "prompts/list":
		result = `{"prompts":[{"name":"greet"}]}`
	case "prompts/get":
		result = `{"messages":[{"role":"user","content":{"type":"text","text":"hello"}}]}`
	default:
		reply := jsonrpc.ErrorReply(m.ID, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "Method not found"})
		return &reply
	}
	reply := jsonrpc.Result(m.ID, []byte(result))
	return &reply
}

// page returns one page of tools; the cursor is the number of the first.
func (s *server) page(params rawjson.Object) string {
	cursor, _ := params.String("cursor")
	from, _ := strconv.Atoi(cursor) // none: the first page
	to := len(s.offered)
	if s.pageSize > 0 {
		to = min(to, from+s.pageSize)
	}
	list := []byte("[")
	for i, tool := range s.offered[min(from, to):to] {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, tool...)
	}
	if to < len(s.offered) {
		return fmt.Sprintf(`{"tools":%s],"nextCursor":"%d"}`, list, to)
	}
	return fmt.Sprintf(`{"tools":%s]}`, list)
}

// ask sends a request to the client and waits for the response.
func (s *server) ask(method string) jsonrpc.Message {
	answered := make(chan jsonrpc.Message, 1)
	s.mu.Lock()
	id := fmt.Sprintf(`"ask-%d"`, len(s.asked)+1)
	s.asked[jsonrpc.IDKey([]byte(id))] = answered
	s.mu.Unlock()
	s.write(jsonrpc.Request([]byte(id), method, nil))
	return <-answered
}

func (s *server) response(m jsonrpc.Message) {
	s.mu.Lock()
	answered := s.asked[jsonrpc.IDKey(m.ID)]
	s.mu.Unlock()
	if answered != nil {
		answered <- m
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
	}
}

// write ends the process where the client is gone.
func (s *server) write(m jsonrpc.Message) { must(s.out.Write(m)) }

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
