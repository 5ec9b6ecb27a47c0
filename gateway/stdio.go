package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
	"github.com/mcp-idem/mcp-idem/upstream"
)

// Clients that end a server with a signal send the next, harder one after two
// seconds. What is done after the first must fit into that.
const (
	hurryFor      = time.Second            // running calls may go on
	hurryFlushFor = 200 * time.Millisecond // the client may read what is left
	hurryCloseFor = 200 * time.Millisecond // the upstream may end by itself
)

// ServeStdio starts the upstream and serves one client on in and out until the
// client closes its side (nil), ctx ends (nil), or the upstream cannot be started
// (*upstream.StartError). Calls that run then may end; what does not end in time
// is unknown. When it returns, the upstream is gone. It is called once.
func (g *Gateway) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	c := newStdioClient(g, out)
	options := g.options.Upstream
	options.Handler, options.Observer = c, g.observer(c)
	server, err := upstream.Start(g.options.Command, options)
	if err != nil {
		return err
	}
	g.server = server
	ended := make(chan error, 1)
	go func() { ended <- c.readAll(in) }()

	select {
	case err = <-ended:
		if err != nil {
			g.log.Warn().Err(err).Msg("the client's messages cannot be read any more")
		}
	case <-ctx.Done():
	case <-server.Failed():
	}
	c.finish(ctx)
	return server.Err()
}

// A stdioClient is the client on standard input and output. The goroutine that
// reads registers each request before anything is done about it, so that a
// cancellation always finds its request; every request then has a goroutine of its
// own, and one that takes long delays nobody.
type stdioClient struct {
	g         *Gateway
	caller    *Caller
	out       *outbox
	requests  *exchanges // of the client
	questions questions  // of the upstream
	order     line       // in which what is handed on was sent

	// The handshake, as the goroutine that reads has seen it.
	shaken      chan struct{} // closed when initialize is answered; nil before it came
	initialized bool          // the client has said so, or goes on without
}

func newStdioClient(g *Gateway, out io.Writer) *stdioClient {
	c := &stdioClient{g: g, out: newOutbox(out)}
	c.requests = newExchanges(c.out)
	c.caller = newCaller(func(m jsonrpc.Message) { c.out.put(m) })
	return c
}

// readAll reads the client's messages until it closes its side. A message that is
// none gets an error, and the session goes on. A client that does not read is not
// read from either, once too much waits for it.
func (c *stdioClient) readAll(in io.Reader) error {
	lines := jsonrpc.NewReader(in, MaxMessageBytes)
	for {
		c.out.waitForRoom()
		line, err := lines.Next()
		var tooLong *jsonrpc.TooLongError
		switch {
		case errors.As(err, &tooLong):
			c.out.put(jsonrpc.ErrorReply(tooLong.ID, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest,
				Message: fmt.Sprintf("a message of more than %d bytes is refused; nothing was sent", tooLong.Limit)}))
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		default:
			c.take(line)
		}
	}
}

func (c *stdioClient) take(line []byte) {
	m, err := jsonrpc.Parse(line)
	var bad *jsonrpc.Error
	switch {
	case errors.As(err, &bad) && m.Method == "" && m.ID != nil:
		c.questions.answer(m, bad) // a response, as far as one can know
	case bad != nil:
		c.out.put(jsonrpc.ErrorReply(m.ID, bad))
	case m.IsResponse():
		c.questions.answer(m, nil)
	case m.IsNotification():
		c.takeNotification(m)
	default:
		c.takeRequest(m)
	}
}

// takeRequest has a request handled. What comes behind an initialize waits for its
// answer, so that a client that sends everything at once still shakes hands first.
func (c *stdioClient) takeRequest(m jsonrpc.Message) {
	x := Exchange{Caller: c.caller}
	switch m.Method {
	case "ping":
		c.out.put(jsonrpc.Result(m.ID, []byte(`{}`)))
	case "initialize":
		x.turn = c.order.join()
		shaken := make(chan struct{})
		if c.requests.begin(m, x, func(ctx context.Context, x *Exchange) jsonrpc.Message {
			defer close(shaken)
			return c.g.initialize(ctx, x, m)
		}) {
			c.shaken = shaken
		}
	default:
		if m.Method != "tools/list" { // that is answered from here
			x.turn = c.order.join()
		}
		shaken := c.proceed()
		c.requests.begin(m, x, func(ctx context.Context, x *Exchange) jsonrpc.Message {
			shaken(ctx)
			return c.handle(ctx, x, m)
		})
	}
}

// proceed returns what a message waits for that comes behind the handshake. The
// client is taken to go on without notifications/initialized, if it has not sent it.
func (c *stdioClient) proceed() func(context.Context) {
	shaken, goesOn := c.shaken, !c.initialized
	if shaken == nil {
		return func(context.Context) {}
	}
	c.initialized = true
	return func(ctx context.Context) {
		select {
		case <-shaken:
			if goesOn {
				c.g.server.Proceed()
			}
		case <-ctx.Done():
		}
	}
}

// handle finds who answers a request.
func (c *stdioClient) handle(ctx context.Context, x *Exchange, m jsonrpc.Message) jsonrpc.Message {
	switch m.Method {
	case "tools/call":
		return c.g.Call(ctx, x, m)
	case "tools/list":
		return c.g.tools.list(ctx, m)
	}
	return c.g.relay(ctx, x, m)
}

func (c *stdioClient) takeNotification(m jsonrpc.Message) {
	var hand func(context.Context) error
	switch m.Method {
	case "notifications/cancelled":
		c.requests.cancel(m)
		return
	case "notifications/initialized":
		c.initialized = true
		hand = func(context.Context) error { return c.completeHandshake(m) }
	default:
		hand = func(ctx context.Context) error { return c.g.notify(ctx, m) }
	}
	shaken, turn := c.proceed(), c.order.join()
	taken := c.requests.spawn(func() {
		defer turn.leave()
		shaken(c.requests.life)
		turn.wait(c.requests.life)
		if err := hand(c.requests.life); err != nil {
			c.g.log.Warn().Err(err).Str("method", m.Method).Msg("a notification of the client was lost")
		}
	})
	if !taken {
		turn.leave()
		c.g.log.Warn().Str("method", m.Method).Msg("a notification of the client was lost: too many wait")
	}
}

func (c *stdioClient) completeHandshake(m jsonrpc.Message) error {
	if err := c.g.server.Initialized(m); err != nil {
		return err
	}
	if c.g.hasTools.Load() { // whoever needs the list first would wait for it
		c.requests.spawn(func() { _, _ = c.g.tools.get(c.requests.life) })
	}
	return nil
}

// Request hands the upstream's request to the client.
func (c *stdioClient) Request(s upstream.Session, m jsonrpc.Message) {
	asked, ok := c.questions.ask(s, m)
	if !ok {
		_ = s.Reply(jsonrpc.ErrorReply(m.ID, &jsonrpc.Error{Code: codeUnavailable, Message: fmt.Sprintf("%d requests to the client are open already", MaxRequestsInFlight)}))
		return
	}
	c.out.put(asked)
}

// Notification hands the upstream's notification to the client.
func (c *stdioClient) Notification(m jsonrpc.Message) {
	ok := true
	switch m.Method {
	case "notifications/tools/list_changed":
		c.g.tools.invalidate()
		c.requests.spawn(func() { c.toolsChanged(m) })
		return
	case "notifications/progress":
		if params, err := rawjson.ParseObject(m.Params); err == nil {
			token, _ := params.Get("progressToken")
			c.g.timeouts.renew(token)
		}
	case "notifications/cancelled":
		if m, ok = c.questions.cancelled(m); !ok {
			return
		}
	}
	if !c.out.put(m) {
		c.g.log.Warn().Str("method", m.Method).Msg("a notification was dropped: the client does not read")
	}
}

// toolsChanged passes a change of the tools on, where what is offered differs.
func (c *stdioClient) toolsChanged(m jsonrpc.Message) {
	if c.g.tools.refresh(c.requests.life) && c.g.announces.Load() {
		c.out.put(m)
	}
}

// upstreamGone tells the client that nobody waits for its answers any more.
func (c *stdioClient) upstreamGone() {
	for _, notice := range c.questions.void() {
		c.out.put(notice)
	}
}

// finish lets what runs end, for a while, then ends everything. Whoever is still
// waiting then is told how its operation stands. When ctx ends, it hurries.
func (c *stdioClient) finish(ctx context.Context) {
	c.requests.close()
	drain, cancel := context.WithTimeout(context.Background(), c.g.options.DrainFor)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(hurryFor, cancel) })
	defer stop()

	idle := make(chan struct{})
	go func() {
		c.requests.handlers.Wait()
		c.g.attempts.Wait() // those whose callers have left
		close(idle)
	}()
	select {
	case <-idle:
	case <-drain.Done():
	case <-c.g.server.Failed():
	}
	c.g.end(errShutdown)
	c.requests.end(errShutdown)
	<-idle
	c.g.listeners.Wait()

	// A client that has closed its side may read on for as long as it likes.
	flush, cancelFlush := within(ctx, hurryFlushFor)
	defer cancelFlush()
	c.out.close(flush)
	last, cancelLast := within(ctx, hurryCloseFor)
	defer cancelLast()
	_ = c.g.server.Close(last) // its error is that of the context, and nothing is left in any case
}

// within returns a context that ends so long after ctx has.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(d, cancel) })
	return late, func() { stop(); cancel() }
}
