package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
	"github.com/mcp-idem/mcp-idem/upstream"
)

// hurryFor is how long running calls may go on after the process was told to end:
// clients that ask for it with a signal send the next one after two seconds.
const hurryFor = 1500 * time.Millisecond

// flushFor is how long the last responses may take to be read by the client.
const flushFor = time.Second

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
	g      *Gateway
	caller *Caller
	out    *outbox

	life context.Context // of requests; ends when the client is done with
	end  context.CancelCauseFunc

	shaken   chan struct{} // closed when the client's initialize is answered; only readAll knows it changes
	handlers sync.WaitGroup
	mu       sync.Mutex
	open     map[string]context.CancelCauseFunc // the client's requests, by id
	asked    map[string]question                // the upstream's requests to the client, by our id
	lastID   int
	closing  bool
}

// A question is a request of the upstream to the client.
type question struct {
	session *upstream.Session
	id      []byte // the upstream's
	ours    []byte
}

func newStdioClient(g *Gateway, out io.Writer) *stdioClient {
	c := &stdioClient{g: g, out: newOutbox(out), open: map[string]context.CancelCauseFunc{}, asked: map[string]question{}}
	c.caller = newCaller(func(m jsonrpc.Message) { c.out.put(m) })
	c.life, c.end = context.WithCancelCause(context.Background())
	return c
}

// readAll reads the client's messages until it closes its side. A message that is
// none gets an error, and the session goes on.
func (c *stdioClient) readAll(in io.Reader) error {
	lines := jsonrpc.NewReader(in, MaxMessageBytes)
	for {
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
	case errors.As(err, &bad):
		c.out.put(jsonrpc.ErrorReply(m.ID, bad))
	case m.IsResponse():
		c.takeAnswer(m)
	case m.IsNotification():
		c.takeNotification(m)
	default:
		c.takeRequest(m)
	}
}

// takeRequest registers a request and handles it on a goroutine of its own.
func (c *stdioClient) takeRequest(m jsonrpc.Message) {
	ctx, err := c.register(m)
	if err != nil {
		c.out.put(jsonrpc.ErrorReply(m.ID, err))
		return
	}
	handle := c.inTurn(m)
	go func() {
		defer c.handlers.Done()
		reply := handle(ctx, m)
		var cancelled *cancelledError
		isCancelled := errors.As(context.Cause(ctx), &cancelled)
		c.unregister(m)   // first: whoever has the response may use the id again
		if !isCancelled { // else it gets no response
			c.out.put(reply)
		}
	}()
}

// spawn runs f on a goroutine that finish waits for, unless that has begun.
func (c *stdioClient) spawn(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closing {
		c.handlers.Go(f)
	}
}

func (c *stdioClient) register(m jsonrpc.Message) (context.Context, *jsonrpc.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := jsonrpc.IDKey(m.ID)
	switch {
	case c.closing:
		return nil, &jsonrpc.Error{Code: codeUnavailable, Message: "the gateway is being shut down; nothing was sent"}
	case c.open[key] != nil:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "a request with this id is still open; nothing was sent"}
	case len(c.open) >= MaxRequestsInFlight:
		return nil, &jsonrpc.Error{Code: codeUnavailable, Message: fmt.Sprintf("%d requests are open already; nothing was sent", MaxRequestsInFlight)}
	}
	ctx, cancel := context.WithCancelCause(c.life)
	c.open[key] = cancel
	c.handlers.Add(1)
	return ctx, nil
}

func (c *stdioClient) unregister(m jsonrpc.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := jsonrpc.IDKey(m.ID)
	c.open[key](nil)
	delete(c.open, key)
}

// inTurn lets what comes behind an initialize wait for its answer: a client that
// sends everything at once still shakes hands first.
func (c *stdioClient) inTurn(m jsonrpc.Message) func(context.Context, jsonrpc.Message) jsonrpc.Message {
	if m.Method == "initialize" {
		shaken := make(chan struct{})
		c.shaken = shaken
		return func(ctx context.Context, m jsonrpc.Message) jsonrpc.Message {
			defer close(shaken)
			return c.g.initialize(ctx, c.caller, m)
		}
	}
	shaken := c.shaken
	return func(ctx context.Context, m jsonrpc.Message) jsonrpc.Message {
		if shaken != nil {
			select {
			case <-shaken:
			case <-ctx.Done():
			}
		}
		return c.handle(ctx, m)
	}
}

// handle finds who answers a request.
func (c *stdioClient) handle(ctx context.Context, m jsonrpc.Message) jsonrpc.Message {
	switch m.Method {
	case "tools/call":
		return c.g.Call(ctx, c.caller, m)
	case "tools/list":
		return c.g.tools.list(ctx, m)
	case "ping":
		return jsonrpc.Result(m.ID, []byte(`{}`))
	}
	return c.g.relay(ctx, m)
}

func (c *stdioClient) takeNotification(m jsonrpc.Message) {
	switch m.Method {
	case "notifications/cancelled":
		c.cancel(m)
	case "notifications/initialized":
		shaken := c.shaken
		c.spawn(func() { c.initialized(m, shaken) })
	default:
		c.notifyUpstream(m)
	}
}

// initialized completes the handshake, once initialize is answered.
func (c *stdioClient) initialized(m jsonrpc.Message, shaken chan struct{}) {
	if shaken != nil {
		<-shaken
	}
	if err := c.g.server.Initialized(m); err != nil {
		c.g.log.Warn().Err(err).Msg("the handshake could not be completed")
		return
	}
	if c.g.hasTools.Load() { // whoever needs the list first would wait for it
		_, _ = c.g.tools.get(c.life)
	}
}

// cancel ends a request's context. What the request does about it is its own
// business: an unkeyed one tells the upstream, a keyed one goes on.
func (c *stdioClient) cancel(m jsonrpc.Message) {
	params, err := rawjson.ParseObject(m.Params)
	if err != nil {
		return
	}
	id, _ := params.Get("requestId")
	c.mu.Lock()
	cancel := c.open[jsonrpc.IDKey(id)]
	c.mu.Unlock()
	if cancel != nil {
		cancel(&cancelledError{m})
	}
}

func (c *stdioClient) notifyUpstream(m jsonrpc.Message) {
	const patience = 100 * time.Millisecond // this is the reading goroutine
	ctx, cancel := context.WithTimeout(c.life, patience)
	defer cancel()
	session, err := c.g.server.Ready(ctx)
	if err == nil {
		err = session.Notify(m)
	}
	if err != nil {
		c.g.log.Warn().Err(err).Str("method", m.Method).Msg("a notification of the client was lost")
	}
}

// takeAnswer hands the client's response to the upstream that asked.
func (c *stdioClient) takeAnswer(m jsonrpc.Message) {
	c.mu.Lock()
	q, ok := c.asked[jsonrpc.IDKey(m.ID)]
	delete(c.asked, jsonrpc.IDKey(m.ID))
	c.mu.Unlock()
	if ok {
		_ = q.session.Reply(m.With("id", q.id)) // the session that asked may be over
	}
}

// Request hands the upstream's request to the client, under an id of ours: a
// restarted upstream begins with the same ids again.
func (c *stdioClient) Request(s *upstream.Session, m jsonrpc.Message) {
	c.mu.Lock()
	c.lastID++
	id := []byte(strconv.Itoa(c.lastID))
	c.asked[jsonrpc.IDKey(id)] = question{session: s, id: m.ID, ours: id}
	c.mu.Unlock()
	c.out.put(m.With("id", id))
}

// Notification hands the upstream's notification to the client.
func (c *stdioClient) Notification(m jsonrpc.Message) {
	switch m.Method {
	case "notifications/tools/list_changed":
		c.g.tools.invalidate()
		c.spawn(func() { c.toolsChanged(m) })
		return
	case "notifications/progress":
		if params, err := rawjson.ParseObject(m.Params); err == nil {
			token, _ := params.Get("progressToken")
			c.g.timeouts.renew(token)
		}
	case "notifications/cancelled":
		m = c.withOurID(m)
	}
	if !c.out.put(m) {
		c.g.log.Warn().Str("method", m.Method).Msg("a notification was dropped: the client does not read")
	}
}

// withOurID names the request that the upstream cancels by the id under which the
// client knows it.
func (c *stdioClient) withOurID(m jsonrpc.Message) jsonrpc.Message {
	params, err := rawjson.ParseObject(m.Params)
	if err != nil {
		return m
	}
	id, _ := params.Get("requestId")
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range c.asked {
		if jsonrpc.SameID(q.id, id) {
			return m.With("params", params.Set("requestId", q.ours))
		}
	}
	return m
}

// toolsChanged passes a change of the tools on, where what is offered differs.
func (c *stdioClient) toolsChanged(m jsonrpc.Message) {
	if c.g.tools.refresh(c.life) && c.g.announces.Load() {
		c.out.put(m)
	}
}

// finish lets what runs end, for a while, then ends everything. Whoever is still
// waiting then is told how its operation stands.
func (c *stdioClient) finish(ctx context.Context) {
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	drain, cancel := context.WithTimeout(context.Background(), c.g.options.DrainFor)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(hurryFor, cancel) })
	defer stop()

	idle := make(chan struct{})
	go func() {
		c.handlers.Wait()
		c.g.attempts.Wait() // those whose callers have left
		close(idle)
	}()
	select {
	case <-idle:
	case <-drain.Done():
	case <-c.g.server.Failed():
	}
	c.g.end(errShutdown)
	c.end(errShutdown)
	<-idle
	c.g.listeners.Wait()

	flush, cancelFlush := context.WithTimeout(context.Background(), flushFor)
	defer cancelFlush()
	c.out.close(flush)
	_ = c.g.server.Close(c.closeContext(ctx)) // its error is that of the context, and nothing is left in any case
}

// closeContext bounds the upstream's end where the process itself was told to end.
func (c *stdioClient) closeContext(ctx context.Context) context.Context {
	if ctx.Err() == nil {
		return context.Background()
	}
	hurried, cancel := context.WithTimeout(context.Background(), hurryFor)
	context.AfterFunc(hurried, cancel)
	return hurried
}
