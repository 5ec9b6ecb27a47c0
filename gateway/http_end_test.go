package gateway_test

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/gateway"
	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

func TestAShutdownLetsCallsEnd(t *testing.T) {
	t.Parallel()
	w := newWeb(t, shopTools, nil)
	w.server.on("refund", w.server.hold)
	session := w.enter()
	got := make(chan answer, 2)
	go func() { got <- w.send(post(calling("1", "refund", refundA1), session...)) }()
	keyed := w.server.next()
	listening := w.open(ask{method: "GET", path: "/mcp"}.with(session...))
	ended := make(chan error, 1)
	go func() { ended <- w.shut() }()
	w.awaitDeaf()
	keyed.answer(`{"content":[{"type":"text","text":"paid"}]}`)
	assert.Contains(t, receive(t, got, "the answer").body, "paid")
	assert.Empty(t, listening.ends())
	require.NoError(t, receive(t, ended, "the end"))
	assert.Equal(t, dedup.Completed, w.only().State)
}

func TestAShutdownTellsWhatIsNotKnown(t *testing.T) {
	t.Parallel()
	w := newWeb(t, shopTools, func(o *gateway.HTTPOptions) { o.DrainFor = 50 * time.Millisecond })
	w.server.on("refund", w.server.hold)
	session := w.enter()
	got := make(chan answer, 2)
	go func() { got <- w.send(post(calling("1", "refund", refundA1), session...)) }()
	w.server.next()
	go func() { got <- w.send(visitingTool("refund", `{"order":"A2","idempotency_key":"refund:A2:1"}`)) }()
	w.server.next()
	require.NoError(t, w.shut())
	for range 2 {
		assert.Contains(t, receive(t, got, "the answer").body, `"outcome":"EFFECT_UNKNOWN"`)
	}
	for _, e := range w.entries() {
		assert.Equal(t, dedup.Unknown, e.State)
	}
}

func TestAServerThatCannotBeStartedEndsTheGateway(t *testing.T) {
	t.Parallel()
	r := prepare(t, shopTools, nil)
	r.server.stayDownFromNowOn()
	gate, err := gateway.NewHTTP(r.ledger, r.options, gateway.HTTPOptions{})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	assert.Error(t, gate.Serve(context.Background(), l))
}

// Some vanish while their call runs, some with a stream open, some without a word;
// goleak and the count of processes see to it that nothing is left.
func TestFourHundredClientsThatVanishLeaveNothing(t *testing.T) {
	t.Parallel()
	w := newWeb(t, shopTools, nil)
	w.server.on("look", func(*call) {}) // never answered
	w.server.on("refund", func(c *call) { c.answer(`{"content":[]}`) })
	const clients = 400
	var all sync.WaitGroup
	places := make(chan struct{}, 32)
	for i := range clients {
		all.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			w.vanish(i)
		})
	}
	all.Wait()
	w.client.CloseIdleConnections()
	assert.NoError(t, w.shut())
	for _, e := range w.entries() {
		assert.Equal(t, dedup.Completed, e.State)
	}
}

// awaitDeaf waits until nobody listens any more.
func (w *web) awaitDeaf() {
	w.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		conn, err := net.DialTimeout("tcp", strings.TrimPrefix(w.base, "http://"), time.Second)
		if err != nil {
			return
		}
		_ = conn.Close()
	}
	w.t.Fatal("the gateway listens on")
}

// vanish is a client that connects, calls and is gone.
func (w *web) vanish(i int) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	do := func(a ask) *http.Response {
		response, err := w.client.Do(w.request(ctx, a))
		if !assert.NoError(w.t, err) {
			return nil
		}
		return response
	}
	opened := do(post(initialize))
	if opened == nil {
		return
	}
	session := []string{"Mcp-Session-Id", opened.Header.Get("Mcp-Session-Id")}
	_ = opened.Body.Close()
	key := strconv.Itoa(i)
	switch i % 4 {
	case 0:
		w.start(visitingTool("look", `{}`))()
	case 1:
		w.start(post(calling("1", "look", `{}`), session...))()
	case 2:
		_ = do(ask{method: "GET", path: "/mcp"}.with(session...)).Body.Close()
	case 3:
		_ = do(post(calling("1", "refund", `{"order":"`+key+`","idempotency_key":"refund:order-`+key+`:1"}`), session...)).Body.Close()
	}
}

// replies has the answers of the gateway to the server's requests put into a channel.
func (s *server) replies(to chan jsonrpc.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replied = func(m jsonrpc.Message) { to <- m }
}

// stayDownFromNowOn lets no process get far.
func (s *server) stayDownFromNowOn() { _ = s.listener.Close() }
