package gateway_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mcp-idem/mcp-idem/gateway"
	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

func TestALongCallIsKeptAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, w := gateway.NewStream(), httptest.NewRecorder()
		whole := make(chan bool, 1)
		go func() { whole <- s.Serve(context.Background(), w) }()
		<-time.After(40 * time.Second)
		s.End(jsonrpc.Result([]byte("1"), []byte("{\n}")))
		assert.True(t, <-whole)
		assert.Equal(t, "text/event-stream", w.Header().Get("Content-Type"))
		assert.Equal(t, ":\n\n:\n\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{ }}\n\n", w.Body.String())
	})
}

func TestAnAnswerThatIsAloneIsAnObject(t *testing.T) {
	t.Parallel()
	s, w := gateway.NewStream(), httptest.NewRecorder()
	s.End(jsonrpc.Result([]byte("1"), []byte("{\n}")))
	assert.False(t, s.Put(jsonrpc.Notification("x", nil)), "nothing comes behind the answer")
	assert.False(t, s.End(jsonrpc.Result([]byte("1"), []byte("{}"))), "there is one answer")
	assert.True(t, s.Serve(context.Background(), w))
	assert.Equal(t, "application/json", w.Header().Get("Content-Type"))
	assert.Equal(t, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\n}}", w.Body.String())
}

func TestAReaderWhoIsSlowLosesNotificationsAndNoAnswer(t *testing.T) {
	t.Parallel()
	s, w := gateway.NewStream(), httptest.NewRecorder()
	large := jsonrpc.Notification("x", []byte(`{"x":"`+strings.Repeat("x", gateway.MaxStreamBytes)+`"}`))
	assert.True(t, s.Put(large))
	assert.False(t, s.Put(large))
	assert.True(t, s.End(jsonrpc.Result([]byte("1"), []byte(`{}`))))
	assert.True(t, s.Serve(context.Background(), w))
	assert.Equal(t, 1, strings.Count(w.Body.String(), `"method":"x"`))
	assert.True(t, strings.HasSuffix(w.Body.String(), "\"result\":{}}\n\n"))
}

func TestAReaderWhoIsGoneIsNotWrittenTo(t *testing.T) {
	t.Parallel()
	s, w := gateway.NewStream(), httptest.NewRecorder()
	ctx, leave := context.WithCancel(context.Background())
	leave()
	assert.False(t, s.Serve(ctx, w))
	assert.False(t, s.End(jsonrpc.Result([]byte("1"), []byte(`{}`))))
}
