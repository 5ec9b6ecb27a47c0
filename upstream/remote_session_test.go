package upstream_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/upstream"
)

// expiring is a legacy server whose sessions are numbered; it knows none but the
// newest, and not that one either once it is told to forget it.
type expiring struct {
	*site

	sessions atomic.Int64
	forgot   atomic.Bool
	effects  atomic.Int64
}

func newExpiring(t *testing.T) *expiring {
	e := &expiring{site: newSite(t, legacy())}
	e.put("initialize", func(w http.ResponseWriter, r *http.Request, v visit) {
		e.forgot.Store(false)
		w.Header().Set("Mcp-Session-Id", fmt.Sprint("session-", e.sessions.Add(1)))
		result(initializeResult)(w, r, v)
	})
	known := func(p page) page {
		return func(w http.ResponseWriter, r *http.Request, v visit) {
			if e.forgot.Load() || v.header.Get("Mcp-Session-Id") != fmt.Sprint("session-", e.sessions.Load()) {
				p = body(http.StatusNotFound, json, `{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}`)
			}
			p(w, r, v)
		}
	}
	e.put("ping", func(w http.ResponseWriter, r *http.Request, v visit) { known(result("{}"))(w, r, v) })
	e.put("tools/call", func(w http.ResponseWriter, r *http.Request, v visit) {
		e.effects.Add(1)
		known(result(toolResult))(w, r, v)
	})
	return e
}

func TestIdleSessionIsLookedAfterBeforeItIsUsed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		idle           time.Duration
		forgets        bool
		pings, opening int
	}{
		{"used lately", time.Hour, false, 0, 1},
		{"idle and alive", time.Nanosecond, false, 1, 1},
		{"idle and expired", time.Nanosecond, true, 1, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := newExpiring(t)
			v := call(t, e.site, func(o *upstream.Options) { o.IdleAfter = c.idle })
			m, err := v.Initialize(v.ctx(), []byte(clientParams))
			require.NoError(t, err)
			require.NotNil(t, m.Result)
			v.Proceed()
			e.forgot.Store(c.forgets)
			before := len(e.got("ping"))
			s, err := v.Ready(v.ctx())
			require.NoError(t, err)
			assert.GreaterOrEqual(t, len(e.got("ping"))-before, c.pings, "one, and one more for each session")
			_, err = v.pays(s)
			require.NoError(t, err)
			assert.Len(t, e.got("initialize"), c.opening)
			assert.EqualValues(t, 1, e.effects.Load(), "one call, one effect")
		})
	}
}

func TestExpiredSessionIsBegunAnewAndTheCallIsNotSentAgain(t *testing.T) {
	t.Parallel()
	e := newExpiring(t)
	v := call(t, e.site, nil)
	s := v.ready()
	e.forgot.Store(true)
	_, err := v.pays(s)
	loss := lost(t, err, upstream.BadAnswer)
	assert.ErrorContains(t, loss, `"Session not found"`)
	finding := upstream.DefaultJudgement().JudgeLoss(err)
	assert.Equal(t, 8, finding.Row, "the effect is there, whatever the status says")
	assert.Nil(t, finding.Proof)
	assert.ErrorContains(t, next(t, v.exits), "does not know the session")
	again := next(t, v.restarts)
	assert.EqualValues(t, 1, e.effects.Load())

	_, err = v.pays(s)
	unsent(t, err)
	_, err = v.pays(again)
	require.NoError(t, err)
	require.Len(t, e.got("initialize"), 2)
	assert.Equal(t, legacyClient, string(e.got("initialize")[1].m.Params))
	require.Len(t, e.got("notifications/initialized"), 2)
	assert.Equal(t, "session-2", e.got("notifications/initialized")[1].header.Get("Mcp-Session-Id"))
}

func TestAnswersOpenWhenTheSessionExpiresStillCount(t *testing.T) {
	t.Parallel()
	e := newExpiring(t)
	release := make(chan struct{})
	e.put("tools/list", func(w http.ResponseWriter, r *http.Request, v visit) {
		<-release
		result(`{"tools":[]}`)(w, r, v)
	})
	v := call(t, e.site, nil)
	s := v.ready()
	open, err := s.Send(v.ctx(), jsonrpc.Request([]byte("2"), "tools/list", nil))
	require.NoError(t, err)
	e.forgot.Store(true)
	_, err = v.pays(s)
	lost(t, err, upstream.BadAnswer)
	next(t, v.restarts)
	close(release)
	answer, err := open.Wait(v.ctx())
	require.NoError(t, err)
	assert.Equal(t, `{"tools":[]}`, string(answer.Result))
}

func TestConnectionThatBrokePutsTheSessionInDoubt(t *testing.T) {
	t.Parallel()
	e := newExpiring(t)
	v := call(t, e.site, nil)
	s := v.ready()
	e.put("tools/call", hangsUp(""))
	_, err := v.pays(s)
	lost(t, err, upstream.ConnectionLost)
	assert.Empty(t, e.got("ping"))
	assert.True(t, s == v.again(), "the same session")
	assert.Len(t, e.got("ping"), 1)
	v.again()
	assert.Len(t, e.got("ping"), 1, "one is enough")
}

func TestSessionThatIsRefusedWith400IsBegunAnewBeforeTheNextCall(t *testing.T) {
	t.Parallel()
	e := newExpiring(t)
	v := call(t, e.site, nil)
	s := v.ready()
	e.put("ping", status(http.StatusBadRequest))
	e.put("tools/call", status(http.StatusBadRequest))
	_, err := v.pays(s)
	lost(t, err, upstream.BadAnswer)
	e.put("tools/call", result(toolResult))
	again := v.again()
	assert.False(t, s == again, "the same session")
	_, err = v.pays(again)
	require.NoError(t, err)
	assert.Len(t, e.got("initialize"), 2)
	assert.Len(t, e.got("tools/call"), 2)
}

func TestSessionIsNotAskedForWhileACallIsOpen(t *testing.T) {
	t.Parallel()
	e := newExpiring(t)
	e.put("tools/list", stays(": begun\n\n"))
	v := call(t, e.site, func(o *upstream.Options) { o.IdleAfter = time.Nanosecond })
	s := v.ready()
	open, err := s.Send(v.ctx(), jsonrpc.Request([]byte("2"), "tools/list", nil))
	require.NoError(t, err)
	before := len(e.got("ping"))
	require.Eventually(t, func() bool { return len(e.got("tools/list")) == 1 }, patience, tick)
	assert.True(t, s == v.again(), "the same session")
	assert.Len(t, e.got("ping"), before)
	open.Forget()
	assert.True(t, s == v.again(), "the same session")
	assert.Len(t, e.got("ping"), before+1)
}

func TestStatusThatSaysNothingOfTheSessionLeavesItAlone(t *testing.T) {
	t.Parallel()
	for _, code := range []int{401, 403, 405, 406, 413, 415, 429} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			e := newExpiring(t)
			got := make(chan struct{}, 10)
			e.put("GET", func(w http.ResponseWriter, _ *http.Request, _ visit) { w.WriteHeader(code); got <- struct{}{} })
			v := call(t, e.site, nil)
			s := v.ready()
			next(t, got)
			e.put("tools/call", status(code))
			_, err := v.pays(s)
			lost(t, err, upstream.BadAnswer)
			assert.True(t, s == v.again(), "the same session")
			assert.Empty(t, e.got("ping"))
		})
	}
}

func TestSessionOutlivesAServerThatIsBusy(t *testing.T) {
	t.Parallel()
	e := newExpiring(t)
	v := call(t, e.site, nil)
	s := v.ready()
	e.put("ping", status(http.StatusServiceUnavailable))
	e.put("tools/call", status(http.StatusServiceUnavailable))
	_, err := v.pays(s)
	lost(t, err, upstream.BadAnswer)
	ctx, enough := context.WithCancel(v.ctx())
	go func() { <-v.exits; enough() }()
	_, err = v.Ready(ctx)
	assert.ErrorContains(t, err, "503")
	e.put("ping", result("{}"))
	next(t, v.restarts)
	assert.Len(t, e.got("initialize"), 1)
}

func TestServersOwnStreamIsReadAndOpenedAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t, legacy())
	s.put("GET", func(w http.ResponseWriter, r *http.Request, v visit) {
		if v.header.Get("Last-Event-ID") != "" {
			stays(": again\n\n")(w, r, v)
			return
		}
		events("id: e-7\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n"+
			"data: {\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"sampling/createMessage\"}\n\n"+
			"data: {\"jsonrpc\":\"2.0\",\"id\":77,\"result\":{}}\n\ndata: ?\n\n")(w, r, v)
	})
	v := call(t, s, nil)
	v.ready()
	assert.Equal(t, "notifications/tools/list_changed", next(t, v.notifications).Method)
	assert.Equal(t, "sampling/createMessage", next(t, v.requests).message.Method)
	assert.Equal(t, "77", string(next(t, v.strays).ID))
	assert.Equal(t, "?", next(t, v.junk))
	require.Eventually(t, func() bool { return len(s.got("GET")) == 2 }, patience, tick)
	assert.Equal(t, "session-1", s.got("GET")[1].header.Get("Mcp-Session-Id"))
	assert.Equal(t, "e-7", s.got("GET")[1].header.Get("Last-Event-ID"))
}

func TestNothingIsHandedOnOnceTheSessionIsGone(t *testing.T) {
	t.Parallel()
	e := newExpiring(t)
	release := make(chan struct{})
	e.put("tools/list", func(w http.ResponseWriter, r *http.Request, v visit) {
		events(": begun\n\n")(w, r, v)
		w.(http.Flusher).Flush()
		<-release
		_, _ = io.WriteString(w, withID("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/late\"}\n\ndata: "+rpcResult+"\n\n", v))
	})
	v := call(t, e.site, nil)
	s := v.ready()
	open, err := s.Send(v.ctx(), jsonrpc.Request([]byte("2"), "tools/list", nil))
	require.NoError(t, err)
	e.forgot.Store(true)
	_, err = v.pays(s)
	lost(t, err, upstream.BadAnswer)
	next(t, v.restarts)
	close(release)
	_, err = open.Wait(v.ctx())
	require.NoError(t, err)
	assert.Empty(t, v.notifications)
}

func TestClientThatBeginsAnewGetsANewSession(t *testing.T) {
	t.Parallel()
	e := newExpiring(t)
	v := call(t, e.site, nil)
	first := v.ready()
	second := v.ready()
	assert.False(t, first == second, "the same session")
	_, err := v.pays(second)
	require.NoError(t, err)
	_, err = v.pays(first)
	unsent(t, err)
	require.Eventually(t, func() bool { return len(e.got("DELETE")) == 1 }, patience, tick)
	assert.Equal(t, "session-1", e.got("DELETE")[0].header.Get("Mcp-Session-Id"))
	assert.Empty(t, v.exits, "nothing has failed")
}

func TestCloseLosesWhatIsOpen(t *testing.T) {
	t.Parallel()
	for era, pages := range map[string]map[string]page{"legacy": legacy(), "modern": modern()} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, pages)
			s.put("tools/call", stays(": begun\n\n"))
			v := call(t, s, nil)
			session := v.ready()
			open, err := session.Send(v.ctx(), toolCall("1", "pay", "{}"))
			require.NoError(t, err)
			require.NoError(t, v.Close(v.ctx()))
			_, err = open.Wait(v.ctx())
			lost(t, err, upstream.ConnectionLost)
			_, err = session.Send(v.ctx(), toolCall("1", "pay", "{}"))
			unsent(t, err)
			_, err = v.Ready(v.ctx())
			assert.ErrorAs(t, err, new(*upstream.UnreachableError))
			require.NoError(t, v.Close(v.ctx()), "again")
		})
	}
}

func TestCloseDoesNotWaitForAServerThatHangs(t *testing.T) {
	t.Parallel()
	s := newSite(t, legacy())
	begun := make(chan struct{})
	s.put("DELETE", func(_ http.ResponseWriter, r *http.Request, _ visit) { close(begun); <-r.Context().Done() })
	v := call(t, s, nil)
	v.ready()
	enough, cancel := context.WithCancel(v.ctx())
	go func() { <-begun; cancel() }()
	assert.ErrorIs(t, v.Close(enough), context.Canceled)
}
