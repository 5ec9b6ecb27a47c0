package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// A caller is a client that speaks raw JSON-RPC with a gateway.
type caller interface {
	// ask sends a request and does not wait for anything.
	ask(method string, params []byte) (asked, error)
	notify(method string) error
	// vanish lets go of the gateway, whatever is going on. leave comes after it.
	vanish() error
	// leave ends the client. Its error says what was wrong with what it was told.
	leave() error
}

// asked is a request that has been sent.
type asked interface {
	// progress waits for the next notification of progress, which has to have the
	// token, and to be the n-th.
	progress(token string, n int) error
	// answer waits for the response.
	answer() (jsonrpc.Message, error)
}

// isProgress reports whether a message tells of the n-th progress of a token.
func isProgress(raw []byte, token string, n int) bool {
	m, err := rawjson.Parse(raw)
	if err != nil {
		return false
	}
	params := m.Get("params")
	return m.Get("method").Is(`"notifications/progress"`) && params.Get("progressToken").Is(token) && params.Get("progress").Is(strconv.Itoa(n))
}

// A stdioClient has started its gateway.
type stdioClient struct{ *session }

func (c stdioClient) ask(method string, params []byte) (asked, error) {
	p, err := c.request(method, params)
	return stdioAsked{p}, err
}

func (c stdioClient) notify(method string) error {
	return c.writer.Write(jsonrpc.Notification(method, nil))
}

func (c stdioClient) vanish() error { return c.stdin.Close() }

func (c stdioClient) leave() error {
	_ = c.stdin.Close() // it may have vanished
	status, err := c.exit()
	if err == nil && status != 0 {
		err = fmt.Errorf("exit status %d", status)
	}
	for _, m := range c.inbox {
		if m.Method == "notifications/progress" {
			err = errors.Join(err, fmt.Errorf("progress that nobody waits for: %s", m.Raw()))
		}
	}
	return err
}

type stdioAsked struct{ *pending }

func (a stdioAsked) progress(token string, n int) error {
	_, err := a.session.receive(func(raw []byte) bool { return isProgress(raw, token, n) })
	return err
}

func (a stdioAsked) answer() (jsonrpc.Message, error) { return a.wait() }

// An httpClient speaks streamable HTTP. In the legacy era it has a session, and
// listens beside its calls.
type httpClient struct {
	address, era string
	http         *http.Client
	life         context.Context
	hangUp       context.CancelFunc
	reading      sync.WaitGroup

	mu      sync.Mutex
	lastID  int
	session string
	strays  []string // what was told on the stream of no request and belongs to one
}

func newHTTPClient(address, era string) *httpClient {
	c := &httpClient{address: address, era: era, http: &http.Client{Transport: &http.Transport{}}}
	c.life, c.hangUp = context.WithTimeout(context.Background(), 2*patience)
	return c
}

// request makes an HTTP request with the headers of the era.
func (c *httpClient) request(method, session string, m *jsonrpc.Message) (*http.Response, error) {
	var body io.Reader
	if m != nil {
		body = bytes.NewReader(m.Raw())
	}
	r, err := http.NewRequestWithContext(c.life, method, c.address, body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Content-Type", "application/json")
	switch {
	case c.era == modernEra:
		r.Header.Set("MCP-Protocol-Version", "2026-07-28")
		r.Header.Set("Mcp-Method", m.Method)
		if params, err := rawjson.ParseObject(m.Params); err == nil {
			name, _ := params.String("name")
			r.Header.Set("Mcp-Name", name)
		}
	case session != "":
		r.Header.Set("MCP-Protocol-Version", "2025-06-18")
		r.Header.Set("Mcp-Session-Id", session)
	}
	return c.http.Do(r)
}

func (c *httpClient) ask(method string, params []byte) (asked, error) {
	c.mu.Lock()
	c.lastID++
	m := jsonrpc.Request([]byte(strconv.Itoa(c.lastID)), method, params)
	session := c.session
	c.mu.Unlock()
	p := &posted{id: string(m.ID), said: make(chan jsonrpc.Message, 100)}
	c.reading.Go(func() {
		defer close(p.said)
		response, err := c.request(http.MethodPost, session, &m)
		if err != nil {
			p.err = err
			return
		}
		if id := response.Header.Get("Mcp-Session-Id"); id != "" {
			c.mu.Lock()
			c.session = id
			c.mu.Unlock()
		}
		p.err = readResponse(response, func(m jsonrpc.Message) { p.said <- m })
	})
	return p, nil
}

// notify sends a notification. With the one that ends the handshake the client begins
// to listen.
func (c *httpClient) notify(method string) error {
	c.mu.Lock()
	session := c.session
	c.mu.Unlock()
	m := jsonrpc.Notification(method, nil)
	response, err := c.request(http.MethodPost, session, &m)
	if err != nil {
		return err
	}
	if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusAccepted {
		return errors.Join(err, fmt.Errorf("%s was answered with HTTP status %d", method, response.StatusCode))
	}
	return c.listen(session)
}

func (c *httpClient) listen(session string) error {
	stream, err := c.request(http.MethodGet, session, nil)
	if err != nil {
		return err
	}
	c.reading.Go(func() {
		_ = readResponse(stream, func(m jsonrpc.Message) { // it ends when the client leaves
			if m.IsResponse() || m.Method == "notifications/progress" {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.strays = append(c.strays, string(m.Raw()))
			}
		})
	})
	return nil
}

func (c *httpClient) vanish() error {
	c.hangUp()
	return nil
}

func (c *httpClient) leave() error {
	c.hangUp()
	c.reading.Wait()
	c.http.CloseIdleConnections()
	if len(c.strays) > 0 {
		return fmt.Errorf("on the stream of no request: %s", c.strays)
	}
	return nil
}

// readResponse reads the messages in a response, one object or events, to its end.
func readResponse(response *http.Response, take func(jsonrpc.Message)) error {
	defer response.Body.Close()
	if !strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		body, err := io.ReadAll(response.Body)
		if err != nil {
			return err
		}
		m, err := jsonrpc.Parse(body)
		if err != nil {
			return fmt.Errorf("HTTP status %d with %q: %w", response.StatusCode, body, err)
		}
		take(m)
		return nil
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		m, err := jsonrpc.Parse(bytes.Clone(data))
		if err != nil {
			return fmt.Errorf("an event with %q: %w", data, err)
		}
		take(m)
	}
	return lines.Err()
}

// posted is a request that has been sent by HTTP. Whatever is said of it has to be
// said in its own response.
type posted struct {
	id   string
	said chan jsonrpc.Message // closed at the end of the response
	err  error                // why it ended, once said is closed
}

func (p *posted) next() (jsonrpc.Message, error) {
	m, ok := <-p.said
	if !ok {
		return m, errors.Join(errors.New("the response has ended"), p.err)
	}
	return m, nil
}

func (p *posted) progress(token string, n int) error {
	m, err := p.next()
	if err == nil && !isProgress(m.Raw(), token, n) {
		err = fmt.Errorf("progress %d of %s was to come, and not %s", n, token, m.Raw())
	}
	return err
}

func (p *posted) answer() (jsonrpc.Message, error) {
	m, err := p.next()
	switch {
	case err != nil:
		return m, err
	case !m.IsResponse() || string(m.ID) != p.id:
		return m, fmt.Errorf("the answer to %s was to come, and not %s", p.id, m.Raw())
	}
	if more, ok := <-p.said; ok {
		return m, fmt.Errorf("something was said behind the answer: %s", more.Raw())
	}
	return m, p.err
}
