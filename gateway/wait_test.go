package gateway_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/dedup/storetest"
	"github.com/mcp-idem/mcp-idem/gateway"
	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/toolschema"
)

// A still is a gateway without a server, on whose clock time passes as soon as
// everybody waits. It answers what can be answered without sending anything.
type still struct {
	t       *testing.T
	ledger  *dedup.Ledger
	gateway *gateway.Gateway
	caller  *gateway.Caller

	mu       sync.Mutex
	progress []string // params
}

// inStillness runs a test with all default options, on a clock of its own.
func inStillness(t *testing.T, test func(*testing.T, *still)) {
	synctest.Test(t, func(t *testing.T) {
		ledger, err := dedup.New(t.Context(), storetest.NewReference(time.Now).Open(nil), dedup.Options{})
		require.NoError(t, err)
		s := &still{t: t, ledger: ledger}
		s.gateway = gateway.New(ledger, gateway.Options{Scope: dedup.Scope{Namespace: "tester", Upstream: "shop"}, Log: zerolog.Nop()})
		require.NoError(t, s.gateway.Offer(`{"tools":`+refundTool+`}`))
		s.caller = gateway.NewCaller(func(m jsonrpc.Message) {
			assert.Equal(t, "notifications/progress", m.Method)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.progress = append(s.progress, string(m.Params))
		})
		test(t, s)
		require.NoError(t, ledger.Close())
	})
}

// lease is the running operation of the call that the tests repeat.
func (s *still) lease() *dedup.Lease {
	said, err := toolschema.ParseCall([]byte(`{"name":"refund","arguments":` + refundA1 + `}`))
	require.NoError(s.t, err)
	fingerprint, err := said.Fingerprint(toolschema.Tool{})
	require.NoError(s.t, err)
	key, err := dedup.ParseKey(said.Key, "refund")
	require.NoError(s.t, err)
	verdict, err := s.ledger.Begin(s.t.Context(), dedup.Request{
		Scope: dedup.Scope{Namespace: "tester", Upstream: "shop", Tool: "refund"}, Key: key,
		Fingerprint: dedup.Digest(fingerprint), FingerprintVersion: toolschema.FingerprintVersion,
		Class: string(toolschema.ClassNonRetryable), Window: gateway.DefaultWindow,
	})
	require.NoError(s.t, err)
	return verdict.(*dedup.Lease)
}

// A wait is what came of a repeated call.
type wait struct {
	result string
	took   time.Duration
}

// call repeats the call, on a goroutine of its own. A token that is empty is none.
func (s *still) call(ctx context.Context, token string) <-chan wait {
	meta := ""
	if token != "" {
		meta = `,"_meta":{"progressToken":` + token + `}`
	}
	request := jsonrpc.Request([]byte("1"), "tools/call", []byte(`{"name":"refund","arguments":`+refundA1+meta+`}`))
	done := make(chan wait, 1)
	began := time.Now()
	go func() {
		m := s.gateway.Call(ctx, &gateway.Exchange{Caller: s.caller}, request)
		done <- wait{string(m.Result), time.Since(began)}
	}()
	return done
}

func (s *still) heard() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.progress
}

const isRunning = `"outcome":"RUNNING","was_replay":false,"effect":"unknown"`

func TestARepeatedCallWaitsForTheRunningOne(t *testing.T) {
	t.Parallel()
	inStillness(t, func(t *testing.T, s *still) {
		lease := s.lease()
		got := <-s.call(t.Context(), "")
		assert.Contains(t, got.result, isRunning)
		assert.Contains(t, got.result, `"next":{"action":"retry_same_key","after_ms":20000,`)
		assert.Equal(t, gateway.DefaultWait, got.took)
		assert.Empty(t, s.heard(), "nobody asked for progress")

		again := s.call(t.Context(), "")
		<-time.After(7 * time.Second)
		_, err := lease.Complete(dedup.Answer{Evidence: dedup.AnsweredResult, Body: []byte(`{"content":[]}`)})
		require.NoError(t, err)
		got = <-again
		assert.Contains(t, got.result, `"outcome":"COMPLETED","was_replay":true`)
		assert.Equal(t, 7*time.Second, got.took, "it is woken, and does not look now and then")
	})
}

func TestWhoAsksForProgressWaitsAsLongAsTheCallMayTake(t *testing.T) {
	t.Parallel()
	for _, token := range []string{"9007199254740993", `"t\u00e9"`} {
		t.Run(token, func(t *testing.T) {
			t.Parallel()
			inStillness(t, func(t *testing.T, s *still) {
				lease := s.lease()
				defer lease.Close()
				waiting := s.call(t.Context(), token)
				<-time.After(12 * time.Second)
				assert.Equal(t, []string{
					`{"progressToken":` + token + `,"progress":1,"message":"the same call is still executing"}`,
					`{"progressToken":` + token + `,"progress":2,"message":"the same call is still executing"}`,
				}, s.heard(), "every five seconds")
				got := <-waiting
				assert.Contains(t, got.result, isRunning)
				assert.Equal(t, gateway.DefaultCallTimeout, got.took)
				for i, params := range s.heard() {
					assert.Contains(t, params, fmt.Sprintf(`"progress":%d,`, i+1), "progress grows with every notification")
				}
			})
		})
	}
}

func TestAWaiterGetsTheLateAnswer(t *testing.T) {
	t.Parallel()
	inStillness(t, func(t *testing.T, s *still) {
		_, late, err := s.lease().Strand(dedup.Stranding{Evidence: dedup.NoAnswer, Reason: dedup.ReasonTimeout, OpenFor: time.Hour})
		require.NoError(t, err)
		got := <-s.call(t.Context(), "")
		assert.Contains(t, got.result, `"outcome":"EFFECT_UNKNOWN"`)
		assert.Contains(t, got.result, `"next":{"action":"check_status","after_ms":20000,`)
		assert.Equal(t, gateway.DefaultWait, got.took)

		waiting := s.call(t.Context(), "")
		<-time.After(time.Second)
		_, err = late.Complete(dedup.Answer{Evidence: dedup.AnsweredResult, Body: []byte(`{"content":[{"type":"text","text":"re_1"}]}`)})
		require.NoError(t, err)
		got = <-waiting
		assert.True(t, strings.HasPrefix(got.result, `{"content":[{"type":"text","text":"re_1"},`), got.result)
		assert.Contains(t, got.result, `"outcome":"COMPLETED","was_replay":true`)
		assert.Equal(t, time.Second, got.took)
	})
}

func TestAWaiterHearsAtOnceThatNoAnswerWillCome(t *testing.T) {
	t.Parallel()
	inStillness(t, func(t *testing.T, s *still) {
		lease := s.lease()
		waiting := s.call(t.Context(), "")
		<-time.After(time.Second)
		_, _, err := lease.Strand(dedup.Stranding{Evidence: dedup.NoAnswer, Reason: dedup.ReasonUpstreamExited})
		require.NoError(t, err)
		got := <-waiting
		assert.Contains(t, got.result, `"outcome":"EFFECT_UNKNOWN"`)
		assert.Equal(t, time.Second, got.took)
	})
}

func TestOfTooManyWaitersTheLastDoesNotWait(t *testing.T) {
	t.Parallel()
	inStillness(t, func(t *testing.T, s *still) {
		lease := s.lease()
		var waiting []<-chan wait
		for range dedup.MaxWaiters {
			waiting = append(waiting, s.call(t.Context(), ""))
		}
		synctest.Wait()
		got := <-s.call(t.Context(), `"token"`)
		assert.Contains(t, got.result, isRunning)
		assert.Zero(t, got.took)

		_, err := lease.Complete(dedup.Answer{Evidence: dedup.AnsweredResult, Body: []byte(`{"content":[]}`)})
		require.NoError(t, err)
		for _, w := range waiting {
			got := <-w
			assert.Contains(t, got.result, `"was_replay":true`)
			assert.Zero(t, got.took)
		}
	})
}

func TestAWaiterWhoLeavesWaitsNoMore(t *testing.T) {
	t.Parallel()
	inStillness(t, func(t *testing.T, s *still) {
		lease := s.lease()
		defer lease.Close()
		ctx, leave := context.WithCancel(t.Context())
		waiting := s.call(ctx, `"token"`)
		<-time.After(6 * time.Second)
		leave()
		assert.Equal(t, 6*time.Second, (<-waiting).took)
		assert.Len(t, s.heard(), 1)
	})
}

// The first call is refused before anything is executed: one of those who waited
// for it is sent in its place, and the others get its answer.
func TestAWaiterTakesOverWhatWasReleased(t *testing.T) {
	t.Parallel()
	const waiters = 5
	r := newRig(t, refundTool, nil)
	r.server.on("refund", r.server.hold)
	first := r.start("refund", refundA1, "")
	refused := r.server.next()
	var waiting []*pending
	for range waiters {
		waiting = append(waiting, r.start("refund", refundA1, ""))
		receive(t, r.store.waits, "a waiter")
	}
	r.server.on("refund", nil)
	refused.refuse(-32601, "not here")
	first.reply().require(gateway.FailedBeforeInput, "reason", "refused", "attempt", "1")
	fresh := 0
	for _, p := range waiting {
		if got := p.reply().require(gateway.Completed, "attempt", "2"); got.says("was_replay") == "false" {
			fresh++
		}
	}
	assert.Equal(t, 1, fresh)
	assert.Equal(t, 1, r.server.effects())
}
