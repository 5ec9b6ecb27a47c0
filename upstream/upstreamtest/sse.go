package upstreamtest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// A style is how events are written, within the liberties of
// https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
// that few servers take.
type style struct {
	words []string
}

var styles = []string{"plain", "comments", "lines", "ids", "retry", "crlf", "cr", "bom", "tight", "unnamed"}

// parseStyle reads words that are separated by commas.
func parseStyle(detail string) (style, error) {
	if detail == "" {
		return style{}, nil
	}
	words := strings.Split(detail, ",")
	for _, word := range words {
		if !slices.Contains(styles, word) {
			return style{}, fmt.Errorf("%q is none of %s", word, strings.Join(styles, ", "))
		}
	}
	return style{words}, nil
}

func (s style) has(word string) bool { return slices.Contains(s.words, word) }

// event writes the nth event of a stream, from 1.
func (s style) event(n int, name string, data []byte) []byte {
	var b bytes.Buffer
	if s.has("comments") {
		b.WriteString(": a comment\n:\n")
	}
	if s.has("ids") {
		fmt.Fprintf(&b, "id: event-%d\n", n)
	}
	if s.has("retry") {
		b.WriteString("retry: 50\n")
	}
	if !s.has("unnamed") {
		fmt.Fprintf(&b, "event: %s\n", name)
	}
	if s.has("lines") && bytes.HasPrefix(data, []byte("{")) { // white space is free there
		data = slices.Concat([]byte("{\n"), data[1:len(data)-1], []byte("\n}"))
	}
	space := " "
	if s.has("tight") {
		space = ""
	}
	for line := range bytes.Lines(data) {
		b.WriteString("data:" + space)
		b.Write(bytes.TrimRight(line, "\r\n"))
		b.WriteByte('\n')
		if s.has("comments") {
			b.WriteString(": between the lines\n")
		}
	}
	b.WriteByte('\n')
	return s.ends(n, b.Bytes())
}

// ends gives the lines of an event their ends.
func (s style) ends(n int, event []byte) []byte {
	switch {
	case s.has("crlf"):
		event = bytes.ReplaceAll(event, []byte("\n"), []byte("\r\n"))
	case s.has("cr"):
		event = bytes.ReplaceAll(event, []byte("\n"), []byte("\r"))
	}
	if s.has("bom") && n == 1 {
		event = append([]byte("\ufeff"), event...)
	}
	return event
}
