package jsonrpc_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

func TestReaderSplitsLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 200<<10)
	r := jsonrpc.NewReader(iotest.HalfReader(strings.NewReader("one\n\n \t\r\ntwo\r\n"+long+"\nlast")), len(long))
	for _, want := range []string{"one", "two", long, "last"} {
		line, err := r.Next()
		require.NoError(t, err)
		assert.Equal(t, want, string(line))
	}
	for range 2 {
		_, err := r.Next()
		require.ErrorIs(t, err, io.EOF)
	}
}

func TestReaderReturnsMemoryOfItsOwn(t *testing.T) {
	t.Parallel()
	r := jsonrpc.NewReader(strings.NewReader("first\nother\n"), 100)
	first, err := r.Next()
	require.NoError(t, err)
	_, err = r.Next()
	require.NoError(t, err)
	assert.Equal(t, "first", string(first))
}

func TestReaderPassesErrorsOn(t *testing.T) {
	t.Parallel()
	broken := errors.New("pipe burst")
	r := jsonrpc.NewReader(io.MultiReader(strings.NewReader("one\nbegun"), iotest.ErrReader(broken)), 100)
	line, err := r.Next()
	require.NoError(t, err)
	assert.Equal(t, "one", string(line))
	_, err = r.Next()
	require.ErrorIs(t, err, broken)

	r = jsonrpc.NewReader(io.MultiReader(strings.NewReader(strings.Repeat("x", 100<<10)), iotest.ErrReader(broken)), 10)
	_, err = r.Next()
	require.ErrorIs(t, err, broken, "while a line that is too long is dropped")
}

func TestLimitCountsTheLineWithoutItsEnd(t *testing.T) {
	t.Parallel()
	r := jsonrpc.NewReader(strings.NewReader("12345\r\n123456\n"), 5)
	line, err := r.Next()
	require.NoError(t, err)
	assert.Equal(t, "12345", string(line))
	_, err = r.Next()
	var long *jsonrpc.TooLongError
	require.ErrorAs(t, err, &long)
	assert.Equal(t, 5, long.Limit)
}

func TestLineAboveTheLimitIsDroppedAndNamed(t *testing.T) {
	t.Parallel()
	filler := strings.Repeat("y", 300<<10)
	for name, test := range map[string]struct {
		line, id, method string
	}{
		"id in front":              {`{"jsonrpc":"2.0","id":17,"result":{"id":1,"t":"` + filler + `"}}`, "17", ""},
		"id last":                  {`{"result":{"id":1,"t":"` + filler + `"},"jsonrpc":"2.0","id":17}`, "17", ""},
		"string id last, spaces":   {`{"result":{"t":"` + filler + `"}, "id" : "a\"b" } `, `"a\"b"`, ""},
		"id before the version":    {`{"result":{"t":"` + filler + `"},"id":17,"jsonrpc":"2.0"}`, "17", ""},
		"id nested at the end":     {`{"result":{"t":"` + filler + `","id":17}}`, "", ""},
		"id inside a string":       {`{"result":{"t":"` + filler + `,\"id\":17}"}}`, "", ""},
		"nested id in front":       {`{"result":{"id":17,"t":"` + filler + `"}}`, "", ""},
		"a request":                {`{"method":"sampling/createMessage","params":{"t":"` + filler + `"},"jsonrpc":"2.0","id":17}`, "17", "sampling/createMessage"},
		"not JSON":                 {filler, "", ""},
		"number cut by the window": {`{"x":"` + strings.Repeat("z", 4<<10-13) + `","id":17,"t":"` + filler + `"}`, "", ""},
		"id null":                  {`{"id":null,"result":"` + filler + `"}`, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := jsonrpc.NewReader(strings.NewReader(test.line+"\nnext\n"+test.line), 1000)
			assertTooLong(t, r, test.id, test.method)
			line, err := r.Next()
			require.NoError(t, err)
			assert.Equal(t, "next", string(line))
			assertTooLong(t, r, test.id, test.method) // and at the end of input
			_, err = r.Next()
			require.ErrorIs(t, err, io.EOF)
		})
	}
}

func assertTooLong(t *testing.T, r *jsonrpc.Reader, id, method string) {
	t.Helper()
	_, err := r.Next()
	var long *jsonrpc.TooLongError
	require.ErrorAs(t, err, &long)
	assert.Equal(t, id, string(long.ID))
	assert.Equal(t, method, long.Method)
	assert.EqualError(t, long, "message longer than the limit of 1000 bytes")
}

func TestDroppingALineTakesLittleMemory(t *testing.T) {
	// not parallel: it measures the heap of the whole process
	const size = 64 << 20
	r := jsonrpc.NewReader(io.LimitReader(endless{}, size), 1<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := r.Next()
	runtime.ReadMemStats(&after)
	var long *jsonrpc.TooLongError
	require.ErrorAs(t, err, &long)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16<<20))
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestWriterWritesOneLineAtOnce(t *testing.T) {
	t.Parallel()
	var out recorder
	w := jsonrpc.NewWriter(&out)
	pretty, err := jsonrpc.Parse([]byte("{\r\n \"jsonrpc\":\"2.0\",\n\"id\":1,\"result\":\"a\\n\"}"))
	require.NoError(t, err)
	require.NoError(t, w.Write(pretty))
	assert.Equal(t, []string{"{   \"jsonrpc\":\"2.0\", \"id\":1,\"result\":\"a\\n\"}\n"}, out.writes)

	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() { assert.NoError(t, w.Write(jsonrpc.Result(fmt.Append(nil, i), []byte("{}")))) })
	}
	all.Wait()
	assert.Len(t, out.writes, 51)

	broken := errors.New("pipe burst")
	require.ErrorIs(t, jsonrpc.NewWriter(failing{broken}).Write(pretty), broken)
}

// A recorder keeps each Write; the Writer's lock is what makes it safe.
type recorder struct{ writes []string }

func (r *recorder) Write(p []byte) (int, error) {
	r.writes = append(r.writes, string(bytes.Clone(p)))
	return len(p), nil
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
