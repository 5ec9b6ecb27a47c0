package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// modern is the era without sessions.
const modern = "modern"

// callers are clients of a server over HTTP: no more than requests and answers.
// In the legacy era each has a session of its own.
type callers struct {
	client   *http.Client
	url, era string
	sessions []string
	last     atomic.Int64
}

// keepAlive is a transport that keeps a connection for each caller.
func keepAlive() *http.Transport {
	return &http.Transport{MaxIdleConnsPerHost: 256, MaxIdleConns: 0, DisableCompression: true}
}

// dial makes so many callers, and has them introduce themselves.
func dial(url, era string, n int) (*callers, error) {
	c := &callers{client: &http.Client{Transport: keepAlive()}, url: url, era: era, sessions: make([]string, n)}
	if era == modern {
		return c, nil
	}
	for i := range c.sessions {
		response, _, err := c.post("", "", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"compare","version":"1"}}}`, c.last.Add(1)))
		if err != nil {
			return nil, err
		}
		c.sessions[i] = response.Header.Get("Mcp-Session-Id")
		if _, _, err := c.post(c.sessions[i], "", `{"jsonrpc":"2.0","method":"notifications/initialized"}`); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// close ends the sessions.
func (c *callers) close() {
	for _, session := range c.sessions {
		if request, err := http.NewRequest(http.MethodDelete, c.url, nil); err == nil && session != "" {
			request.Header.Set("Mcp-Session-Id", session)
			if response, err := c.client.Do(request); err == nil {
				_ = response.Body.Close()
			}
		}
	}
	c.client.CloseIdleConnections()
}

// post sends a message, and reads the answer to its end. The header of a modern
// request repeats the tool that is called.
func (c *callers) post(session, tool, body string) (*http.Response, []byte, error) {
	request, err := http.NewRequest(http.MethodPost, c.url, bytes.NewReader([]byte(body)))
	if err != nil {
		return nil, nil, err
	}
	request.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	switch {
	case c.era == modern:
		request.Header.Set("Mcp-Protocol-Version", "2026-07-28")
		request.Header.Set("Mcp-Method", "tools/call")
		request.Header.Set("Mcp-Name", tool)
	case session != "":
		request.Header.Set("Mcp-Session-Id", session)
		request.Header.Set("Mcp-Protocol-Version", "2025-06-18")
	}
	response, err := c.client.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s: %s", response.Status, answer)
	}
	return response, answer, err
}

// envelope is what a modern request says of the client.
const envelope = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"compare","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}},`

// message is a request with what stands between its id and its end.
func (c *callers) message(rest string) string {
	if c.era == modern {
		const params = `"params":{`
		at := len(params) + bytes.Index([]byte(rest), []byte(params))
		rest = rest[:at] + envelope + rest[at:]
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,%s}`, c.last.Add(1), rest)
}

// perCall makes the calls, all callers at once, and returns how fast they were.
func (c *callers) perCall(calls int, call func(n int) string) (figure, error) {
	var next atomic.Int64
	var all sync.WaitGroup
	took, errs := make([]time.Duration, calls), make([]error, len(c.sessions))
	began := time.Now()
	for i, session := range c.sessions {
		all.Go(func() {
			for n := int(next.Add(1)); n <= calls && errs[i] == nil; n = int(next.Add(1)) {
				sent := time.Now()
				errs[i] = c.call(session, call(n))
				took[n-1] = time.Since(sent)
			}
		})
	}
	all.Wait()
	f := figure{perSecond: float64(calls) / time.Since(began).Seconds()}
	slices.Sort(took)
	f.p50, f.p99 = took[calls/2].Round(10*time.Microsecond), took[calls*99/100].Round(10*time.Microsecond)
	return f, errors.Join(errs...)
}

// toolName finds the tool in a call.
var toolName = regexp.MustCompile(`"name":"([^"]*)"`)

func (c *callers) call(session, rest string) error {
	_, answer, err := c.post(session, toolName.FindStringSubmatch(rest)[1], c.message(rest))
	if err == nil && !bytes.Contains(answer, []byte(`"content":`)) || bytes.Contains(answer, []byte(`"isError":true`)) {
		err = fmt.Errorf("a call was refused: %s", answer)
	}
	return err
}
