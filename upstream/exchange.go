package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

const (
	// linger is how long a stream is still read after the answer: a second one
	// would be worth knowing of.
	linger = time.Second
	// maxResumes is how often in a row a stream that broke is taken up again
	// without anything new on it. To take a stream up sends no call.
	maxResumes = 3
	// maxTrusted is how much memory a server gets for the mere announcement of a
	// body.
	maxTrusted = 1 << 20
)

var (
	errStreamEnded = errors.New("the stream ended without the answer")
	errOtherID     = errors.New("the answer has the id of another request")
	errNoResponse  = errors.New("it answered with a message that is no response")
)

// An exchange is one request of a link and what comes back on its stream.
type exchange struct {
	s        *link
	call     *Call
	method   string
	notified func(jsonrpc.Message)
	flight   *flight
	ctx      context.Context
	cancel   context.CancelCauseFunc

	unsent error // set before the call is settled: why not one byte has left

	// of the goroutine that reads:
	lastID string        // of the last event that has one
	retry  time.Duration // what the server wants to be waited before a stream is taken up again
	rest   *time.Timer   // ends the stream after the answer
}

func (s *link) newExchange(c *Call, method string, notified func(jsonrpc.Message)) *exchange {
	x := &exchange{s: s, call: c, method: method, notified: notified, flight: newFlight()}
	x.ctx, x.cancel = context.WithCancelCause(s.r.life)
	return x
}

// depart waits until the request has been written. Its error says that not one
// byte has left; nil, that all has, or that a part has and ctx has ended.
func (x *exchange) depart(ctx context.Context) error {
	select {
	case <-x.flight.left:
		return nil
	case <-x.call.settled:
		return x.unsent
	case <-ctx.Done():
	}
	if x.flight.revoke() {
		x.s.remove(x)
		return context.Cause(ctx)
	}
	if isClosed(x.call.settled) {
		return x.unsent
	}
	return nil
}

// run makes the request and reads what comes back.
func (x *exchange) run(m jsonrpc.Message) {
	defer x.cancel(nil)
	slow := time.AfterFunc(x.s.r.o.WriteTimeout, func() {
		if !isClosed(x.flight.left) {
			x.cancel(errWriteTimeout)
		}
	})
	resp, err := x.s.r.wire.post(x.flight.track(x.ctx), x.s.target(), x.s.header(m), m.Raw())
	slow.Stop()
	if err != nil {
		x.failed(err)
		return
	}
	defer resp.Body.Close()
	defer x.settle()
	if x.method == methodInitialize {
		x.s.adopt(resp.Header.Get(mcp.HeaderSessionID))
	}
	x.s.answeredPost(resp.StatusCode)
	x.read(resp)
}

// settle leaves nothing behind when the stream has ended.
func (x *exchange) settle() {
	if x.rest != nil {
		x.rest.Stop()
	}
}

// failed settles a call whose request got no response.
func (x *exchange) failed(err error) {
	unsent := x.flight.grounded()
	if x.ctx.Err() != nil {
		err = context.Cause(x.ctx)
	} else if x.flight.boarded() {
		x.s.doubt()
	} else {
		x.s.end(err) // there is no connection to be had
	}
	if x.s.remove(x) {
		if unsent {
			x.unsent = err
		}
		x.call.lose(ConnectionLost, err)
	}
}

func (x *exchange) read(resp *http.Response) {
	media := mediaOf(resp)
	switch {
	case succeeded(resp) && media == mediaEvents:
		x.follow(resp.Body)
	case succeeded(resp) && x.s.mailbox != nil: // the answer comes on the mailbox's own stream
		discard(resp)
	default:
		x.readBody(resp, media)
	}
}

// readBody takes a body that has to be the response, whatever the status.
func (x *exchange) readBody(resp *http.Response, media string) {
	limit := x.s.r.o.MaxMessageBytes
	body, err := readAll(resp, limit)
	m, invalid := jsonrpc.Parse(body)
	ours := err == nil && invalid == nil && m.IsResponse() && isOurs(m.ID, x.call.id)
	switch {
	case ours && (media == mediaJSON || !succeeded(resp)):
		x.deliver(m)
	case !succeeded(resp):
		x.lose(BadAnswer, statusError(resp, body))
	case len(body) > limit:
		x.lose(BadAnswer, &jsonrpc.TooLongError{Limit: limit})
	case err != nil:
		x.lose(ConnectionLost, err)
	case media != mediaJSON:
		x.lose(BadAnswer, fmt.Errorf("it answered with status %d and the content type %q", resp.StatusCode, media))
	case invalid != nil:
		x.lose(BadAnswer, invalid)
	case m.IsResponse():
		x.s.r.o.Observer.stray(m)
		x.lose(BadAnswer, errOtherID)
	default:
		x.lose(BadAnswer, errNoResponse)
	}
}

// readAll reads a body to its end, or to one byte more than the limit.
func readAll(resp *http.Response, limit int) ([]byte, error) {
	var body bytes.Buffer
	body.Grow(int(max(0, min(resp.ContentLength, maxTrusted))) + bytes.MinRead)
	_, err := body.ReadFrom(io.LimitReader(resp.Body, int64(limit)+1))
	return body.Bytes(), err
}

// follow reads the stream of the call to its end. Where the events have ids, a
// stream that broke is taken up again behind the last of them; the modern era
// has no such thing.
func (x *exchange) follow(body io.ReadCloser) {
	var err error
	for tries := 0; ; tries++ {
		if body != nil {
			before := x.lastID
			err = x.readStream(body)
			if x.lastID != before {
				tries = 0
			}
		}
		if !x.waiting() {
			return
		}
		if x.s.modern != nil || x.lastID == "" || tries == maxResumes || !x.pause(tries) {
			break
		}
		var refused bool
		if body, refused = x.resume(); refused {
			break
		}
	}
	if errors.Is(err, io.EOF) {
		err = errStreamEnded
	} else {
		x.s.doubt()
	}
	x.lose(ConnectionLost, err)
}

// readStream takes the events of one stream and returns why it ended.
func (x *exchange) readStream(body io.ReadCloser) error {
	defer body.Close()
	events := newServerEvents(body, x.s.r.o.MaxMessageBytes)
	for {
		e, err := events.next()
		var long *jsonrpc.TooLongError
		if errors.As(err, &long) { // most likely the answer
			x.lose(BadAnswer, long)
		}
		if err != nil {
			return err
		}
		x.lastID = e.id
		if e.retry > 0 {
			x.retry = e.retry
		}
		if len(e.data) > 0 && e.kind == "message" {
			x.take(e.data)
		}
	}
}

// pause waits before a stream is taken up again; false says that nobody waits
// for the answer any more.
func (x *exchange) pause(tries int) bool {
	o := x.s.r.o
	wait := min(o.BackoffMin<<tries, o.BackoffMax)
	if x.retry > 0 {
		wait = min(x.retry, o.BackoffMax)
	}
	return sleep(x.ctx, wait)
}

// resume opens the stream behind the last event. The body is nil where it could
// not be opened now, refused says that it never will be.
func (x *exchange) resume() (body io.ReadCloser, refused bool) {
	h := x.s.sessionHeader()
	h.Set(mcp.HeaderLastEventID, x.lastID)
	resp, err := x.s.r.wire.get(x.ctx, h)
	if err != nil {
		return nil, false
	}
	x.s.answeredWith(resp.StatusCode)
	if succeeded(resp) && mediaOf(resp) == mediaEvents {
		return resp.Body, false
	}
	discard(resp)
	return nil, !passing(resp.StatusCode)
}

// take takes one message of the call's own stream.
func (x *exchange) take(data []byte) {
	m, err := jsonrpc.Parse(data)
	switch {
	case err != nil && m.Method == "" && isOurs(m.ID, x.call.id):
		x.lose(BadAnswer, err) // it will not come again in a better shape
	case err != nil:
		x.s.r.o.Observer.junk(data)
	case m.IsResponse() && isOurs(m.ID, x.call.id):
		x.deliver(m)
		if x.rest == nil {
			x.rest = time.AfterFunc(linger, func() { x.cancel(nil) })
		}
	case m.IsResponse():
		x.s.r.o.Observer.stray(m)
	case m.IsNotification():
		x.s.handNotification(m, x.notified)
	default:
		x.s.handRequest(m)
	}
}

// waiting reports whether the call has no answer yet.
func (x *exchange) waiting() bool { return !isClosed(x.call.settled) }

// deliver settles the call with its response; a second one is a stray.
func (x *exchange) deliver(m jsonrpc.Message) {
	if !x.s.remove(x) {
		x.s.r.o.Observer.stray(m)
		return
	}
	if x.method == methodToolsList && x.s.modern != nil && m.Result != nil {
		x.s.r.bindings.learn(m.Result)
	}
	x.call.deliver(m)
}

func (x *exchange) lose(cause LossCause, err error) {
	if x.ctx.Err() != nil {
		cause, err = ConnectionLost, context.Cause(x.ctx)
	}
	if x.s.remove(x) {
		x.call.lose(cause, err)
	}
}

// isOurs reports whether a raw id is ours, an integer, which may come back as a
// string.
func isOurs(id, ours []byte) bool {
	if text, ok := rawjson.Unquote(id); ok {
		return text == string(ours)
	}
	return jsonrpc.SameID(id, ours)
}

// sleep waits, and reports whether it did so to the end.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
