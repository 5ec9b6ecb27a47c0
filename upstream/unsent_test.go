package upstream_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/upstream"
)

// unsent asserts that an error proves that not one byte of a call has left.
func unsent(t *testing.T, err error) *upstream.NotSent {
	t.Helper()
	var proof *upstream.NotSent
	require.ErrorAs(t, err, &proof, "%v", err)
	row, reason := proof.ProvesNotExecuted()
	assert.Equal(t, 2, row)
	assert.Equal(t, "unreachable", reason)
	return proof
}

func TestCallToAServerThatIsGoneIsNotSent(t *testing.T) {
	t.Parallel()
	for era, pages := range map[string]map[string]page{"legacy": legacy(), "modern": modern()} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, pages)
			v := call(t, s, nil)
			session := v.ready()
			s.CloseClientConnections()
			s.Close()
			require.Eventually(t, func() bool { // the first may find the connection that was just closed
				_, err := v.pays(session)
				return errors.As(err, new(*upstream.NotSent)) && len(v.exits) > 0
			}, patience, tick)
			assert.Empty(t, s.got("tools/call"))
			_, err := session.Send(v.ctx(), toolCall("1", "pay", "{}"))
			unsent(t, err)
			ctx, cancel := context.WithCancel(v.ctx())
			cancel()
			_, err = v.Ready(ctx)
			assert.ErrorContains(t, err, "connection refused", "the reason is told")
			assert.ErrorIs(t, err, context.Canceled)
		})
	}
}

func TestServerThatComesBackIsFoundAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		pages    map[string]page
		forgets  bool // it does not know the session any more
		initials int
	}{
		{"in the modern era", modern(), false, 0},
		{"with the session", legacy(), false, 1},
		{"without the session", legacy(), true, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, c.pages)
			gate := newGate(t, s.Listener.Addr().String())
			v := dial(t, upstream.Endpoint{URL: "http://" + gate.Addr().String()}, nil)
			session := v.ready()
			gate.shut()
			if c.forgets {
				s.put("ping", status(http.StatusNotFound))
			}
			require.Eventually(t, func() bool { _, err := v.pays(session); return errors.As(err, new(*upstream.NotSent)) }, patience, tick)
			next(t, v.exits)
			next(t, v.exits) // and the attempts to come back fail
			gate.reopen()
			assert.False(t, session == next(t, v.restarts), "the same session")
			_, err := v.pays(v.again())
			require.NoError(t, err)
			assert.Len(t, s.got("initialize"), c.initials)
		})
	}
}

// A gate is a listener that hands connections on to another, as long as it is open.
type gate struct {
	net.Listener

	t     *testing.T
	to    string
	loops sync.WaitGroup
	mu    sync.Mutex
	conns []net.Conn
}

func newGate(t *testing.T, to string) *gate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	g := &gate{Listener: l, t: t, to: to}
	g.loops.Go(func() { g.serve(l) })
	t.Cleanup(func() { g.shut(); g.loops.Wait() })
	return g
}

func (g *gate) serve(l net.Listener) {
	for {
		in, err := l.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", g.to)
		if err != nil {
			_ = in.Close()
			continue
		}
		g.mu.Lock()
		g.conns = append(g.conns, in, out)
		g.mu.Unlock()
		g.loops.Go(func() { _, _ = io.Copy(out, in); _ = out.Close() })
		g.loops.Go(func() { _, _ = io.Copy(in, out); _ = in.Close() })
	}
}

// shut refuses new connections and breaks the old ones.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	_ = g.Listener.Close()
	for _, c := range g.conns {
		_ = c.Close()
	}
	g.conns = nil
}

func (g *gate) reopen() {
	l, err := net.Listen("tcp", g.Addr().String())
	require.NoError(g.t, err)
	g.mu.Lock()
	g.Listener = l
	g.mu.Unlock()
	g.loops.Go(func() { g.serve(l) })
}

// A badConn writes as its test wants, once it is told to.
type badConn struct {
	net.Conn

	bad   *atomic.Bool
	write func(net.Conn, []byte) (int, error)
}

func (c *badConn) Write(b []byte) (int, error) {
	if !c.bad.Load() {
		return c.Conn.Write(b)
	}
	return c.write(c.Conn, b)
}

// onBadConns returns a visitor and its session, whose connections write that way
// from now on.
func onBadConns(t *testing.T, s *site, write func(net.Conn, []byte) (int, error)) (*visitor, upstream.Session) {
	v := call(t, s, func(o *upstream.Options) { o.WriteTimeout = time.Second })
	var bad atomic.Bool
	upstream.Wrap(v.Remote, func(c net.Conn) net.Conn { return &badConn{c, &bad, write} })
	session := v.ready()
	_, err := v.pays(session)
	require.NoError(t, err)
	bad.Store(true)
	return v, session
}

func TestOneByteDecidesWhetherACallMayHaveBeenExecuted(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	hang := func(c net.Conn) {
		one := make([]byte, 1)
		_, _ = c.Read(one) // until it is closed
	}
	for _, c := range []struct {
		name  string
		write func(net.Conn, []byte) (int, error)
		sent  bool
	}{
		{"no byte, at once", func(net.Conn, []byte) (int, error) { return 0, broken }, false},
		{"one byte, at once", func(c net.Conn, b []byte) (int, error) { n, _ := c.Write(b[:1]); return n, broken }, true},
		{"no byte in time", func(c net.Conn, b []byte) (int, error) { hang(c); return 0, broken }, false},
		{"one byte in time", func(c net.Conn, b []byte) (int, error) { n, _ := c.Write(b[:1]); hang(c); return n, broken }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, legacy())
			v, session := onBadConns(t, s, c.write)
			_, err := v.pays(session)
			if c.sent {
				lost(t, err, upstream.ConnectionLost)
			} else {
				unsent(t, err)
			}
			assert.Len(t, s.got("tools/call"), 1, "only the one before")
		})
	}
}

func TestContextThatEndsInTheMiddleOfAWriteDoesNotCallItUnsent(t *testing.T) {
	t.Parallel()
	s := newSite(t, legacy())
	ctx, cancel := context.WithCancel(context.Background())
	release := make(chan struct{})
	v, session := onBadConns(t, s, func(c net.Conn, b []byte) (int, error) {
		cancel()
		<-release
		return c.Write(b)
	})
	call, err := session.Send(ctx, toolCall("1", "pay", "{}"))
	require.NoError(t, err, "its bytes were on their way")
	close(release)
	answer, err := call.Wait(v.ctx())
	require.NoError(t, err, "and the call goes on")
	assert.Equal(t, toolResult, string(answer.Result))
}

func TestBytesAreCountedBelowTLS(t *testing.T) {
	t.Parallel()
	s := newSite(t, legacy())
	secure := newSecure(t, s.Config.Handler)
	v := dial(t, upstream.Endpoint{URL: secure.URL}, nil)
	upstream.Trust(v.Remote, secure.Certificate())
	session := v.ready()
	_, err := v.pays(session)
	require.NoError(t, err)
	s.put("tools/call", hangsUpTLS)
	_, err = v.pays(session)
	lost(t, err, upstream.ConnectionLost)

	ctx, cancel := context.WithCancel(v.ctx())
	cancel()
	_, err = session.Send(ctx, toolCall("1", "pay", "{}"))
	unsent(t, err)
	secure.CloseClientConnections()
	secure.Close()
	require.Eventually(t, func() bool { _, err = v.pays(session); return errors.As(err, new(*upstream.NotSent)) }, patience, tick)
	assert.Len(t, s.got("tools/call"), 2)
}

// newSecure serves over TLS, with a certificate that nobody trusts.
func newSecure(t *testing.T, h http.Handler) *httptest.Server {
	secure := httptest.NewUnstartedServer(h)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	return secure
}

// hangsUpTLS ends a connection under TLS.
func hangsUpTLS(w http.ResponseWriter, _ *http.Request, _ visit) {
	if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
		_ = conn.Close()
	}
}

func TestContextThatEndsBeforeTheRequestIsWrittenKeepsItFromLeaving(t *testing.T) {
	t.Parallel()
	s := newSite(t, legacy())
	v := call(t, s, nil)
	session := v.ready()
	cause := errors.New("the caller has left")
	ctx, cancel := context.WithCancelCause(v.ctx())
	cancel(cause)
	_, err := session.Send(ctx, toolCall("1", "pay", "{}"))
	unsent(t, err)
	assert.ErrorIs(t, err, cause)
	assert.Empty(t, s.got("tools/call"))
}

func TestHandshakeOfTLSThatHangsIsNotSentAndFailsInTime(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	held := make(chan net.Conn, 1)
	var loop sync.WaitGroup
	loop.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			held <- c
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
		}
	})
	defer loop.Wait()
	defer l.Close()
	v := dial(t, upstream.Endpoint{URL: "https://" + l.Addr().String()}, func(o *upstream.Options) { o.Era = upstream.EraLegacy })
	ctx, cancel := context.WithCancelCause(v.ctx())
	go func() { <-held; cancel(errors.New("enough")) }()
	_, err = v.Initialize(ctx, []byte(clientParams))
	unsent(t, err)
	assert.ErrorContains(t, err, "enough")
	assert.NoError(t, v.Err(), "a client that leaves fails nobody")
}

func TestRequestThatIsWrittenInPartMayHaveBeenExecuted(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var loops sync.WaitGroup
	defer loops.Wait()
	defer l.Close()
	stop := make(chan struct{})
	defer close(stop)
	loops.Go(func() { serveUntilLarge(l, &loops, stop) })
	v := dial(t, upstream.Endpoint{URL: "http://" + l.Addr().String()}, func(o *upstream.Options) {
		o.Era, o.WriteTimeout = upstream.EraLegacy, 500*time.Millisecond
	})
	session := v.ready()
	large := toolCall("1", "pay", `{"x":"`+strings.Repeat("x", 32<<20)+`"}`)
	_, err = v.ask(session, large)
	lost(t, err, upstream.ConnectionLost)
}

// serveUntilLarge answers requests, but of one that is large it reads nothing.
func serveUntilLarge(l net.Listener, loops *sync.WaitGroup, stop <-chan struct{}) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		loops.Go(func() {
			defer conn.Close()
			in := bufio.NewReader(conn)
			for {
				r, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				if r.ContentLength > 1<<20 {
					<-stop
					return
				}
				raw, _ := io.ReadAll(r.Body)
				m, _ := jsonrpc.Parse(raw)
				w := httptest.NewRecorder()
				switch {
				case m.Method == "initialize":
					result(initializeResult)(w, r, visit{m: m})
				default:
					status(http.StatusAccepted)(w, r, visit{m: m})
				}
				response := w.Result()
				response.ContentLength = int64(w.Body.Len())
				_ = response.Write(conn)
			}
		})
	}
}
