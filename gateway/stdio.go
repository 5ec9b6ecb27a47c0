package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rs/zerolog"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
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
	c := newStdioClient(g.log, out)
	hub := newOwnHub(g, c.visits.introduction)
	c.visits.face = hub
	host := bilingual{newOwner(c.client, g), c.visits, hub}
	c.host = host
	if err := g.dial(host); err != nil {
		Decline(in, out, err)
		return err
	}
	defer hub.work.Wait()
	return c.serve(ctx, in, g, g.options.DrainFor)
}

// declineWithin is how long a client is waited for that is to be told why it is not
// served.
const declineWithin = time.Second

// Decline answers the first request that comes on in with an error: most clients show
// their user that, and not what stands in the log. It waits for a moment. in may be
// read from after it has returned.
func Decline(in io.Reader, out io.Writer, why error) {
	declined := make(chan struct{})
	go func() {
		defer close(declined)
		lines := jsonrpc.NewReader(in, MaxMessageBytes)
		for {
			line, err := lines.Next()
			if err != nil {
				return
			}
			if m, err := jsonrpc.Parse(line); err == nil && m.IsRequest() {
				_, _ = out.Write(jsonrpc.Line(jsonrpc.ErrorReply(m.ID, unavailable(why)).Raw())) // a client that is gone is told nothing
				return
			}
		}
	}()
	select {
	case <-declined:
	case <-time.After(declineWithin):
	}
}

// serve serves the client until it closes its side, ctx ends, or what stands behind
// the gateway fails.
func (c *stdioClient) serve(ctx context.Context, in io.Reader, behind estate, drainFor time.Duration) error {
	var err error
	ended := make(chan error, 1)
	go func() { ended <- c.readAll(in) }()

	select {
	case err = <-ended:
		if err != nil {
			c.log.Warn().Err(err).Msg("the client's messages cannot be read any more")
		}
	case <-ctx.Done():
	case <-behind.failed():
	}
	c.finish(ctx, behind, drainFor)
	return behind.err()
}

// A stdioClient is the client on standard input and output. One goroutine reads.
type stdioClient struct {
	*client
	box    *outbox
	visits *visits
}

// newStdioClient returns a client that has no host and no face yet.
func newStdioClient(log zerolog.Logger, out io.Writer) *stdioClient {
	box := newOutbox(out)
	c := newClient(context.Background(), log, only{box})
	return &stdioClient{client: c, box: box, visits: newVisits(c)}
}

// only is the outlet of a client that has but one stream.
type only struct{ box *outbox }

func (o only) put(m jsonrpc.Message, about *Exchange) bool {
	if m.Method == methodMessage && about != nil && about.era == modern && (about.level == 0 || severityOf(m) < about.level) {
		return true
	}
	return o.box.put(m)
}

// readAll reads the client's messages until it closes its side. A message that is
// none gets an error, and the session goes on. A client that does not read is not
// read from either, once too much waits for it.
func (c *stdioClient) readAll(in io.Reader) error {
	lines := jsonrpc.NewReader(in, MaxMessageBytes)
	for {
		c.box.waitForRoom()
		line, err := lines.Next()
		var tooLong *jsonrpc.TooLongError
		switch {
		case errors.As(err, &tooLong):
			c.box.put(jsonrpc.ErrorReply(tooLong.ID, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest,
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

// take takes one message. The era of each request is its own affair.
func (c *stdioClient) take(line []byte) {
	m, err := jsonrpc.Parse(line)
	if err == nil && m.IsRequest() {
		if p := readPreamble(m.Params); p.era() == modern {
			c.visits.take(m, p)
			return
		}
	}
	c.takeMessage(m, err, &Exchange{Caller: c.caller})
}

// finish lets what runs end, for a while, then ends everything. Whoever is still
// waiting then is told how its operation stands. When ctx ends, it hurries.
func (c *stdioClient) finish(ctx context.Context, behind estate, drainFor time.Duration) {
	drain, cancel := context.WithTimeout(context.Background(), drainFor)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(hurryFor, cancel) })
	defer stop()
	behind.drain(drain, c.requests)

	// A client that has closed its side may read on for as long as it likes.
	flush, cancelFlush := within(ctx, hurryFlushFor)
	defer cancelFlush()
	c.box.close(flush)
	last, cancelLast := within(ctx, hurryCloseFor)
	defer cancelLast()
	behind.close(last)
}

// within returns a context that ends so long after ctx has.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(d, cancel) })
	return late, func() { stop(); cancel() }
}
