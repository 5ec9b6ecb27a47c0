//go:build unix

package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/upstream"
	"github.com/mcp-idem/mcp-idem/upstream/upstreamtest"
)

func TestRequestAndAnswerKeepTheirBytes(t *testing.T) {
	t.Parallel()
	r := run(t, nil, "--received", "DIR/received")
	s := r.ready()
	const line = ` {"params": {"arguments":{"b":9007199254740993,"a":1.10,"é":"\u00e9<&>"},"name":"echo_raw"} ,"id": "c-\u0031", "method":"tools\/call","jsonrpc":"2.0"} `
	m, err := jsonrpc.Parse([]byte(line))
	require.NoError(t, err)
	call := r.send(s, m)
	answer, err := call.Wait(r.ctx())
	require.NoError(t, err)

	assert.Equal(t, `"c-\u0031"`, string(answer.ID))
	assert.Equal(t, `{"jsonrpc":"2.0","id":"c-\u0031","result":{ "content":[{"type":"text","text":"{\"b\":9007199254740993,\"a\":1.10,\"é\":\"\\u00e9<&>\"}"},`+
		`{"type":"x-unknown","payload":{"b":9007199254740993,"a":1.10,"é":"\u00e9<&>"}}], "structuredContent":{"b":9007199254740993,"a":1.10,"é":"\u00e9<&>"},`+
		`"x_unknown":9007199254740993,"_meta":{"x/n":1.10} }}`, string(answer.Raw()))
	received, err := os.ReadFile(filepath.Join(r.dir, "received"))
	require.NoError(t, err)
	assert.Contains(t, string(received), strings.Replace(line, `"c-\u0031"`, string(call.ID()), 1)+"\n")
	assert.Contains(t, string(received), `"params":`+legacyClient, "initialize")
}

func TestHundredCallsAtOnceGetTheirOwnAnswers(t *testing.T) {
	t.Parallel()
	r := run(t, nil)
	s := r.ready()
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			// the ids of several clients may be the same
			call, err := s.Send(r.ctx(), toolCall("7", "send_mail", fmt.Sprintf(`{"to":"%d"}`, i)))
			if !assert.NoError(t, err) {
				return
			}
			answer, err := call.Wait(r.ctx())
			assert.NoError(t, err)
			assert.Equal(t, "7", string(answer.ID))
			echo, err := s.Send(r.ctx(), toolCall("9007199254740993", "echo_raw", fmt.Sprintf(`{"to":%d}`, i)))
			if !assert.NoError(t, err) {
				return
			}
			answer, err = echo.Wait(r.ctx())
			assert.NoError(t, err)
			assert.Equal(t, "9007199254740993", string(answer.ID))
			assert.Contains(t, string(answer.Result), fmt.Sprintf(`"structuredContent":{"to":%d}`, i))
		})
	}
	all.Wait()
	r.counts(100)
}

func TestLateAnswerIsHeardByASecondWait(t *testing.T) {
	t.Parallel()
	r := run(t, nil, "--fault", "refund:do=gate:answer")
	s := r.ready()
	call := r.send(s, toolCall("1", "refund", `{"order":"o"}`))
	upstreamtest.WaitForFile(t, r.dir, "answer.waiting")

	patience := errors.New("out of patience")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(patience)
	_, err := call.Wait(ctx)
	require.ErrorIs(t, err, patience)

	upstreamtest.Open(t, r.dir, "answer")
	answer, err := call.Wait(r.ctx())
	require.NoError(t, err)
	assert.Contains(t, string(answer.Result), "refunded re_1")
	again, err := call.Wait(ctx)
	require.NoError(t, err, "an answer that is there goes before a context that has ended")
	assert.Equal(t, answer.Raw(), again.Raw())
	r.counts(1)
}

func TestForgottenCallsAnswerIsStray(t *testing.T) {
	t.Parallel()
	r := run(t, nil, "--fault", "refund:nth=1,do=gate:answer")
	s := r.ready()
	call := r.send(s, toolCall("1", "refund", `{}`))
	upstreamtest.WaitForFile(t, r.dir, "answer.waiting")
	call.Forget()
	r.lost(call, upstream.Forgotten)
	upstreamtest.Open(t, r.dir, "answer")
	assert.Equal(t, string(call.ID()), string(next(t, r.strays).ID))

	answered := r.send(s, toolCall("2", "refund", `{}`))
	_, err := answered.Wait(r.ctx())
	require.NoError(t, err)
	answered.Forget()
	_, err = answered.Wait(r.ctx())
	require.NoError(t, err, "an answer that is there stays")
}

func TestAnswersThatDoNotFit(t *testing.T) {
	t.Parallel()
	r := run(t, func(o *upstream.Options) { o.MaxMessageBytes = 100_000 },
		"--fault", "refund:nth=1,do=wrong_id", "--fault", "refund:nth=2,do=twice", "--fault", "refund:nth=3,do=broken",
		"--fault", "refund:nth=4,do=big:200000", "--fault", "refund:nth=5,do=garbage", "--fault", "refund:nth=6,do=string_id")
	s := r.ready()

	mismatched := r.send(s, toolCall("1", "refund", `{}`))
	assert.Equal(t, "987654321", string(next(t, r.strays).ID))

	answer := r.ask(s, toolCall("2", "refund", `{}`))
	assert.Contains(t, string(answer.Result), "re_2")
	assert.Contains(t, string(next(t, r.strays).Result), "re_2", "the second of two answers")

	r.lost(r.send(s, toolCall("3", "refund", `{}`)), upstream.BadAnswer)

	lost := r.lost(r.send(s, toolCall("4", "refund", `{}`)), upstream.BadAnswer)
	var long *jsonrpc.TooLongError
	require.ErrorAs(t, lost, &long)
	assert.Equal(t, 100_000, long.Limit)

	silent := r.send(s, toolCall("5", "refund", `{}`))
	assert.Equal(t, "Traceback (most recent call last):", next(t, r.junk))

	answer = r.ask(s, toolCall("6", "refund", `{}`))
	assert.Equal(t, "6", string(answer.ID), "an id of ours that comes back as a string")

	silent.Forget()
	mismatched.Forget()
	r.lost(mismatched, upstream.Forgotten)
	r.counts(6)
}

func TestJunkBeforeTheHandshakeIsSkipped(t *testing.T) {
	t.Parallel()
	r := run(t, nil, "--junk", "3", "--stderr", "warming\x1b[31m up")
	r.ready()
	for range 3 {
		assert.Equal(t, "this line is not JSON", next(t, r.junk))
	}
	assert.Equal(t, "warming\x1b[31m up", next(t, r.stderr))
}

func TestNotificationsAndRequestsOfTheServer(t *testing.T) {
	t.Parallel()
	r := run(t, nil, "--notify-list-changed", "--fault", "refund:do=progress:20")
	s := r.ready()
	assert.Equal(t, "notifications/tools/list_changed", next(t, r.notifications).Method)

	call := r.send(s, toolCall("1", "ask_roots", `{}`))
	asked := next(t, r.requests)
	assert.Equal(t, "roots/list", asked.message.Method)
	assert.Equal(t, `"ask-1"`, string(asked.message.ID))
	require.NoError(t, asked.session.Reply(jsonrpc.Result(asked.message.ID, []byte(`{"roots":[ 9007199254740993 ]}`))))
	answer, err := call.Wait(r.ctx())
	require.NoError(t, err)
	assert.Contains(t, string(answer.Result), `{\"roots\":[ 9007199254740993 ]}`)

	m := jsonrpc.Request([]byte("2"), "tools/call", []byte(`{"name":"refund","arguments":{},"_meta":{"progressToken":"p"}}`))
	r.ask(s, m)
	for i := range 20 {
		assert.Equal(t, fmt.Sprintf(`{"progressToken":"p","progress":%d}`, i+1), string(next(t, r.notifications).Params))
	}
}

func TestServerThatStopsReadingHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	// initialize, initialized and two calls are read, then no more
	r := run(t, nil, "--stop-reading-after", "4", "--received", "DIR/received", "--fault", "refund:do=gate:answer")
	s := r.ready()
	first, second := r.send(s, toolCall("1", "refund", `{}`)), r.send(s, toolCall("2", "refund", `{}`))
	upstreamtest.WaitForFile(t, r.dir, "read.waiting")

	// More than a pipe holds: begun, and not to be finished for now.
	begun := r.begin(s, toolCall("3", "send_mail", `{"body":"`+strings.Repeat("x", 300<<10)+`"}`))

	patience := errors.New("out of patience")
	ctx, cancelQueued := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, patience)
	defer cancelQueued()
	_, err := s.Send(ctx, toolCall("4", "send_mail", `{}`))
	assertNotSent(t, err)
	require.ErrorIs(t, err, patience)

	upstreamtest.Open(t, r.dir, "answer")
	for _, call := range []*upstream.Call{first, second} {
		_, err := call.Wait(r.ctx())
		require.NoError(t, err, "a call in flight is unaffected")
	}
	upstreamtest.Open(t, r.dir, "read")
	_, err = begun.Wait(r.ctx())
	require.NoError(t, err, "the message that was begun is finished")
	r.ask(s, toolCall("5", "send_mail", `{}`))
	r.counts(4)
	received, err := os.ReadFile(filepath.Join(r.dir, "received"))
	require.NoError(t, err)
	assert.Equal(t, 6, strings.Count(string(received), "\n"), "and the one that was not is never sent")
}

func TestNoByteOfAMessageAtTheHeadOfTheQueueIsNotSent(t *testing.T) {
	t.Parallel()
	r := run(t, nil, "--stop-reading-after", "3")
	s := r.ready()
	waiting := []*upstream.Call{r.send(s, toolCall("0", "send_mail", `{}`))}
	upstreamtest.WaitForFile(t, r.dir, "read.waiting")

	// A pipe takes a message of less than a page whole or not at all.
	message := toolCall("1", "send_mail", `{"body":"`+strings.Repeat("x", 3000)+`"}`)
	for refused := 0; refused < 2; {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		call, err := s.Send(ctx, message)
		cancel()
		if err != nil {
			assertNotSent(t, err)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			refused++
			continue
		}
		waiting = append(waiting, call)
		require.Less(t, len(waiting), 1000, "the pipe never fills")
	}
	upstreamtest.Open(t, r.dir, "read")
	for _, call := range waiting {
		_, err := call.Wait(r.ctx())
		require.NoError(t, err, "the stream is clean")
	}
	r.counts(len(waiting))
}

func TestMessageThatHasBegunWaitsForACallThatIsOpen(t *testing.T) {
	t.Parallel()
	r := run(t, func(o *upstream.Options) { o.WriteTimeout = 40 * time.Millisecond },
		"--stop-reading-after", "3", "--received", "DIR/received", "--fault", "refund:nth=1,do=gate:answer")
	s := r.ready()
	inFlight := r.send(s, toolCall("1", "refund", `{}`))
	upstreamtest.WaitForFile(t, r.dir, "read.waiting")
	begun := r.begin(s, toolCall("2", "refund", `{"body":"`+strings.Repeat("x", 300<<10)+`"}`))
	require.NoError(t, s.Notify(jsonrpc.Notification("notifications/queued", nil)))
	for range 5 { // timeouts, one after the other
		_, err := s.Send(r.ctx(), toolCall("3", "refund", `{}`))
		assertNotSent(t, err)
		require.ErrorContains(t, err, "did not read its input in time")
	}
	upstreamtest.Open(t, r.dir, "read")
	_, err := begun.Wait(r.ctx())
	require.NoError(t, err, "it was finished")
	r.ask(s, toolCall("4", "refund", `{}`))
	received, err := os.ReadFile(filepath.Join(r.dir, "received"))
	require.NoError(t, err)
	assert.Contains(t, string(received), "notifications/queued", "of which nobody would be told if it were dropped")
	upstreamtest.Open(t, r.dir, "answer")
	_, err = inFlight.Wait(r.ctx())
	require.NoError(t, err)
	assert.Empty(t, r.exits)
	r.counts(3)
}

func TestMessageThatHasBegunBreaksASessionWithoutAnOpenCall(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*rig, *upstream.Call){
		"answered": func(r *rig, inFlight *upstream.Call) {
			upstreamtest.Open(r.t, r.dir, "answer")
			_, err := inFlight.Wait(r.ctx())
			require.NoError(r.t, err)
		},
		"forgotten": func(r *rig, inFlight *upstream.Call) { inFlight.Forget() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := run(t, func(o *upstream.Options) { o.WriteTimeout, o.Grace = 100*time.Millisecond, time.Minute },
				"--stop-reading-after", "3", "--fault", "refund:do=gate:answer")
			s := r.ready()
			inFlight := r.send(s, toolCall("1", "refund", `{}`))
			upstreamtest.WaitForFile(t, r.dir, "read.waiting")
			begun := r.begin(s, toolCall("2", "refund", `{"body":"`+strings.Repeat("x", 300<<10)+`"}`))
			end(r, inFlight)

			lost := r.lost(begun, upstream.ConnectionLost)
			assert.Contains(t, lost.Error(), "of the 3")
			next(t, upstream.Done(s))
			next(t, r.restarts) // killed without the minute of grace
			r.counts(1)
		})
	}
}

func TestNothingIsSentWithADeadContext(t *testing.T) {
	t.Parallel()
	r := run(t, nil)
	s := r.ready()
	gone := errors.New("the client is gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	for range 20 {
		_, err := s.Send(ctx, toolCall("1", "refund", `{}`))
		assertNotSent(t, err)
		require.ErrorIs(t, err, gone)
	}
	r.ask(s, toolCall("2", "echo_raw", `{}`))
	r.counts(0)
}

// begin sends a part of a message that is more than the pipe holds, while the
// server does not read. It gives a slow machine the time that it takes.
func (r *rig) begin(s upstream.Session, m jsonrpc.Message) *upstream.Call {
	r.t.Helper()
	for patience := 20 * time.Millisecond; ; patience *= 2 {
		ctx, cancel := context.WithTimeout(r.ctx(), patience)
		call, err := s.Send(ctx, m)
		cancel()
		if err == nil {
			return call
		}
		assertNotSent(r.t, err)
		require.Less(r.t, patience, 10*time.Second)
	}
}

// assertNotSent asserts that err is the proof that no byte left.
func assertNotSent(t *testing.T, err error) {
	t.Helper()
	var proof interface{ ProvesNotExecuted() (int, string) }
	require.ErrorAs(t, err, &proof)
	row, reason := proof.ProvesNotExecuted()
	assert.Equal(t, 2, row)
	assert.Equal(t, "unreachable", reason)
}
