package upstream_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/upstream"
)

func TestStreamOfEventsIsReadAsTheStandardSays(t *testing.T) {
	t.Parallel()
	message := func(data, id string) upstream.ServerEvent {
		return upstream.ServerEvent{Kind: "message", Data: data, ID: id}
	}
	for _, c := range []struct {
		name, stream string
		events       []upstream.ServerEvent
	}{
		{"nothing", "", nil},
		{"one line of data", "data: a\n\n", []upstream.ServerEvent{message("a", "")}},
		{"only the first blank is cut", "data:  a \n\n", []upstream.ServerEvent{message(" a ", "")}},
		{"no blank", "data:a:b\n\n", []upstream.ServerEvent{message("a:b", "")}},
		{"lines are joined", "data: a\ndata\ndata: b\n\n", []upstream.ServerEvent{message("a\n\nb", "")}},
		{"carriage returns end lines", "data: a\rdata: b\r\rdata: c\r\r", []upstream.ServerEvent{message("a\nb", ""), message("c", "")}},
		{"both together are one end", "data: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n", []upstream.ServerEvent{message("a\nb", ""), message("c", "")}},
		{"a byte order mark in front", "\xef\xbb\xbfdata: a\n\n", []upstream.ServerEvent{message("a", "")}},
		{"a byte order mark elsewhere", "data: a\n\n\xef\xbb\xbfdata: b\n\n", []upstream.ServerEvent{message("a", "")}},
		{"comments", ": hello\n:\ndata: a\n: x\n\n: bye\n\n", []upstream.ServerEvent{message("a", "")}},
		{"other fields", "date: a\n data: b\nDATA: c\n\n", nil},
		{"the kind of one event", "event: endpoint\ndata: /x\n\ndata: a\n\n", []upstream.ServerEvent{{Kind: "endpoint", Data: "/x"}, message("a", "")}},
		{"a kind without data", "event: x\n\ndata: a\n\n", []upstream.ServerEvent{message("a", "")}},
		{"an empty kind", "event\ndata: a\n\n", []upstream.ServerEvent{message("a", "")}},
		{"ids stay", "id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n", []upstream.ServerEvent{message("a", "1"), message("b", "1"), message("c", "")}},
		{"an id without data", "id: 1\n\n", []upstream.ServerEvent{message("", "1")}},
		{"an id with NUL", "id: 1\ndata: a\n\nid: 2\x00\ndata: b\n\n", []upstream.ServerEvent{message("a", "1"), message("b", "1")}},
		{"retry", "retry: 1500\n\n", []upstream.ServerEvent{{Kind: "message", Retry: 1500 * time.Millisecond}}},
		{"retry that is no number", "retry: 1s\nretry: +5\nretry: -5\nretry:\n\n", nil},
		{"the last event is cut", "data: a\n\ndata: b\n", []upstream.ServerEvent{message("a", "")}},
		{"the last line is cut", "data: a\n\ndata: b", []upstream.ServerEvent{message("a", "")}},
		{"blank lines", "\n\n\r\n\rdata: a\n\n\n", []upstream.ServerEvent{message("a", "")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, in := range []io.Reader{strings.NewReader(c.stream), iotest.OneByteReader(strings.NewReader(c.stream))} {
				events, err := upstream.ReadEvents(in, 100)
				assert.Equal(t, io.EOF, err)
				assert.Equal(t, c.events, events)
			}
		})
	}
}

func TestStreamOfEventsHasALimit(t *testing.T) {
	t.Parallel()
	const limit = 40 << 10 // more than is buffered
	at := strings.Repeat("x", limit)
	events, err := upstream.ReadEvents(strings.NewReader("data: "+at+"\n\n"), limit)
	assert.Equal(t, io.EOF, err)
	require.Len(t, events, 1)
	assert.Equal(t, at, events[0].Data)
	for name, stream := range map[string]string{
		"a line without end":     "data: " + strings.Repeat("x", 4*limit),
		"a comment without end":  ":" + strings.Repeat("x", 4*limit),
		"an event without end":   strings.Repeat("data: xxxxxxxxx\n", limit),
		"one byte more, in all":  "data: " + at + "\ndata:x\n\n",
		"an event of many lines": strings.Repeat("data\n", 2*limit) + "\n",
	} {
		_, err := upstream.ReadEvents(strings.NewReader(stream), limit)
		assert.ErrorAs(t, err, new(*jsonrpc.TooLongError), name)
	}
}

func TestErrorOfTheReaderEndsTheStream(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	events, err := upstream.ReadEvents(io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(broken)), 100)
	assert.Equal(t, broken, err)
	assert.Len(t, events, 1)
}

// FuzzEvents holds that a stream says the same however it arrives, and that it
// survives being written anew.
func FuzzEvents(f *testing.F) {
	for _, seed := range []string{"data: a\n\n", "\xef\xbb\xbfid: 1\r\ndata: a\rdata:b\n\n", ":x\n\nevent: e\nretry: 5\ndata\n\n", "id: \x00\n\n\r\r\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, stream string) {
		const limit = 1 << 10
		events, err := upstream.ReadEvents(strings.NewReader(stream), limit)
		slowly, slowErr := upstream.ReadEvents(iotest.OneByteReader(strings.NewReader(stream)), limit)
		require.Equal(t, events, slowly)
		require.Equal(t, err, slowErr)
		var anew strings.Builder
		for _, e := range events {
			require.LessOrEqual(t, len(e.Data), limit)
			require.NotContains(t, e.ID+e.Kind, "\n")
			anew.WriteString("event:" + e.Kind + "\nid: " + e.ID + "\ndata: " + strings.ReplaceAll(e.Data, "\n", "\ndata: ") + "\n\n")
		}
		again, err := upstream.ReadEvents(strings.NewReader(anew.String()), 2*limit)
		require.Equal(t, io.EOF, err)
		require.Len(t, again, len(events))
		for i, e := range events {
			require.Equal(t, e.Data, again[i].Data)
			require.Equal(t, e.ID, again[i].ID)
		}
	})
}
