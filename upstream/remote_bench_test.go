package upstream_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/upstream"
)

// BenchmarkCallOverHTTP compares a call through a Remote, in both eras, with a bare
// POST of the same size to the same server.
func BenchmarkCallOverHTTP(b *testing.B) {
	answer := `{"content":[{"type":"text","text":"` + strings.Repeat("x", 8<<10) + `"}]}`
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		m, _ := jsonrpc.Parse(raw)
		w.Header().Set("Content-Type", "application/json")
		switch m.Method {
		case "server/discover":
			_, _ = w.Write(jsonrpc.Result(m.ID, []byte(`{"capabilities":{}}`)).Raw())
		case "initialize":
			_, _ = w.Write(jsonrpc.Result(m.ID, []byte(initializeResult)).Raw())
		case "tools/call":
			_, _ = w.Write(jsonrpc.Result(m.ID, []byte(answer)).Raw())
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	defer site.Close()
	request := toolCall("1", "pay", `{"text":"`+strings.Repeat("y", 500)+`"}`)
	for _, era := range []upstream.Era{upstream.EraLegacy, upstream.EraModern} {
		b.Run(string(era), func(b *testing.B) {
			r, err := upstream.Dial(upstream.Endpoint{Name: "site", URL: site.URL}, upstream.Options{Era: era})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = r.Close(context.Background()) }()
			if _, err := r.Initialize(b.Context(), []byte(clientParams)); err != nil {
				b.Fatal(err)
			}
			r.Proceed()
			b.SetParallelism(16)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					s, err := r.Ready(b.Context())
					if err != nil {
						b.Error(err)
						return
					}
					call, err := s.Send(b.Context(), request)
					if err == nil {
						_, err = call.Wait(b.Context())
					}
					if err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
	b.Run("bare", func(b *testing.B) {
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128}}
		defer client.CloseIdleConnections()
		b.SetParallelism(16)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				resp, err := client.Post(site.URL, "application/json", bytes.NewReader(request.Raw()))
				if err != nil {
					b.Error(err)
					return
				}
				_, _ = io.ReadAll(resp.Body)
				_ = resp.Body.Close()
			}
		})
	})
}
