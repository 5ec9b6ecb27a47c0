package upstream

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

// fieldBytes is room for the name of a field before its value.
const fieldBytes = 16

// A serverEvent is one event of a text/event-stream. It has memory of its own.
type serverEvent struct {
	kind  string        // "message" where the stream does not name one
	data  []byte        // nil where the event had none
	id    string        // of the last event that had one
	retry time.Duration // how long to wait before reconnecting; 0 where it does not say
}

// serverEvents reads a text/event-stream as section 9.2 of the HTML standard
// defines it, with a limit. It is not safe for concurrent use.
type serverEvents struct {
	in    *bufio.Reader
	max   int
	begun bool // a first line has been read
	cr    bool // the last line ended with a carriage return, and a line feed may follow
	id    string
}

// newServerEvents returns a reader of events whose data, and whose lines, have at
// most maxBytes bytes.
func newServerEvents(r io.Reader, maxBytes int) *serverEvents {
	return &serverEvents{in: bufio.NewReaderSize(r, 32<<10), max: maxBytes}
}

// next returns the next event that says anything. An event that is cut off by
// the end of the stream is dropped, as the standard demands. It fails with
// io.EOF at the end, with the reader's error, and with a *jsonrpc.TooLongError,
// after which the stream cannot be read any further.
func (s *serverEvents) next() (serverEvent, error) {
	e := serverEvent{kind: "message"}
	said := false
	for {
		line, err := s.line()
		if err != nil {
			return serverEvent{}, err
		}
		if len(line) > 0 {
			said = s.field(&e, line) || said
			if len(e.data) > s.max+1 { // with the last newline
				return serverEvent{}, &jsonrpc.TooLongError{Limit: s.max}
			}
			continue
		}
		if said {
			e.id = s.id
			e.data = bytes.TrimSuffix(e.data, []byte("\n"))
			return e, nil
		}
		e = serverEvent{kind: "message"}
	}
}

// field takes one line of an event, and reports whether it says anything by
// itself.
func (s *serverEvents) field(e *serverEvent, line []byte) bool {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "event":
		e.kind = "message"
		if len(value) > 0 {
			e.kind = string(value)
		}
		return false
	case "data":
		e.data = append(append(e.data, value...), '\n')
		return true
	case "id":
		if bytes.IndexByte(value, 0) >= 0 {
			return false
		}
		s.id = string(value)
		return true
	case "retry":
		if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil && !strings.HasPrefix(string(value), "+") {
			e.retry = time.Duration(ms) * time.Millisecond
			return true
		}
	}
	return false
}

// line returns the next line without its end, which is a carriage return, a line
// feed, or both. It is valid until the next call. A last line without an end is
// part of no event, and is dropped.
func (s *serverEvents) line() ([]byte, error) {
	var long []byte
	for {
		if _, err := s.in.Peek(1); err != nil {
			return nil, err
		}
		chunk, _ := s.in.Peek(s.in.Buffered()) // which is there
		if s.cr {
			s.cr = false
			if chunk[0] == '\n' {
				_, _ = s.in.Discard(1) // likewise
				continue
			}
		}
		end := bytes.IndexAny(chunk, "\r\n")
		line := chunk
		if end >= 0 {
			line = chunk[:end]
		}
		if len(long)+len(line) > s.max+fieldBytes {
			return nil, &jsonrpc.TooLongError{Limit: s.max}
		}
		if end < 0 {
			long = append(long, chunk...)
			_, _ = s.in.Discard(len(chunk))
			continue
		}
		s.cr = chunk[end] == '\r'
		if long != nil {
			line = append(long, line...)
		}
		_, _ = s.in.Discard(end + 1)
		return s.first(line), nil
	}
}

// first takes the byte order mark from the first line of the stream.
func (s *serverEvents) first(line []byte) []byte {
	if !s.begun {
		s.begun = true
		return bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	return line
}
