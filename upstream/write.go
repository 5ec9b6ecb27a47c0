package upstream

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// queueLength is how many messages wait for the one that is being written.
// Requests beyond it wait for a place; notifications and replies are refused.
const queueLength = 256

var (
	errWriteTimeout = errors.New("the server did not read its input in time")
	errQueueFull    = errors.New("too many messages wait for the server to read its input")
)

// A writer owns a child's standard input. One goroutine, run, does all the
// writing, so that a message which is stuck holds up no caller beyond its own
// deadline, and the bytes of each message can be counted.
type writer struct {
	file    *os.File
	timeout time.Duration
	busy    func() bool // the server has something else to do than to read
	broken  func(error) // told once the stream is of no more use
	queue   chan *outgoing
	stop    chan struct{}
	stopped chan struct{} // closed when run has returned
	once    sync.Once
	mu      sync.Mutex
	current *outgoing // whose write may be interrupted
}

// An outgoing is one line on its way. Either the writer or the sender takes it
// out of the state of waiting, never both.
type outgoing struct {
	line    []byte
	ctx     context.Context // ends the attempt while no byte has been written
	cancel  context.CancelFunc
	whole   *atomic.Bool // set once every byte has been written
	taken   atomic.Bool
	verdict chan error // nil: bytes have left; else none has

	// of the writer alone:
	limit   time.Time // until when it may be written
	patient bool      // and then for another timeout
}

func newWriter(file *os.File, timeout time.Duration, busy func() bool, broken func(error)) *writer {
	return &writer{
		file: file, timeout: timeout, busy: busy, broken: broken,
		queue: make(chan *outgoing, queueLength), stop: make(chan struct{}), stopped: make(chan struct{}),
	}
}

// shut makes the writer refuse what is not yet being written. It does not wait.
func (w *writer) shut() { w.once.Do(func() { close(w.stop) }) }

// send writes the line and waits for it. An error means that not one byte was
// written; nil, that all were, or some and the others are being written or the
// stream is broken. Waiting for the turn counts into the timeout. Once all are
// written it sets whole, which may be after it has returned.
func (w *writer) send(ctx context.Context, line []byte, whole *atomic.Bool) error {
	o := &outgoing{line: line, whole: whole, verdict: make(chan error, 1)}
	o.ctx, o.cancel = context.WithTimeoutCause(ctx, w.timeout, errWriteTimeout)
	defer o.cancel()
	select {
	case w.queue <- o:
	case <-o.ctx.Done():
		return context.Cause(o.ctx)
	case <-w.stop:
		return errSessionOver
	}
	select {
	case err := <-o.verdict:
		return err
	case <-o.ctx.Done():
		if o.take() {
			return context.Cause(o.ctx)
		}
		return <-o.verdict // soon: the end of ctx interrupts the write
	case <-w.stopped:
		if o.take() {
			return errSessionOver
		}
		return <-o.verdict
	}
}

// post queues the line and does not wait. Nobody is told when the line is given
// up, so its time begins only when its turn has come.
func (w *writer) post(line []byte) error {
	o := &outgoing{line: line, whole: new(atomic.Bool), verdict: make(chan error, 1)}
	o.ctx, o.cancel = context.WithCancel(context.Background())
	select {
	case <-w.stop:
		o.cancel()
		return errSessionOver
	default:
	}
	select {
	case w.queue <- o:
		return nil
	default:
		o.cancel()
		return errQueueFull
	}
}

// take reports whether the caller is the one to decide about o.
func (o *outgoing) take() bool { return o.taken.CompareAndSwap(false, true) }

// run writes until shut is called.
func (w *writer) run() {
	defer close(w.stopped)
	for {
		select {
		case <-w.stop:
			w.refuseAll()
			return
		case o := <-w.queue:
			if o.take() {
				w.write(o)
			}
			o.cancel()
		}
	}
}

// refuseAll empties the queue. A sender that is quicker than this and queues
// behind it finds the writer stopped.
func (w *writer) refuseAll() {
	for {
		select {
		case o := <-w.queue:
			if o.take() {
				o.verdict <- errSessionOver
			}
			o.cancel()
		default:
			return
		}
	}
}

// write writes one line and says how that went. The end of o.ctx stops it only
// while nothing has been written: half a line would spoil the stream for every
// other call, so a line begun is finished or the stream is broken.
func (w *writer) write(o *outgoing) {
	if o.ctx.Err() != nil {
		o.verdict <- context.Cause(o.ctx)
		return
	}
	n, err := w.begin(o)
	if err != nil && n == 0 {
		o.verdict <- w.nothing(o, err)
		return
	}
	o.verdict <- nil
	if n, err = w.finish(o, n, err); err != nil {
		w.broken(fmt.Errorf("read only %d of the %d bytes of a message: %w", n, len(o.line), err))
		return
	}
	o.whole.Store(true)
}

// allow gives the line the timeout from now, and another one after it if the
// server is busy now: one that runs its tools on the goroutine that reads does
// not read before it has answered, and to end it then would be to end it in the
// middle of an effect. As long as a line is stuck no further call can begin, so a
// server that is busy at the end of the time was so at its beginning.
func (w *writer) allow(o *outgoing) {
	o.limit, o.patient = time.Now().Add(w.timeout), w.busy()
}

// begin writes as much as it can before o.ctx ends and before no more time is
// allowed.
func (w *writer) begin(o *outgoing) (int, error) {
	n, err := w.attempt(o)
	for n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && o.patient && o.ctx.Err() == nil {
		n, err = w.attempt(o)
	}
	return n, err
}

// attempt writes as much as it can before o.ctx ends and before the timeout.
func (w *writer) attempt(o *outgoing) (int, error) {
	w.allow(o)
	w.mu.Lock()
	w.current = o
	_ = w.file.SetWriteDeadline(o.limit) // without deadlines a write blocks until the child reads or ends
	w.mu.Unlock()
	stop := context.AfterFunc(o.ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.current == o {
			_ = w.file.SetWriteDeadline(time.Unix(1, 0))
		}
	})
	n, err := w.file.Write(o.line)
	stop()
	w.mu.Lock()
	w.current = nil
	w.mu.Unlock()
	return n, err
}

// finish writes what begin has left of the line, whatever becomes of o.ctx, until
// no more time is allowed. It takes and returns the bytes written and the error
// of the last write.
func (w *writer) finish(o *outgoing, n int, err error) (int, error) {
	for errors.Is(err, os.ErrDeadlineExceeded) {
		if !time.Now().Before(o.limit) { // else o.ctx ended the write
			if !o.patient {
				break
			}
			w.allow(o)
		}
		_ = w.file.SetWriteDeadline(o.limit)
		var more int
		more, err = w.file.Write(o.line[n:])
		n += more
	}
	return n, err
}

// nothing returns why no byte of o was written. A time that ran out leaves the
// stream as it was; any other error is the end of it.
func (w *writer) nothing(o *outgoing, err error) error {
	switch {
	case !errors.Is(err, os.ErrDeadlineExceeded):
		w.broken(fmt.Errorf("closed its standard input: %w", err))
		return err
	case o.ctx.Err() != nil:
		return context.Cause(o.ctx)
	}
	return errWriteTimeout
}
