package gateway

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

const (
	// MaxStreamBytes is how much waits for the reader of one HTTP response. Over it,
	// notifications are dropped and requests refused; the response itself is kept.
	MaxStreamBytes = 4 << 20
	// keepAliveEvery is how long a response may be silent. Proxies and clients give
	// up connections on which nothing moves.
	keepAliveEvery = 15 * time.Second
	// writeWithin is how long a reader may take for what has been written at once.
	writeWithin = 30 * time.Second
	// reconnectAfter is how long a client should wait before it listens again, where
	// its stream has ended.
	reconnectAfter = time.Second
)

// A stream is what is said in one HTTP response: a JSON object where that is the
// answer alone and the client does not prefer events, else events, of which the answer
// is the last. Saying something never
// waits for the reader. It is safe for concurrent use.
type stream struct {
	// head, if not nil, sets the header and finds the status when both are about to
	// be written. alone is the answer where nothing else is said, else nil.
	head func(h http.Header, alone *jsonrpc.Message) (status int)
	// events, if true, makes an answer that is alone an event too, unless its status
	// says what is wrong: the client would rather have it so.
	events bool
	// retry, if not zero, is said with the first event: when to reconnect.
	retry time.Duration

	mu    sync.Mutex
	queue []jsonrpc.Message
	bytes int
	ended bool          // nothing is said behind what is queued
	gone  bool          // nobody reads any more
	wake  chan struct{} // has room for one
}

func newStream() *stream { return &stream{wake: make(chan struct{}, 1)} }

// put says something that is not the answer; false means that it was dropped.
func (s *stream) put(m jsonrpc.Message) bool { return s.add(m, false) }

// end says the answer, which is the last that is said.
func (s *stream) end(m jsonrpc.Message) bool { return s.add(m, true) }

func (s *stream) add(m jsonrpc.Message, last bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.gone || !last && s.bytes > MaxStreamBytes {
		return false
	}
	s.queue = append(s.queue, m)
	s.bytes += len(m.Raw())
	s.ended = last
	s.poke()
	return true
}

// close ends a stream that has no answer.
func (s *stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.poke()
}

func (s *stream) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// take takes what is to be written now. over means that nothing comes behind it.
func (s *stream) take() (batch []jsonrpc.Message, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	batch, s.queue, s.bytes = s.queue, nil, 0
	return batch, s.ended
}

func (s *stream) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone, s.queue, s.bytes = true, nil, 0
}

// serve writes the stream until it is over, and reports whether the reader has got
// all of it. atOnce is for streams that have no answer: the reader waits for the
// header.
func (s *stream) serve(ctx context.Context, w http.ResponseWriter, atOnce bool) (whole bool) {
	defer s.leave()
	out := &responder{w: w, rc: http.NewResponseController(w), head: s.head, prefers: s.events, retry: s.retry}
	defer out.rest()
	if atOnce && !out.hello() {
		return false
	}
	silent := time.NewTicker(keepAliveEvery)
	defer silent.Stop()
	for {
		batch, over := s.take()
		if !out.write(batch, over) {
			return false
		}
		if over {
			return true
		}
		select {
		case <-s.wake:
			silent.Reset(keepAliveEvery)
		case <-silent.C:
			if !out.comment() {
				return false
			}
		case <-ctx.Done():
			return false
		}
	}
}

// A responder writes one HTTP response. Its methods report whether the reader can
// still be written to.
type responder struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	head    func(http.Header, *jsonrpc.Message) int
	prefers bool          // events
	retry   time.Duration // still to be said
	begun   bool          // as events
}

func (r *responder) write(batch []jsonrpc.Message, over bool) bool {
	switch {
	case over && !r.begun && len(batch) == 1 && batch[0].IsResponse():
		return r.alone(batch[0])
	case len(batch) == 0 && (!over || r.begun):
		return true
	}
	r.beginEvents()
	return r.events(batch...)
}

// alone writes an answer that is alone.
func (r *responder) alone(answer jsonrpc.Message) bool {
	status := r.begin(&answer)
	if r.prefers && status == http.StatusOK {
		r.headEvents(status)
		return r.events(answer)
	}
	r.w.Header().Set("Content-Type", mediaJSON)
	r.w.Header().Set("Content-Length", strconv.Itoa(len(answer.Raw())))
	r.w.WriteHeader(status)
	_, err := r.w.Write(answer.Raw())
	return err == nil && r.flush()
}

// events writes messages as events (Server-sent events, section 9.2 of the HTML
// standard). An event of the retry field alone is none by the standard, but one
// without data to some clients, so that it goes with a message.
func (r *responder) events(batch ...jsonrpc.Message) bool {
	for _, m := range batch {
		event := []byte("event: message\n")
		if r.retry > 0 {
			event = fmt.Appendf(event, "retry: %d\n", r.retry.Milliseconds())
			r.retry = 0
		}
		event = append(append(append(event, "data: "...), jsonrpc.Line(m.Raw())...), '\n')
		if _, err := r.w.Write(event); err != nil {
			return false
		}
	}
	return r.flush()
}

// hello shows that events will come.
func (r *responder) hello() bool {
	r.beginEvents()
	return r.flush()
}

// comment shows that the connection lives.
func (r *responder) comment() bool {
	r.beginEvents()
	_, err := r.w.Write([]byte(":\n\n"))
	return err == nil && r.flush()
}

func (r *responder) beginEvents() {
	if r.begun {
		r.allow(writeWithin)
		return
	}
	r.headEvents(r.begin(nil))
}

func (r *responder) headEvents(status int) {
	r.begun = true
	r.w.Header().Set("Content-Type", mediaEvents)
	r.w.Header().Set("Cache-Control", "no-cache")
	r.w.Header().Set("X-Accel-Buffering", "no") // proxies hold events back otherwise
	r.w.WriteHeader(status)
}

func (r *responder) begin(alone *jsonrpc.Message) (status int) {
	r.allow(writeWithin)
	if r.head != nil {
		return r.head(r.w.Header(), alone)
	}
	return http.StatusOK
}

func (r *responder) flush() bool { return r.rc.Flush() == nil }

// allow gives the reader time for what is written next. Writers that know no
// deadlines have none.
func (r *responder) allow(d time.Duration) { _ = r.rc.SetWriteDeadline(time.Now().Add(d)) }

// rest leaves the connection to its next request.
func (r *responder) rest() { _ = r.rc.SetWriteDeadline(time.Time{}) }
