package jsonrpc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
)

// Where the id of a message that is too long is looked for: most SDKs write it
// in front, the TypeScript SDK writes it last.
const (
	headBytes = 4 << 10
	tailBytes = 512
)

// A TooLongError says that a line was longer than the limit and was dropped.
// The lines after it can still be read.
type TooLongError struct {
	Limit int // in bytes, without the newline
	// ID and Method are the raw id and the method of the message where they
	// stand in its first 4 KiB, or the id in its last 512 bytes; else nil and
	// empty. A message with an ID and no Method is, as far as one can know, a
	// response.
	ID     []byte
	Method string
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("message longer than the limit of %d bytes", e.Limit)
}

// A Reader reads messages that are framed by newlines. It is not safe for
// concurrent use.
type Reader struct {
	in  *bufio.Reader
	max int
}

// NewReader returns a Reader of lines of at most maxBytes bytes.
func NewReader(r io.Reader, maxBytes int) *Reader {
	return &Reader{in: bufio.NewReaderSize(r, 64<<10), max: maxBytes}
}

// Next returns the next line that is not blank, without its newline or carriage
// return, in memory of its own. A last line without a newline counts.
//
// It fails with a *TooLongError for a line above the limit, of which no more
// than the limit is ever held in memory, and goes on behind it at the next
// call; with io.EOF at the end; and with the reader's error, which drops a line
// begun.
func (r *Reader) Next() ([]byte, error) {
	for {
		line, err := r.line()
		if err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(line)) > 0 {
			return line, nil
		}
	}
}

// line reads one line, blank ones included.
func (r *Reader) line() ([]byte, error) {
	var line []byte
	for {
		chunk, err := r.in.ReadSlice('\n')
		line = append(line, chunk...)
		switch {
		case err != nil && !errors.Is(err, bufio.ErrBufferFull) && !errors.Is(err, io.EOF):
			return nil, err
		case len(trimmed(line)) > r.max:
			return nil, r.discard(line, err)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && len(line) == 0:
			return nil, err
		}
		return trimmed(line), nil
	}
}

// discard reads to the end of a line that is too long; err is what its last
// read said.
func (r *Reader) discard(begun []byte, err error) error {
	head := bytes.Clone(begun[:min(len(begun), headBytes)])
	tail := bytes.Clone(begun[max(0, len(begun)-tailBytes):])
	for errors.Is(err, bufio.ErrBufferFull) {
		var chunk []byte
		chunk, err = r.in.ReadSlice('\n')
		tail = append(tail, chunk...)
		tail = append(tail[:0], tail[max(0, len(tail)-tailBytes):]...)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	e := &TooLongError{Limit: r.max}
	e.ID, e.Method = peek(head)
	if found := lastID.FindSubmatch(tail); e.ID == nil && found != nil {
		e.ID = found[1]
	}
	return e
}

// lastID finds an id at the very end of an object. One closing brace behind it
// makes it a member of the top level, and a quote inside a string would have
// its backslash.
var lastID = regexp.MustCompile(`,\s*"id"\s*:\s*("(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*)\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)

func trimmed(line []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
}
