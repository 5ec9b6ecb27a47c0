package jsonrpc

import (
	"io"
	"sync"
)

// A Writer writes messages that are framed by newlines. It is safe for
// concurrent use.
type Writer struct {
	mu  sync.Mutex
	out io.Writer
}

// NewWriter returns a Writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{out: w} }

// Write writes the message and its newline in one call of the underlying
// Write, so that two messages never mix.
func (w *Writer) Write(m Message) error {
	line := Line(m.Raw())
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := w.out.Write(line)
	return err
}

// Line returns a copy of the raw message with a newline behind it. Newlines
// within, between the tokens of a pretty-printed message, become spaces; JSON
// has none inside strings.
func Line(raw []byte) []byte {
	line := make([]byte, len(raw)+1)
	for i, c := range raw {
		if c == '\n' || c == '\r' {
			c = ' '
		}
		line[i] = c
	}
	line[len(raw)] = '\n'
	return line
}
