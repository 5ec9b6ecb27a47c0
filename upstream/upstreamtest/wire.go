package upstreamtest

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

// pieces is into how many a slow answer is cut.
const pieces = 16

// fail leaves the request of HTTP without an answer.
func (x *exchange) fail(f fault) {
	switch f.action {
	case "hang":
		<-x.gone()
		return
	case "endless":
		x.babble()
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	switch f.action {
	case "drop":
		x.sever(false)
	case "reset":
		x.sever(true)
	case "status":
		status, body := f.status()
		x.refuse(status, body)
	case "redirect":
		status, location, given := f.code()
		if !given {
			location = x.r.URL.RequestURI()
		}
		x.w.Header().Set("Location", location)
		x.w.WriteHeader(status)
	case "end":
		x.begin()
	}
}

// sever closes the connection, with a reset in place of its end if asked for.
func (x *exchange) sever(reset bool) {
	if x.finished {
		return
	}
	conn, err := x.hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok && reset {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// refuse sends a status, with the headers that belong to it.
func (x *exchange) refuse(status int, body string) {
	switch status {
	case http.StatusUnauthorized:
		x.w.Header().Set("WWW-Authenticate", `Bearer realm="scripted", error="invalid_token"`)
	case http.StatusMethodNotAllowed:
		x.w.Header().Set("Allow", http.MethodPost)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		x.w.Header().Set("Retry-After", "1")
	}
	contentType := "text/plain; charset=utf-8"
	if jsontext.Value(body).IsValid() {
		contentType = "application/json"
	}
	x.write(status, contentType, []byte(body))
}

// babble sends comments and never an answer.
func (x *exchange) babble() {
	x.mu.Lock()
	x.begin()
	x.mu.Unlock()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-x.gone():
			return
		case <-tick.C:
			x.mu.Lock()
			_, _ = io.WriteString(x.w, ": still at it\n\n")
			x.flush()
			x.mu.Unlock()
		}
	}
}

// deliver writes the body of the answer, or the part that there is to be of it.
func (x *exchange) deliver(data []byte) {
	if x.cut >= 0 {
		_, _ = x.w.Write(data[:min(x.cut, len(data))])
		x.flush()
		x.sever(false)
		return
	}
	x.slowly(data, x.slowBody, func(piece []byte) {
		_, _ = x.w.Write(piece)
		x.flush()
	})
}

// slowly writes data in pieces, over so long.
func (x *exchange) slowly(data []byte, over time.Duration, write func([]byte)) {
	if over == 0 {
		write(data)
		return
	}
	size := max(1, (len(data)+pieces-1)/pieces)
	for len(data) > 0 {
		n := min(size, len(data))
		write(data[:n])
		data = data[n:]
		select {
		case <-time.After(over / pieces):
		case <-x.gone():
			return
		}
	}
}

// dribble sends the headers of the response piece by piece, and then its body.
func (x *exchange) dribble(body []byte) {
	conn, err := x.hijack()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	head := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n", len(body))
	x.slowly(head, x.slowHeaders, func(piece []byte) { _, _ = conn.Write(piece) })
	_, _ = conn.Write(body)
}

// postpone ends the stream behind an event that has an id and no data, by which
// the answer can be fetched.
func (x *exchange) postpone(m jsonrpc.Message) {
	id := uuid.NewString()
	x.keep(id, m)
	x.begin()
	_, _ = fmt.Fprintf(x.w, "id: %s\nretry: 50\ndata:\n\n", id)
	x.flush()
}
