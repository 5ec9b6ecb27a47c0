package upstreamtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

const (
	endpoint   = "/mcp"     // where the server is, at its address
	messages   = "/message" // where the transport of 2024-11-05 takes messages
	maxMessage = 256 << 20  // bytes that the server reads as one message
)

// The codes that servers use where the protocol leaves them free.
const (
	codeBadRequest = -32000
	codeNoSession  = -32001
)

// runHTTP serves until the process ends, and returns the exit status where it
// cannot.
func (s *server) runHTTP() int {
	if s.untilEOF {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(0)
		}()
	}
	fmt.Fprintln(os.Stderr, "scripted:", s.serveHTTP())
	return 2
}

// serveHTTP listens, and serves until the process ends.
func (s *server) serveHTTP() error {
	host, port, err := net.SplitHostPort(s.httpAddr)
	if err != nil {
		return err
	}
	if host == "" {
		host = "127.0.0.1"
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }() // Serve does so, too
	if s.addressFile != "" {
		if err := writeWhole(s.addressFile, l.Addr().String()+"\n"); err != nil {
			return err
		}
	}
	return s.web().Serve(l)
}

// writeWhole makes a file that is complete as soon as it is there.
func writeWhole(file, text string) error {
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

type useCount struct{}

// web returns the HTTP server, which knows how often a connection is used.
func (s *server) web() *http.Server {
	return &http.Server{
		Handler: s,
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
			return context.WithValue(ctx, useCount{}, new(atomic.Int64))
		},
	}
}

// ServeHTTP is part of http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := newExchange(w, r)
	x.keep = s.keep
	uses, _ := r.Context().Value(useCount{}).(*atomic.Int64)
	reused := uses.Add(1) > 1
	s.logRequest(r, reused)
	switch {
	case r.URL.Path == messages && s.era == sse && r.Method == http.MethodPost:
		s.message(x, reused)
	case r.URL.Path != endpoint:
		x.refuse(http.StatusNotFound, "not found\n")
	case r.Method == http.MethodPost && s.era != sse:
		s.post(x, reused)
	case r.Method == http.MethodGet || r.Method == http.MethodDelete && s.era != sse:
		s.other(x, reused)
	default:
		x.refuse(http.StatusMethodNotAllowed, "method not allowed\n")
	}
}

// logRequest writes a line about the request, with all its headers.
func (s *server) logRequest(r *http.Request, reused bool) {
	if s.requests == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	must(appendTo(s.requests, Request{Method: r.Method, Path: r.URL.Path, Reused: reused, Header: r.Header}.line(), false))
}

// keep keeps an answer until it is fetched by a GET with the event's id.
func (s *server) keep(id string, m jsonrpc.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[id] = m
}

// read reads the message in the body of a POST, and refuses what is none.
func (s *server) read(x *exchange) (jsonrpc.Message, bool) {
	body, err := io.ReadAll(http.MaxBytesReader(x.w, x.r.Body, maxMessage))
	if err != nil {
		return jsonrpc.Message{}, false // the client has gone in the middle of it
	}
	s.note(body)
	m, err := jsonrpc.Parse(body)
	var e *jsonrpc.Error
	if errors.As(err, &e) {
		x.status = http.StatusBadRequest
		x.answer(jsonrpc.ErrorReply(m.ID, e))
		return m, false
	}
	return m, true
}

// post serves one message of the client.
func (s *server) post(x *exchange, reused bool) {
	m, ok := s.read(x)
	if !ok {
		return
	}
	c := s.newCall(m, x)
	c.reused, x.modern = reused, c.modern
	switch {
	case s.silent:
		<-x.gone()
	case !s.admit(x, c):
	case m.IsRequest():
		if s.begin(&c) {
			s.run(c)
		}
	default:
		s.accept(c)
	}
}

// accept takes a message that has no answer, and says so unless a fault says
// something else.
func (s *server) accept(c call) {
	x := c.line.(*exchange)
	if c.m.IsResponse() {
		s.response(c.m)
		x.accepted()
		return
	}
	s.count(&c)
	if s.strikeAll(c) {
		s.notified(c)
		x.accepted()
	}
}

// strikeAll is strike for what has no answer, at all points.
func (s *server) strikeAll(c call) (goOn bool) {
	for _, when := range []string{beforeRead, beforeEffect, afterEffect} {
		if _, goOn := s.strike(c, when, nil); !goOn {
			return false
		}
	}
	return true
}

// admit refuses what the transport does not let through.
func (s *server) admit(x *exchange, c call) bool {
	header := x.r.Header
	contentType, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	accept := strings.Join(header.Values("Accept"), ",")
	switch {
	case contentType != "application/json":
		x.refuse(http.StatusUnsupportedMediaType, "Content-Type must be application/json\n")
	case !strings.Contains(accept, "application/json") || !strings.Contains(accept, "text/event-stream"):
		x.refuse(http.StatusNotAcceptable, "Accept must have application/json and text/event-stream\n")
	case c.modern, s.speaksModern() && !c.m.IsRequest() && mcp.IsModernProtocol(header.Get(mcp.HeaderProtocolVersion)):
		return s.admitModern(x, c)
	case s.era == modern || mcp.IsModernProtocol(header.Get(mcp.HeaderProtocolVersion)) && s.era == both:
		x.modern = true
		refusal := s.refuse(c)
		if refusal == nil { // modern by its header only
			refusal = c.refused(jsonrpc.CodeInvalidParams, "missing or invalid _meta field %s", mcp.MetaKeyProtocolVersion)
		}
		x.answer(*refusal)
	default:
		return s.admitLegacy(x, c)
	}
	return false
}

func (s *server) admitModern(x *exchange, c call) bool {
	if !c.m.IsRequest() {
		return true
	}
	if wrong := s.mismatch(c, x.r.Header); wrong != "" {
		x.answer(*c.refused(mcp.HEADER_MISMATCH, "%s", wrong))
		return false
	}
	if refusal := s.refuse(c); refusal != nil {
		x.answer(*refusal)
		return false
	}
	return true
}

func (s *server) admitLegacy(x *exchange, c call) bool {
	if c.m.Method == "initialize" {
		if !s.sessionless {
			x.w.Header().Set(mcp.HeaderSessionID, s.sessions.open().id)
		}
		return true
	}
	_, ok := s.session(x)
	return ok
}

// session finds the session of a legacy request, nil where the server has none,
// and refuses one that names none.
func (s *server) session(x *exchange) (*session, bool) {
	id, version := x.r.Header.Get(mcp.HeaderSessionID), x.r.Header.Get(mcp.HeaderProtocolVersion)
	if version != "" && (!mcp.IsValidProtocolVersion(version) || mcp.IsModernProtocol(version)) {
		x.refuseLegacy(http.StatusBadRequest, codeBadRequest, "Bad Request: Unsupported protocol version: "+version)
		return nil, false
	}
	if s.sessionless {
		return nil, true
	}
	found := s.sessions.find(id)
	switch {
	case id == "":
		x.refuseLegacy(http.StatusBadRequest, codeBadRequest, "Bad Request: Mcp-Session-Id header is required")
	case found == nil:
		x.refuseLegacy(http.StatusNotFound, codeNoSession, "Session not found")
	}
	return found, found != nil
}

// refuseLegacy refuses as servers of the legacy era do, with an error that names
// no request.
func (x *exchange) refuseLegacy(status, code int, text string) {
	x.status = status
	x.answer(jsonrpc.ErrorReply(nil, &jsonrpc.Error{Code: code, Message: text}))
}
