package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// served is an upstream on pipes.
type served struct {
	in    *io.PipeWriter
	out   *bufio.Scanner
	ended chan error
}

func serve(t *testing.T, options UpstreamOptions) *served {
	t.Helper()
	in, write := io.Pipe()
	read, out := io.Pipe()
	s := &served{in: write, out: bufio.NewScanner(read), ended: make(chan error, 1)}
	go func() { s.ended <- ServeUpstream(t.Context(), in, out, options) }()
	return s
}

func (s *served) call(t *testing.T, id int, tool, arguments string) {
	t.Helper()
	_, err := fmt.Fprintf(s.in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`+"\n", id, tool, arguments)
	require.NoError(t, err)
}

// answer reads the next answer: whose it is, and what it holds.
func (s *served) answer(t *testing.T) (id int, structured string, isError bool) {
	t.Helper()
	require.True(t, s.out.Scan())
	var reply struct {
		ID     int
		Result struct {
			StructuredContent json.RawMessage
			IsError           bool
		}
	}
	require.NoError(t, json.Unmarshal(s.out.Bytes(), &reply))
	return reply.ID, string(reply.Result.StructuredContent), reply.Result.IsError
}

func (s *served) end(t *testing.T) {
	t.Helper()
	require.NoError(t, s.in.Close())
	require.NoError(t, <-s.ended)
}

// fated returns an order whose first answer is lost and whose second is not.
func fated(t *testing.T, l loss) string {
	t.Helper()
	for n := range 1000 {
		if order := orderOf(n); l.loses(order, 1) && !l.loses(order, 2) {
			return order
		}
	}
	t.Fatal("no order loses its first answer only")
	return ""
}

func TestUpstream_CommitsARefundWhoseAnswerItLoses(t *testing.T) {
	t.Parallel()
	l, path := loss{0.3, 1}, filepath.Join(t.TempDir(), "book.jsonl")
	order := fated(t, l)
	s := serve(t, UpstreamOptions{Refunds: path, Loss: l.share, Seed: l.seed})
	s.call(t, 1, refundTool, `{"order":"`+order+`","amount":100}`)
	s.call(t, 2, listTool, `{"order":"`+order+`"}`)
	id, list, _ := s.answer(t)
	assert.Equal(t, 2, id, "the first call is never answered")
	assert.JSONEq(t, `{"refunds":[{"id":"re_1","order":"`+order+`","amount":100}]}`, list, "the list holds what was executed before it")

	s.call(t, 3, refundTool, `{"order":"`+order+`","amount":100}`)
	id, made, _ := s.answer(t)
	assert.Equal(t, 3, id)
	assert.JSONEq(t, `{"id":"re_2","order":"`+order+`","amount":100}`, made)
	s.end(t)

	refunds, err := readBook(path)
	require.NoError(t, err)
	assert.Equal(t, []refund{{"re_1", order, 100, true}, {"re_2", order, 100, false}}, refunds)
}

func TestUpstream_ListsNothingAsAnEmptyList(t *testing.T) {
	t.Parallel()
	s := serve(t, UpstreamOptions{Refunds: filepath.Join(t.TempDir(), "book.jsonl")})
	s.call(t, 1, refundTool, `{"order":"order-1","amount":100}`)
	_, _, _ = s.answer(t)
	s.call(t, 2, listTool, `{"order":"order-2"}`)
	_, list, _ := s.answer(t)
	assert.JSONEq(t, `{"refunds":[]}`, list)
	s.call(t, 3, listTool, `{}`)
	_, list, _ = s.answer(t)
	assert.JSONEq(t, `{"refunds":[{"id":"re_1","order":"order-1","amount":100}]}`, list)
	s.end(t)
}

func TestUpstream_RefusesACallThatNamesNoOrder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "book.jsonl")
	s := serve(t, UpstreamOptions{Refunds: path})
	s.call(t, 1, refundTool, `{"amount":100}`)
	_, _, isError := s.answer(t)
	assert.True(t, isError)
	s.end(t)
	refunds, err := readBook(path)
	require.NoError(t, err)
	assert.Empty(t, refunds)
}

func TestUpstream_ExecutesNothingOfALineThatWasCutOff(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "book.jsonl")
	s := serve(t, UpstreamOptions{Refunds: path})
	_, err := io.WriteString(s.in, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"refund","arguments":{"order":"order-1","amount":1}}}`)
	require.NoError(t, err)
	s.end(t)
	refunds, err := readBook(path)
	require.NoError(t, err)
	assert.Empty(t, refunds)
}

func TestUpstream_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	in, write := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, ServeUpstream(ctx, in, io.Discard, UpstreamOptions{Refunds: filepath.Join(t.TempDir(), "book.jsonl")}))
	require.NoError(t, write.Close())
}
