package upstreamtest

import (
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

// An exchange is one HTTP request and its response: the line of the call in it.
// The response is JSON, unless something is said before the answer.
type exchange struct {
	w      http.ResponseWriter
	r      *http.Request
	keep   func(id string, m jsonrpc.Message) // keeps an answer to be fetched by its event id
	modern bool

	mu       sync.Mutex // one message at a time
	begun    bool       // the stream of events
	events   int        // that have been written
	finished bool       // nothing more may be written

	// How the answer is sent, by the faults that have struck.
	stream      bool
	style       style
	status      int
	cut         int // after so many bytes; negative for not at all
	slowHeaders time.Duration
	slowBody    time.Duration
	stayOpen    bool
	resume      bool
}

func newExchange(w http.ResponseWriter, r *http.Request) *exchange {
	return &exchange{w: w, r: r, cut: -1}
}

func (x *exchange) gone() <-chan struct{} { return x.r.Context().Done() }

func (x *exchange) shape(f fault) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch f.action {
	case "sse":
		x.stream = true
		x.style, _ = parseStyle(f.detail) // it was read before
	case "rpc_status":
		x.status, _, _ = f.code()
	case "cut":
		x.cut = f.number(0)
	case "slow_headers":
		x.slowHeaders = f.duration()
	case "slow_body":
		x.slowBody = f.duration()
	case "stay_open":
		x.stream, x.stayOpen = true, true
	case "resume":
		x.stream, x.resume = true, true
	}
}

func (x *exchange) say(m jsonrpc.Message) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.event("message", m.Raw())
}

func (x *exchange) reply(body []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.begun {
		x.event("message", body)
		return
	}
	x.write(http.StatusOK, "application/json", body)
}

func (x *exchange) answer(m jsonrpc.Message) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.resume:
		x.postpone(m)
	case x.begun || x.stream:
		x.begin()
		x.events++
		x.deliver(x.style.event(x.events, "message", m.Raw()))
	case x.slowHeaders > 0:
		x.dribble(m.Raw())
	default:
		header := x.w.Header()
		header.Set("Content-Type", "application/json")
		header.Set("Content-Length", strconv.Itoa(len(m.Raw())))
		x.w.WriteHeader(x.statusOf(m))
		x.deliver(m.Raw())
	}
	if x.stayOpen {
		<-x.gone()
	}
}

// statusOf returns the status with which an answer goes that is sent as JSON.
func (x *exchange) statusOf(m jsonrpc.Message) int {
	if x.status != 0 {
		return x.status
	}
	e, ok := jsonrpc.ParseError(m.Error)
	if !x.modern || !ok {
		return http.StatusOK
	}
	switch e.Code {
	case jsonrpc.CodeMethodNotFound:
		return http.StatusNotFound
	case jsonrpc.CodeParseError, jsonrpc.CodeInvalidRequest, jsonrpc.CodeInvalidParams,
		mcp.HEADER_MISMATCH, mcp.MISSING_REQUIRED_CLIENT_CAPABILITY, mcp.UNSUPPORTED_PROTOCOL_VERSION:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// write sends a whole response.
func (x *exchange) write(status int, contentType string, body []byte) {
	if len(body) > 0 {
		x.w.Header().Set("Content-Type", contentType)
	}
	x.w.WriteHeader(status)
	_, _ = x.w.Write(body) // the client may have gone
}

// accepted answers a message that has no answer.
func (x *exchange) accepted() { x.w.WriteHeader(http.StatusAccepted) }

// begin opens the stream of events, and its headers are with the client at once.
func (x *exchange) begin() {
	if x.begun {
		return
	}
	x.begun = true
	x.w.Header().Set("Content-Type", "text/event-stream")
	x.w.Header().Set("Cache-Control", "no-cache")
	status := x.status
	if status == 0 {
		status = http.StatusOK
	}
	x.w.WriteHeader(status)
	x.flush()
}

func (x *exchange) event(name string, data []byte) {
	if x.finished {
		return
	}
	x.begin()
	x.events++
	_, _ = x.w.Write(x.style.event(x.events, name, data))
	x.flush()
}

func (x *exchange) flush() { _ = http.NewResponseController(x.w).Flush() }

// hijack takes the connection away from the HTTP server. It fails where that has
// been done before.
func (x *exchange) hijack() (net.Conn, error) {
	conn, _, err := http.NewResponseController(x.w).Hijack()
	return conn, err
}

// finish is the end of a response that others write to.
func (x *exchange) finish() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.finished = true
}
