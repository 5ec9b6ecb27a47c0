package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

// Done is closed when the session is over.
func Done(s Session) <-chan struct{} { return s.(*life).done }

// A ServerEvent is what ReadEvents returns of an event.
type ServerEvent struct {
	Kind, Data, ID string
	Retry          time.Duration
}

// ReadEvents reads a text/event-stream to its end, and returns why it ended.
func ReadEvents(in io.Reader, maxBytes int) (all []ServerEvent, err error) {
	s := newServerEvents(in, maxBytes)
	for {
		e, err := s.next()
		if err != nil {
			return all, err
		}
		all = append(all, ServerEvent{e.kind, string(e.data), e.id, e.retry})
	}
}

// WithMeta returns params as a modern server gets them, of a client that is nobody.
func WithMeta(params []byte) []byte { return newDialect("V", nil).withMeta(params) }

// Incoming returns a notification of a modern server as it is handed on.
func Incoming(m jsonrpc.Message) (jsonrpc.Message, bool) { return newDialect("V", nil).incoming(m) }

// HeaderOf returns the headers of a call after the tool was listed.
func HeaderOf(list []byte, call jsonrpc.Message) http.Header {
	var b paramBindings
	b.learn(list)
	return bodyHeaders(call, &b)
}

// Trust makes the Remote accept a certificate.
func Trust(r *Remote, c *x509.Certificate) {
	pool := x509.NewCertPool()
	pool.AddCert(c)
	r.wire.transport.TLSClientConfig = &tls.Config{RootCAs: pool}
}

// OtherVersion returns the version that is tried after an error.
func OtherVersion(e *jsonrpc.Error, tried string) (string, bool) { return otherVersion(e, tried) }

// Wrap puts something between the Remote's count of bytes and the network.
func Wrap(r *Remote, wrap func(net.Conn) net.Conn) {
	r.wire.transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &meteredConn{Conn: wrap(conn)}, nil
	}
}

// A Flight is a request on its way out, without net/http.
type Flight struct{ f *flight }

// NewFlight returns one that has no connection yet.
func NewFlight() Flight { return Flight{newFlight()} }

// Meter returns the connection with its bytes counted.
func Meter(c net.Conn) net.Conn { return &meteredConn{Conn: c} }

// Board gives the request a connection.
func (f Flight) Board(c net.Conn) { f.f.board(c) }

// Revoke keeps the request from leaving, if it can.
func (f Flight) Revoke() bool { return f.f.revoke() }

// Grounded reports of a request that has failed whether nothing of it has left.
func (f Flight) Grounded() bool { return f.f.grounded() }
