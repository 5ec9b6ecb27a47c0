package upstreamtest

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// A Request is one line of the file of HTTP requests. It is noted before anything
// is done about the request.
type Request struct {
	Method string // of HTTP
	Path   string
	Reused bool // the connection carried another before
	Header http.Header
}

// Requests returns the HTTP requests that the server has had so far, in the order
// in which they came. A file that does not exist has none; a last line without
// its end is an error.
func Requests(file string) ([]Request, error) {
	data, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	var requests []Request
	for line := range bytes.Lines(data) {
		request, err := parseRequest(line)
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", file, len(requests)+1, err)
		}
		requests = append(requests, request)
	}
	return requests, nil
}

func parseRequest(line []byte) (Request, error) {
	object, err := rawjson.ParseObject(line)
	if err != nil {
		return Request{}, err
	}
	r := Request{Header: http.Header{}}
	r.Method, _ = object.String("method")
	r.Path, _ = object.String("path")
	reused, _ := object.Get("reused")
	r.Reused = string(reused) == "true"
	raw, _ := object.Get("header")
	header, err := rawjson.ParseObject(raw)
	for _, m := range header.Members() {
		values, _ := rawjson.ParseArray(m.Value)
		for _, raw := range values {
			value, _ := rawjson.Unquote(raw)
			r.Header[m.Name] = append(r.Header[m.Name], value)
		}
	}
	return r, err
}

// line writes the request as a line of JSON.
func (r Request) line() []byte {
	var header []byte
	for i, name := range slices.Sorted(maps.Keys(r.Header)) {
		if i > 0 {
			header = append(header, ',')
		}
		header = append(append(header, rawjson.Quote(name)...), `:[`...)
		for j, value := range r.Header[name] {
			if j > 0 {
				header = append(header, ',')
			}
			header = append(header, rawjson.Quote(value)...)
		}
		header = append(header, ']')
	}
	return jsonrpc.Line(fmt.Appendf(nil, `{"method":%s,"path":%s,"reused":%t,"header":{%s}}`,
		rawjson.Quote(r.Method), rawjson.Quote(r.Path), r.Reused, header))
}
