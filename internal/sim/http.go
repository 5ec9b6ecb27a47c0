package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

// An httpClient calls tools by the revision 2026-07-28, in which each request stands
// for itself. It is safe for concurrent use.
type httpClient struct {
	address   string
	transport *http.Transport
}

func newHTTPClient(address string) *httpClient {
	return &httpClient{address: address, transport: &http.Transport{MaxIdleConnsPerHost: callers}}
}

func (c *httpClient) call(ctx context.Context, arguments []byte) ([]byte, error) {
	body := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, tool, arguments)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.GetBody = nil // it is sent once, whatever becomes of it
	request.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {tool},
	}
	response, err := c.transport.RoundTrip(request)
	if err != nil {
		return nil, errLost
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, errLost
	}
	return resultIn(said)
}

// resultIn is the result in the body of a response, which is a message or a stream
// of events with the message in the last.
func resultIn(body []byte) ([]byte, error) {
	text := string(body)
	if at := strings.LastIndex(text, "data: "); at >= 0 && !strings.HasPrefix(text, "{") {
		text, _, _ = strings.Cut(text[at+len("data: "):], "\n")
	}
	m, err := jsonrpc.Parse([]byte(strings.TrimSpace(text)))
	switch {
	case err != nil || !m.IsResponse():
		return nil, fmt.Errorf("a call was answered with %q", body)
	case m.Error != nil:
		return nil, fmt.Errorf("a call was answered with the error %s", m.Error)
	}
	return m.Result, nil
}

func (c *httpClient) close() { c.transport.CloseIdleConnections() }
