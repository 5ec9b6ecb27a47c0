package upstream

import (
	"fmt"
)

// A StartError says why a server could not be started, or did not get as far as
// a handshake, in one line that says what to do where that is known.
type StartError struct {
	Name   string // the server's
	Reason string
	Err    error // what is behind it, if anything
}

func (e *StartError) Error() string { return fmt.Sprintf("upstream %q %s", e.Name, e.Reason) }
func (e *StartError) Unwrap() error { return e.Err }

// NotSent says that not one byte of a message was written to the server.
// It is a proof, row 2 of the table in docs/guarantees.md: the bytes are counted
// by the only writer that a pipe or a connection has.
type NotSent struct {
	Name string // the server's
	Err  error  // why; the cause of the context if that ended
}

func (e *NotSent) Error() string {
	return fmt.Sprintf("nothing was sent to upstream %q: %v", e.Name, e.Err)
}
func (e *NotSent) Unwrap() error { return e.Err }

// ProvesNotExecuted returns the row of the table that allows the key to be
// freed, and the reason that the caller is told.
func (e *NotSent) ProvesNotExecuted() (row int, reason string) { return 2, reasonUnreachable }

// UnreachableError says that there was no session to send anything on. Like
// NotSent it proves that nothing was executed.
type UnreachableError struct {
	Name string // the server's
	Err  error  // why; the cause of the context if that ended first
}

func (e *UnreachableError) Error() string {
	switch e.Err.(type) {
	case *StartError, *UnreachableError: // say the same
		return e.Err.Error()
	}
	return fmt.Sprintf("upstream %q cannot be reached: %v", e.Name, e.Err)
}
func (e *UnreachableError) Unwrap() error { return e.Err }

// ProvesNotExecuted returns the row of the table that allows the key to be
// freed, and the reason that the caller is told.
func (e *UnreachableError) ProvesNotExecuted() (row int, reason string) { return 2, reasonUnreachable }

// A LossCause says how the answer to a call was lost. Its text is the reason
// that the caller is told.
type LossCause string

// The causes of a loss.
const (
	UpstreamExited LossCause = "upstream_exited" // the process ended, by itself or at Close
	ConnectionLost LossCause = "connection_lost" // the pipe or connection broke, or was closed by the server or by Close
	BadAnswer      LossCause = "bad_answer"      // an answer came that cannot be read, or an HTTP status that is none; see StatusError
	Forgotten      LossCause = "forgotten"       // Forget was called
)

// A LostError says that a call was sent, at least in part, and that no answer
// to it can come any more: whether it was executed is unknown.
type LostError struct {
	Cause LossCause
	Err   error
}

func (e *LostError) Error() string {
	return fmt.Sprintf("the answer was lost (%s): %v", e.Cause, e.Err)
}
func (e *LostError) Unwrap() error { return e.Err }

// The reasons of the outcome that evidence stands for.
const (
	reasonUnreachable   = "unreachable"
	reasonRefused       = "refused"
	reasonUpstreamError = "upstream_error"
	reasonAmbiguous     = "ambiguous_error"
	reasonBadAnswer     = "bad_answer"
	reasonInputRequired = "input_required"
	reasonTask          = "task"
)
