package gateway

import (
	"net/http"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

// codeNoSession is what the public SDKs answer for a session that they do not know.
const codeNoSession = -32001

// An arrival is an HTTP request to /mcp that has been let in.
type arrival struct {
	w         http.ResponseWriter
	r         *http.Request
	principal string
	version   string // the header's; "": none
	accepts   acceptance
}

// serveMCP lets a request in, or not. Who it is comes first: a stranger learns
// nothing, not even which methods there are.
func (h *HTTP) serveMCP(w http.ResponseWriter, r *http.Request) {
	a, refused := h.admit(w, r)
	if refused == nil {
		switch r.Method {
		case http.MethodPost:
			refused = h.post(a)
		case http.MethodGet:
			refused = h.listen(a)
		case http.MethodDelete:
			refused = h.dismiss(a)
		default:
			refused = notAllowed(r, "GET, POST, DELETE")
		}
	}
	if refused != nil {
		h.log.Debug().Int("status", refused.status).Str("method", r.Method).Str("problem", refused.problem.Message).Msg("an HTTP request was refused")
		// The body may not have been read: what is left of it has to come in time.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(h.options.ReadTimeout))
		refused.write(w)
	}
}

func (h *HTTP) admit(w http.ResponseWriter, r *http.Request) (*arrival, *refusal) {
	principal, refused := h.keys.principal(r)
	if refused != nil {
		return nil, refused
	}
	if refused := h.checkOrigin(r); refused != nil {
		return nil, refused
	}
	return &arrival{
		w: w, r: r, principal: principal, version: r.Header.Get(mcp.HeaderProtocolVersion), accepts: readAcceptance(r.Header.Values("Accept")),
	}, nil
}

// notAllowed refuses an HTTP method (RFC 9110, section 15.5.6).
func notAllowed(r *http.Request, allowed string) *refusal {
	return refuse(http.StatusMethodNotAllowed, codeUnavailable, "%s is not supported here", r.Method).with("Allow", allowed)
}

// post takes a message. The era of each is its own affair.
func (h *HTTP) post(a *arrival) *refusal {
	if refused := checkMedia(a, mediaJSON, mediaEvents); refused != nil {
		return refused
	}
	m, refused := h.read(a.w, a.r)
	if refused != nil {
		return refused
	}
	p := readPreamble(m.Params)
	if p.era() == modern || isModernRevision(a.version) && m.Method != "initialize" {
		return h.visit(a, m, p)
	}
	if refused := checkRevision(a.version); refused != nil {
		return refused.forMessage(m)
	}
	return h.correspond(a, m)
}

// checkRevision refuses a version that nobody knows. Where there is none, the client
// is older than the header (section Protocol Version Header, 2025-11-25).
func checkRevision(version string) *refusal {
	if version == "" || mcp.IsValidProtocolVersion(version) {
		return nil
	}
	return &refusal{status: http.StatusBadRequest, problem: unsupportedVersion(version)}
}

// correspond takes a message of a client of the legacy era.
func (h *HTTP) correspond(a *arrival, m jsonrpc.Message) *refusal {
	if m.Method == "initialize" && m.IsRequest() {
		return h.begin(a, m)
	}
	s, refused := h.find(a)
	if refused != nil {
		return refused.forMessage(m)
	}
	if m.IsRequest() {
		return h.converse(a, s, m)
	}
	if !s.enter(nil) {
		return noSession()
	}
	defer s.leave(nil, h.options.SessionIdle)
	s.take(m, nil)
	a.w.WriteHeader(http.StatusAccepted)
	return nil
}

// find finds the session that a request names. A client that gets 404 initializes
// anew, and may then send its last call again: that is what keys are for.
func (h *HTTP) find(a *arrival) (*session, *refusal) {
	id := a.r.Header.Get(mcp.HeaderSessionID)
	if id == "" {
		return nil, refuse(http.StatusBadRequest, codeUnavailable, "the header %s is missing; nothing was sent", mcp.HeaderSessionID)
	}
	if s := h.session(id, a.principal); s != nil {
		return s, nil
	}
	return nil, noSession()
}

func noSession() *refusal {
	return refuse(http.StatusNotFound, codeNoSession, "Session not found; nothing was sent")
}

// begin opens a session with its initialize. One whose handshake fails, or whose
// client does not wait for it, is none.
func (h *HTTP) begin(a *arrival, m jsonrpc.Message) *refusal {
	s, refused := h.openSession(a.principal)
	if refused != nil {
		return refused.forMessage(m)
	}
	open := false
	answer := newStream()
	answer.head = func(header http.Header, alone *jsonrpc.Message) int {
		if open = alone == nil || alone.Result != nil; open {
			header.Set(mcp.HeaderSessionID, s.id)
		}
		return http.StatusOK
	}
	return h.carry(a, s, m, answer, func() {
		if !open {
			h.endSession(s, errSessionOver)
		}
	})
}

// converse answers a request of a session.
func (h *HTTP) converse(a *arrival, s *session, m jsonrpc.Message) *refusal {
	return h.carry(a, s, m, newStream(), func() {})
}

// carry hands a request to its session, and writes what is said to it. When the
// client hangs up, the request goes on: in this era only a notification cancels.
func (h *HTTP) carry(a *arrival, s *session, m jsonrpc.Message, answer *stream, then func()) *refusal {
	if !s.enter(answer) {
		return noSession().forMessage(m)
	}
	defer s.leave(answer, h.options.SessionIdle)
	defer then()
	answer.events, answer.retry = a.accepts.prefersEvents(), reconnectAfter
	s.take(m, &Exchange{Caller: s.client.caller, keys: headerKeys(a.r.Header), stream: answer})
	answer.serve(a.r.Context(), a.w, false)
	return nil
}

// take takes a message of the client's, in the order in which they come.
func (s *session) take(m jsonrpc.Message, x *Exchange) {
	s.taking.Lock()
	defer s.taking.Unlock()
	s.client.takeMessage(m, nil, x)
}

// listen lets the client of a session hear what belongs to no request.
func (h *HTTP) listen(a *arrival) *refusal {
	s, refused := h.sessionOf(a)
	if refused != nil {
		return refused
	}
	if refused := checkMedia(a, mediaEvents); refused != nil {
		return refused
	}
	if !s.enter(nil) {
		return noSession()
	}
	defer s.leave(nil, h.options.SessionIdle)
	heard := newStream()
	heard.retry = reconnectAfter
	s.listen(heard)
	heard.serve(a.r.Context(), a.w, true)
	s.unlisten(heard)
	h.log.Debug().Msg("a client listens no more")
	return nil
}

// dismiss ends a session at its client's wish.
func (h *HTTP) dismiss(a *arrival) *refusal {
	s, refused := h.sessionOf(a)
	if refused != nil {
		return refused
	}
	h.endSession(s, errSessionOver)
	a.w.WriteHeader(http.StatusNoContent)
	return nil
}

// sessionOf finds the session of a request without a message. There are none in the
// modern era.
func (h *HTTP) sessionOf(a *arrival) (*session, *refusal) {
	if isModernRevision(a.version) {
		return nil, notAllowed(a.r, "POST")
	}
	if refused := checkRevision(a.version); refused != nil {
		return nil, refused
	}
	return h.find(a)
}
