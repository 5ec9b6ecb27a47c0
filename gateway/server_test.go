package gateway_test

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// A server is an MCP server that the test speaks for: its processes hand their
// standard input and output over. It counts its effects. It is safe for
// concurrent use.
type server struct {
	t        *testing.T
	listener net.Listener
	lives    sync.WaitGroup
	held     chan *call // those that hold was told of

	mu      sync.Mutex
	conn    net.Conn        // of the newest life; nil when there was none
	out     *jsonrpc.Writer // likewise
	pages   func(cursor string) string
	greet   func(*call) // answers initialize
	do      map[string]func(*call)
	lists   int // tools/list that were answered
	got     []string
	refused int
	noted   []string              // notifications
	replied func(jsonrpc.Message) // gets the answers to the server's own requests; may be nil
}

// A call is a request that the server has got.
type call struct {
	server    *server
	out       *jsonrpc.Writer
	m         jsonrpc.Message
	arguments string
}

const handshake = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"test","version":"1"}}`

// newServer returns a server with the tools of a JSON array.
func newServer(t *testing.T, tools string) *server {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &server{t: t, listener: listener, held: make(chan *call, 1000), do: map[string]func(*call){}}
	s.offers(tools)
	s.greet = func(c *call) { c.answer(handshake) }
	s.lives.Go(s.accept)
	return s
}

// offers changes the tools, without a word.
func (s *server) offers(tools string) {
	s.listsBy(func(string) string { return `{"tools":` + tools + `}` })
}

// listsBy sets what answers tools/list: a result, or nothing for an error.
func (s *server) listsBy(pages func(cursor string) string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages = pages
}

// on says what a tool, or any other method, does from now on. What it does must not wait for anything.
func (s *server) on(tool string, do func(*call)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.do[tool] = do
}

// hold keeps a call until the test answers it.
func (s *server) hold(c *call) { s.held <- c }

// next is the next call that is held.
func (s *server) next() *call {
	s.t.Helper()
	return receive(s.t, s.held, "a call of the server")
}

func (s *server) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conn, s.out = conn, jsonrpc.NewWriter(conn)
		out := s.out
		s.mu.Unlock()
		s.lives.Go(func() { s.live(conn, out) })
	}
}

func (s *server) live(conn net.Conn, out *jsonrpc.Writer) {
	defer func() { _ = conn.Close() }()
	lines := jsonrpc.NewReader(conn, 64<<20)
	for {
		line, err := lines.Next()
		if err != nil {
			return
		}
		m, err := jsonrpc.Parse(line)
		switch {
		case !assert.NoError(s.t, err):
		case m.IsRequest():
			s.answer(&call{server: s, out: out, m: m})
		case m.IsNotification():
			s.note(m)
		default:
			s.mu.Lock()
			replied := s.replied
			s.mu.Unlock()
			if replied != nil {
				replied(m)
			}
		}
	}
}

func (s *server) note(m jsonrpc.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noted = append(s.noted, string(m.Raw()))
}

// notified are the notifications that came.
func (s *server) notified() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.noted)
}

func (s *server) answer(c *call) {
	switch c.m.Method {
	case "initialize":
		s.mu.Lock()
		greet := s.greet
		s.mu.Unlock()
		greet(c)
	case "tools/list":
		s.list(c)
	case "tools/call":
		s.run(c)
	default:
		s.mu.Lock()
		do := s.do[c.m.Method]
		s.mu.Unlock()
		if do == nil {
			do = func(c *call) { c.answer(`{}`) }
		}
		do(c)
	}
}

func (s *server) list(c *call) {
	cursor := ""
	if o, err := rawjson.ParseObject(c.m.Params); err == nil {
		cursor, _ = o.String("cursor")
	}
	s.mu.Lock()
	s.lists++
	pages := s.pages
	s.mu.Unlock()
	if result := pages(cursor); result != "" {
		c.answer(result)
		return
	}
	c.write(jsonrpc.ErrorReply(c.m.ID, &jsonrpc.Error{Code: -32050, Message: "no list today", Data: []byte(`1.0`)}))
}

func (s *server) run(c *call) {
	o, err := rawjson.ParseObject(c.m.Params)
	if !assert.NoError(s.t, err) {
		return
	}
	tool, _ := o.String("name")
	arguments, _ := o.Get("arguments")
	c.arguments = string(arguments)
	s.mu.Lock()
	s.got = append(s.got, tool+" "+c.arguments)
	number, do := len(s.got), s.do[tool]
	s.mu.Unlock()
	if do == nil {
		c.answer(fmt.Sprintf(`{"content":[{"type":"text","text":"done, call %d"}]}`, number))
		return
	}
	do(c)
}

// answer answers with a result.
func (c *call) answer(result string) { c.write(jsonrpc.Result(c.m.ID, []byte(result))) }

// fail answers with an error after the effect.
func (c *call) fail(code int, text string) {
	c.write(jsonrpc.ErrorReply(c.m.ID, &jsonrpc.Error{Code: code, Message: text}))
}

// refuse answers with an error in place of the effect.
func (c *call) refuse(code int, text string) {
	c.server.mu.Lock()
	c.server.refused++
	c.server.mu.Unlock()
	c.fail(code, text)
}

func (c *call) write(m jsonrpc.Message) { _ = c.out.Write(m) } // the gateway may be gone

// say sends a notification.
func (s *server) say(method string) { s.tell(jsonrpc.Notification(method, nil)) }

// tell sends a message of the server's own.
func (s *server) tell(m jsonrpc.Message) {
	s.t.Helper()
	s.mu.Lock()
	out := s.out
	s.mu.Unlock()
	require.NoError(s.t, out.Write(m))
}

// die ends the newest process.
func (s *server) die() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.conn.Close()
}

// stayDown ends the newest process, and none that comes after it gets far.
func (s *server) stayDown() {
	_ = s.listener.Close()
	s.die()
}

// effects is how often the tools did something.
func (s *server) effects() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.got) - s.refused
}

// received are the calls that came, with their arguments.
func (s *server) received() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

func (s *server) listed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists
}

func (s *server) close() {
	_ = s.listener.Close()
	s.lives.Wait()
}
