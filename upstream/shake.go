package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// maxDiscover is how long a server may take to say that it knows the modern era,
// as long as there is another one to be tried. Real legacy servers refuse the
// question at once.
const maxDiscover = 5 * time.Second

var errNoDiscovery = errors.New("it did not answer server/discover in time")

// shake makes a handshake, in the first era that the server knows. It returns the
// answer to initialize, and the link where that is a result. Where all eras are
// refused, the last one's answer or error counts, for it is the server's own.
func (r *Remote) shake(ctx context.Context, params []byte) (s *link, m jsonrpc.Message, err error) {
	select {
	case r.shaking <- struct{}{}:
	case <-ctx.Done():
		return nil, m, context.Cause(ctx)
	}
	defer func() { <-r.shaking }()
	r.mu.Lock()
	eras := r.o.Era.order(r.era, r.params != nil, params)
	r.mu.Unlock()
	for i, era := range eras {
		last := i == len(eras)-1
		if era == EraModern {
			s, m, err = r.shakeModern(ctx, params, last)
		} else {
			s, m, err = r.shakeLegacy(ctx, params)
		}
		if s != nil || last || ctx.Err() != nil || !otherEraMayDo(err) {
			break
		}
	}
	return s, m, err
}

// otherEraMayDo reports whether a handshake that failed so may have done so
// because of its era.
func otherEraMayDo(err error) bool {
	if errors.As(err, new(*NotSent)) {
		return false
	}
	if status := (&StatusError{}); errors.As(err, &status) {
		switch status.Status {
		case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
			return false
		}
		return status.Status/100 != 3
	}
	return true
}

// shakeModern asks the server who it is. There is nothing to be agreed upon but
// the version, for which it asks a second time at most.
func (r *Remote) shakeModern(ctx context.Context, params []byte, last bool) (*link, jsonrpc.Message, error) {
	if !last {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, min(maxDiscover, r.o.StartTimeout/2), errNoDiscovery)
		defer cancel()
	}
	version := mcp.LATEST_PROTOCOL_VERSION
	for again := true; ; again = false {
		s := r.newLink(newDialect(version, params))
		m, err := s.ask(ctx, methodDiscover, nil)
		if err == nil && m.Result != nil {
			var d discovery
			if d, err = discovered(m); err == nil {
				s.modern.filter = d.changes()
				return s, jsonrpc.Result(m.ID, d.initializeResult(params, r.to.Name)), nil
			}
		}
		s.retire()
		if err != nil {
			return nil, m, err
		}
		wire, ok := jsonrpc.ParseError(m.Error)
		if !ok {
			return nil, m, errNoHandshake
		}
		other, ok := otherVersion(wire, version)
		if !ok || !again {
			return nil, m, nil
		}
		version = other
	}
}

// shakeLegacy sends initialize. A server that has no use for a POST may know the
// transport of 2024-11-05.
func (r *Remote) shakeLegacy(ctx context.Context, params []byte) (*link, jsonrpc.Message, error) {
	s := r.newLink(nil)
	m, err := s.ask(ctx, methodInitialize, legacyParams(params))
	status := &StatusError{}
	if errors.As(err, &status) {
		switch status.Status {
		case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed:
			s.retire()
			var noMailbox error
			if s, noMailbox = r.openMailbox(ctx); noMailbox != nil {
				return nil, m, err
			}
			m, err = s.ask(ctx, methodInitialize, legacyParams(params))
		}
	}
	if err == nil && !isHandshake(m) {
		err = errNoHandshake
	}
	if err != nil || m.Result == nil {
		s.retire()
		return nil, m, err
	}
	s.agree(m.Result)
	return s, m, nil
}

// agree notes the version that a result of initialize names, for the header
// MCP-Protocol-Version of what follows.
func (s *link) agree(result []byte) {
	v, err := rawjson.ParseTo(result, 1)
	if err != nil {
		return
	}
	if version, ok := v.Get("protocolVersion").Text(); ok && isToken(version) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.version = version
	}
}

// isToken reports whether a version can stand in a header.
func isToken(text string) bool {
	for _, c := range text {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return text != ""
}

// firstFailure fails the Remote for good where the failure is that of its first
// handshake, and returns what the caller is told.
func (r *Remote) firstFailure(ctx context.Context, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.params != nil || ctx.Err() != nil || r.closing {
		return err
	}
	if r.err == nil {
		r.err = &StartError{Name: r.to.Name, Err: err, Reason: r.reasonOf(err)}
		close(r.failed)
		r.change()
		r.close()
	}
	return r.err
}

// reasonOf says what was wrong with a first handshake, and what to do about it.
func (r *Remote) reasonOf(err error) string {
	status, unsent, lost := &StatusError{}, &NotSent{}, &LostError{}
	switch {
	case errors.As(err, &status):
		return fmt.Sprintf("refuses the handshake: %v", status)
	case errors.As(err, &unsent) && (errors.Is(err, errNoAnswer) || errors.Is(err, errNoDiscovery)):
		return "cannot be reached: it accepts no connection; check the URL"
	case errors.As(err, &unsent):
		return "cannot be reached: " + explain(unsent.Err)
	case errors.Is(err, errNoAnswer):
		return fmt.Sprintf("did not answer initialize within %s; check that the URL is that of an MCP server, or give it more time", r.o.StartTimeout)
	case errors.As(err, &lost) && lost.Cause == ConnectionLost:
		return fmt.Sprintf("ended the connection before it answered initialize: %s", explain(lost.Err))
	case errors.As(err, &lost):
		return fmt.Sprintf("%v: %v; check that the URL is that of an MCP server", errNoHandshake, lost.Err)
	}
	if errors.Is(err, errNoHandshake) {
		return noHandshake(err, "the URL is that of an MCP server")
	}
	return fmt.Sprintf("%v; check that the URL is that of an MCP server", err)
}
