package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// Limits of the connections to a server.
const (
	dialTimeout = 10 * time.Second // and as much for the handshake of TLS
	// idleTimeout is short because a request on a connection that the server is
	// closing at that moment is neither answered nor provably unsent.
	idleTimeout            = 5 * time.Second
	maxIdleConns           = 128
	maxResponseHeaderBytes = 256 << 10
)

const (
	mediaJSON   = "application/json"
	mediaEvents = "text/event-stream"
)

// An Endpoint says where a server is.
type Endpoint struct {
	Name string // for errors
	// URL is one of the schemes http and https. A user and a password in it are
	// sent as basic authentication, and are told to nobody.
	URL string
	// Header is sent with every request. Its values are told to nobody.
	Header http.Header
	// Agent is the User-Agent, unless Header has one [mcp-idem].
	Agent string
}

// A wire carries HTTP requests to one server, each at most once: it follows no
// redirect, and no request has what net/http needs to send it again. It is safe
// for concurrent use.
type wire struct {
	target    *url.URL
	header    http.Header
	transport *http.Transport
}

// newWire fails with a *StartError.
func newWire(e Endpoint) (*wire, error) {
	target, err := url.Parse(e.URL)
	if err != nil || target.Scheme != "http" && target.Scheme != "https" || target.Host == "" {
		return nil, &StartError{Name: e.Name, Reason: "has no usable URL: it must begin with http:// or https:// and name a host"}
	}
	w := &wire{target: target, header: http.Header{}, transport: newTransport()}
	w.header.Set("User-Agent", "mcp-idem")
	if e.Agent != "" {
		w.header.Set("User-Agent", e.Agent)
	}
	for name, values := range e.Header {
		w.header[http.CanonicalHeaderKey(name)] = values
	}
	if user := target.User; user != nil {
		if password, _ := user.Password(); w.header.Get("Authorization") == "" {
			probe := http.Request{Header: w.header}
			probe.SetBasicAuth(user.Username(), password)
		}
		target.User = nil
	}
	target.Fragment = ""
	return w, nil
}

func newTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout}
	var only1 http.Protocols
	only1.SetHTTP1(true) // of a request among others on one connection no bytes could be counted
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &meteredConn{Conn: conn}, nil
		},
		Protocols: &only1, TLSHandshakeTimeout: dialTimeout, DisableCompression: true,
		MaxIdleConnsPerHost: maxIdleConns, IdleConnTimeout: idleTimeout, MaxResponseHeaderBytes: maxResponseHeaderBytes,
	}
}

// post sends a body once. The header becomes the wire's. The caller closes the body
// of the response.
func (w *wire) post(ctx context.Context, target *url.URL, header http.Header, body []byte) (*http.Response, error) {
	header.Set("Content-Type", mediaJSON)
	header.Set("Accept", mediaJSON+", "+mediaEvents)
	r := w.request(ctx, http.MethodPost, target, header)
	// GetBody stays nil: with it net/http would send a request again on its own.
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return w.transport.RoundTrip(r)
}

// get opens a stream of events. The header becomes the wire's. The caller closes the
// body of the response.
func (w *wire) get(ctx context.Context, header http.Header) (*http.Response, error) {
	header.Set("Accept", mediaEvents)
	return w.transport.RoundTrip(w.request(ctx, http.MethodGet, w.target, header))
}

// remove asks the server to end the session that the header names.
func (w *wire) remove(ctx context.Context, header http.Header) {
	resp, err := w.transport.RoundTrip(w.request(ctx, http.MethodDelete, w.target, header))
	if err == nil {
		discard(resp)
	}
}

// request makes a request with a header, to which it adds those of all requests that
// are not there.
func (w *wire) request(ctx context.Context, method string, target *url.URL, header http.Header) *http.Request {
	for name, values := range w.header {
		if _, given := header[name]; !given {
			header[name] = values
		}
	}
	host := target.Host
	if own := header.Get("Host"); own != "" {
		host = own
	}
	r := &http.Request{
		Method: method, URL: target, Host: host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	return r.WithContext(ctx)
}

// discard ends a response of which nothing more is wanted. A short rest is read,
// so that the connection can be used again.
func discard(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, maxStatusText)
	_ = resp.Body.Close()
}

// mediaOf returns the media type of a response, in lower case and without
// parameters.
func mediaOf(resp *http.Response) string {
	text := resp.Header.Get("Content-Type")
	if text == mediaJSON || text == mediaEvents { // as nearly all have it
		return text
	}
	media, _, err := mime.ParseMediaType(text)
	if err != nil {
		return ""
	}
	return media
}

// succeeded reports whether the status is one of success.
func succeeded(resp *http.Response) bool { return resp.StatusCode/100 == 2 }

// statusError returns what a response says that is none of JSON-RPC.
func statusError(resp *http.Response, body []byte) *StatusError {
	e := &StatusError{Status: resp.StatusCode}
	if mediaOf(resp) == mediaJSON {
		e.Text = strings.ToValidUTF8(string(body[:min(len(body), maxStatusText)]), "")
	}
	if to, err := resp.Location(); err == nil && resp.StatusCode/100 == 3 {
		to.User, to.RawQuery, to.Fragment = nil, "", ""
		e.Location = to.String()
	}
	return e
}

// sessionHeaders are those of a session of the legacy era, as far as it has them.
func sessionHeaders(version, session string) http.Header {
	h := http.Header{}
	if version != "" {
		h.Set(mcp.HeaderProtocolVersion, version)
	}
	if session != "" {
		h.Set(mcp.HeaderSessionID, session)
	}
	return h
}

// explain says in words why a server cannot be reached.
func explain(err error) string {
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return fmt.Sprintf("there is no host %q; check the URL", dns.Name)
	case strings.Contains(err.Error(), "x509: "):
		return fmt.Sprintf("its certificate is not accepted: %v", err)
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"), strings.Contains(err.Error(), "first record does not look like a TLS handshake"):
		return "it does not speak TLS; check whether the URL should begin with http://"
	}
	return err.Error()
}
