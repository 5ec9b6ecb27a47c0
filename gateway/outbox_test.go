package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

func response(n int) jsonrpc.Message { return jsonrpc.Result(fmt.Append(nil, n), []byte(`{}`)) }

// A paper is written on by one hand at a time.
type paper struct {
	t       *testing.T
	writing atomic.Bool
	text    bytes.Buffer
}

func (p *paper) Write(line []byte) (int, error) {
	assert.True(p.t, p.writing.CompareAndSwap(false, true), "two write at once")
	defer p.writing.Store(false)
	return p.text.Write(line)
}

func TestAnOutboxHasOneWriterWhoKeepsTheOrder(t *testing.T) {
	t.Parallel()
	const senders, each = 8, 200
	p := &paper{t: t}
	o := newOutbox(p)
	var all sync.WaitGroup
	for sender := range senders {
		all.Go(func() {
			for n := range each {
				assert.True(t, o.put(response(sender*each+n)))
			}
		})
	}
	all.Wait()
	o.close(t.Context())
	next := [senders]int{}
	for line := range strings.Lines(p.text.String()) {
		m, err := jsonrpc.Parse([]byte(line))
		require.NoError(t, err)
		var id int
		_, err = fmt.Sscan(string(m.ID), &id)
		require.NoError(t, err)
		assert.Equal(t, next[id/each], id%each)
		next[id/each]++
	}
	for _, n := range next {
		assert.Equal(t, each, n, "closing writes what is queued")
	}
}

// A client that does not read is not waited for. Only its notifications are
// dropped, and only as long as it does not read.
func TestAnOutboxDropsNotificationsOfAClientThatDoesNotRead(t *testing.T) {
	t.Parallel()
	out, in := io.Pipe()
	o := newOutbox(in)
	big := jsonrpc.Result([]byte("1"), []byte("{"+strings.Repeat(" ", MaxQueuedBytes/4)+"}")) // of one memory, however often it is queued
	note := jsonrpc.Notification("notifications/message", nil)
	queued := 0
	for o.put(note) {
		require.True(t, o.put(big))
		queued++
		require.Less(t, queued, 10, "nothing is ever dropped")
	}
	assert.GreaterOrEqual(t, queued, 4, "as much as the limit is kept")
	assert.True(t, o.put(response(2)), "a response is kept")
	assert.False(t, o.put(note))
	assert.True(t, o.put(jsonrpc.Request([]byte("3"), "roots/list", nil)), "and so is a request")

	last, piece := "", make([]byte, 1<<20) // each message is written at once, and a small one read at once
	read := func() string {
		n, err := out.Read(piece)
		require.NoError(t, err)
		return string(piece[:n])
	}
	for !strings.Contains(last, "roots/list") {
		last = read()
	}
	assert.True(t, o.put(note), "there is room again")
	assert.Equal(t, string(note.Raw())+"\n", read())
	o.close(t.Context())
	assert.False(t, o.put(response(4)), "it is closed")
}

func TestAnOutboxDoesNotWaitForEverWhenItIsClosed(t *testing.T) {
	t.Parallel()
	out, in := io.Pipe()
	o := newOutbox(in)
	require.True(t, o.put(response(1)))
	ended, end := context.WithCancel(t.Context())
	end()
	o.close(ended)
	require.NoError(t, out.Close())
	<-o.done
}

func TestAnOutboxThatCannotWriteTakesNoMore(t *testing.T) {
	t.Parallel()
	out, in := io.Pipe()
	o := newOutbox(in)
	require.NoError(t, out.CloseWithError(errors.New("the client is gone")))
	o.put(response(1))
	<-o.done
	assert.False(t, o.put(response(2)))
	o.close(context.Background())
}

// Whoever reads requests waits while too much is queued for the client, and no
// longer than there is somebody who could read it.
func TestAnOutboxSaysWhenThereIsRoom(t *testing.T) {
	t.Parallel()
	big := jsonrpc.Result([]byte("1"), []byte("{"+strings.Repeat(" ", MaxQueuedBytes)+"}"))
	for name, relieve := range map[string]func(*outbox, *io.PipeReader){
		"the client reads":   func(_ *outbox, out *io.PipeReader) { _, _ = io.Copy(io.Discard, out) },
		"the client is gone": func(_ *outbox, out *io.PipeReader) { _ = out.Close() },
		"it is closed": func(o *outbox, out *io.PipeReader) {
			ended, end := context.WithCancel(context.Background())
			end()
			o.close(ended)
			_ = out.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				out, in := io.Pipe()
				o := newOutbox(in)
				o.waitForRoom() // there is room
				o.put(big)      // which is being written
				synctest.Wait()
				o.put(big)
				waited := make(chan struct{})
				go func() {
					o.waitForRoom()
					close(waited)
				}()
				synctest.Wait()
				select {
				case <-waited:
					assert.Fail(t, "there is no room")
				default:
				}
				read := make(chan struct{})
				go func() {
					relieve(o, out)
					close(read)
				}()
				<-waited
				o.close(context.Background())
				_ = in.Close()
				<-read
			})
		})
	}
}
