package gateway_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/dedup/storetest"
	"github.com/mcp-idem/mcp-idem/gateway"
	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/upstream"
)

// BenchmarkReaderOverHTTP compares a call without a key, from a client to an HTTP
// server, through a gateway and through a plain reverse proxy. Client and server are
// in the figures of both, and alone in those of the direct way.
func BenchmarkReaderOverHTTP(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(serveReader))
	defer server.Close()
	b.Run("direct", func(b *testing.B) { callReader(b, server.URL) })
	b.Run("proxy", func(b *testing.B) {
		to, _ := url.Parse(server.URL)
		transport := &http.Transport{MaxIdleConnsPerHost: 128, DisableCompression: true}
		defer transport.CloseIdleConnections()
		proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, Transport: transport})
		defer proxy.Close()
		callReader(b, proxy.URL)
	})
	b.Run("gateway", func(b *testing.B) {
		ledger, err := dedup.New(b.Context(), storetest.NewReference(storetest.NewClock().Now).Open(nil), dedup.Options{})
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = ledger.Close() }()
		options := gateway.Options{Dial: gateway.Remote(upstream.Endpoint{Name: "site", URL: server.URL}), Log: zerolog.Nop()}
		options.Policy.TrustAnnotations = true
		gate, err := gateway.NewHTTP(ledger, options, gateway.HTTPOptions{})
		if err != nil {
			b.Fatal(err)
		}
		front := httptest.NewServer(gate)
		defer front.Close()
		defer gate.Close(context.Background())
		callReader(b, front.URL)
	})
}

// serveReader is an MCP server of the legacy era with one tool, which reads.
func serveReader(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m, _ := jsonrpc.Parse(body)
	results := map[string]string{
		"initialize": `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"site","version":"1"}}`,
		"tools/list": `{"tools":[{"name":"get_balance","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}`,
		"tools/call": `{"content":[{"type":"text","text":"42.50"}],"structuredContent":{"balance":42.50}}`,
	}
	result, known := results[m.Method]
	switch {
	case m.IsNotification():
		w.WriteHeader(http.StatusAccepted)
	case !known: // it has no stream of its own, and tells its eras by refusing
		w.WriteHeader(http.StatusMethodNotAllowed)
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(jsonrpc.Result(m.ID, []byte(result)).Raw())
	}
}

// callReader calls the tool as one client that has shaken hands and calls at once as
// often as it may.
func callReader(b *testing.B, base string) {
	transport := &http.Transport{MaxIdleConnsPerHost: 128, DisableCompression: true}
	defer transport.CloseIdleConnections()
	session := ""
	send := func(body string) string {
		r, _ := http.NewRequestWithContext(b.Context(), http.MethodPost, base+"/mcp", strings.NewReader(body))
		r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
		if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
		}
		resp, err := transport.RoundTrip(r)
		if err != nil {
			b.Error(err)
			return ""
		}
		defer func() { _ = resp.Body.Close() }()
		if fresh := resp.Header.Get("Mcp-Session-Id"); fresh != "" {
			session = fresh
		}
		answer, _ := io.ReadAll(resp.Body)
		return string(answer)
	}
	send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`)
	send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	send(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	b.SetParallelism(16)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if answer := send(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"get_balance","arguments":{}}}`); !strings.Contains(answer, "42.50") {
				b.Errorf("an answer is %q", answer)
				return
			}
		}
	})
}
