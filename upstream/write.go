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
	taken   atomic.Bool
	verdict chan error // nil: bytes have left; else none has
}

func newWriter(file *os.File, timeout time.Duration, broken func(error)) *writer {
	return &writer{
		file: file, timeout: timeout, broken: broken,
		queue: make(chan *outgoing, queueLength), stop: make(chan struct{}), stopped: make(chan struct{}),
	}
}

// shut makes the writer refuse what is not yet being written. It does not wait.
func (w *writer) shut() { w.once.Do(func() { close(w.stop) }) }

// send writes the line and waits for it. An error means that not one byte was
// written; nil, that all were, or some and the others are being written or the
// stream is broken. Waiting for the turn counts into the timeout.
func (w *writer) send(ctx context.Context, line []byte) error {
	o := w.outgoing(ctx, line)
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

// post queues the line and does not wait.
func (w *writer) post(line []byte) error {
	o := w.outgoing(context.Background(), line)
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

func (w *writer) outgoing(ctx context.Context, line []byte) *outgoing {
	o := &outgoing{line: line, verdict: make(chan error, 1)}
	o.ctx, o.cancel = context.WithTimeoutCause(ctx, w.timeout, errWriteTimeout)
	return o
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
// other call, so a line begun is given until the timeout.
func (w *writer) write(o *outgoing) {
	if o.ctx.Err() != nil {
		o.verdict <- context.Cause(o.ctx)
		return
	}
	limit := time.Now().Add(w.timeout)
	n, err := w.begin(o, limit)
	if err != nil && n == 0 {
		o.verdict <- w.nothing(o, err)
		return
	}
	o.verdict <- nil
	if errors.Is(err, os.ErrDeadlineExceeded) && time.Now().Before(limit) { // interrupted by o.ctx
		_ = w.file.SetWriteDeadline(limit)
		var more int
		more, err = w.file.Write(o.line[n:])
		n += more
	}
	if err != nil {
		w.broken(fmt.Errorf("read only %d of the %d bytes of a message: %w", n, len(o.line), err))
	}
}

// begin writes as much as it can before the limit and before the end of o.ctx.
func (w *writer) begin(o *outgoing, limit time.Time) (int, error) {
	w.mu.Lock()
	w.current = o
	_ = w.file.SetWriteDeadline(limit) // without deadlines a write blocks until the child reads or ends
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
