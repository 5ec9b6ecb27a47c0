package upstream

import (
	"context"
	"crypto/tls"
	"net"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
)

// A meteredConn counts what is written to a connection, below TLS and all
// buffers. Once it is sealed not one byte more is written, whoever tries.
type meteredConn struct {
	net.Conn

	mu      sync.Mutex
	written int64
	sealed  bool
	carries *flight // the request that has it now, if any
}

// Write implements net.Conn.
func (c *meteredConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sealed {
		return 0, net.ErrClosed
	}
	n, err := c.Conn.Write(b)
	c.written += int64(n)
	if c.carries != nil && n > 0 {
		c.carries.moved.Store(true)
		c.carries.depart()
	}
	return n, err
}

// carry notes the request that has the connection now, and returns how many bytes
// were written before.
func (c *meteredConn) carry(f *flight) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.carries = f
	return c.written
}

// sealAt seals the connection if no more than n bytes have been written, and none
// are being written, and reports whether it has.
func (c *meteredConn) sealAt(n int64) bool {
	if !c.mu.TryLock() {
		return false
	}
	defer c.mu.Unlock()
	if c.written > n {
		return false
	}
	c.sealed = true
	return true
}

// end closes and seals the connection, and returns how many bytes have been
// written to it in all its life.
func (c *meteredConn) end() int64 {
	_ = c.Close() // ends a write that hangs
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sealed = true
	return c.written
}

// meterOf returns the metered connection at the bottom of one.
func meterOf(conn net.Conn) *meteredConn {
	for {
		switch c := conn.(type) {
		case *meteredConn:
			return c
		case *tls.Conn:
			conn = c.NetConn()
		default:
			return nil
		}
	}
}

// A flight is one HTTP request on its way out, and what proves that it has not
// left. It is safe for concurrent use.
type flight struct {
	mu      sync.Mutex
	conn    *meteredConn // nil before there is one
	blind   bool         // it got a connection that is not metered: nothing is proven
	before  int64        // bytes that had been written to conn when the request got it
	revoked bool         // it must not leave any more

	// net/http says that it has written a request when the last of it may still
	// be in a buffer, and for a short one that is all of it.
	handed, moved atomic.Bool // net/http has said so; a write has succeeded
	once          sync.Once
	left          chan struct{} // closed when both is true
}

func newFlight() *flight { return &flight{left: make(chan struct{})} }

// track returns the context under which the request is sent.
func (f *flight) track(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { f.board(info.Conn) },
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			if info.Err == nil {
				f.handed.Store(true)
				f.depart()
			}
		},
	})
}

// board notes which connection the request got, before anything is written.
func (f *flight) board(conn net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.conn = meterOf(conn); f.conn == nil {
		f.blind = true
		f.moved.Store(true)
		return
	}
	f.before = f.conn.carry(f)
	if f.revoked {
		f.conn.end()
	}
}

// depart tells those who wait for it that the request has left.
func (f *flight) depart() {
	if f.handed.Load() && f.moved.Load() {
		f.once.Do(func() { close(f.left) })
	}
}

// revoke keeps the request from leaving, and reports whether it could: then not
// one byte has left and none will. It does not wait for a write that is under way.
func (f *flight) revoke() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.blind:
		return false
	case f.conn == nil:
		f.revoked = true
		return true
	}
	return f.conn.sealAt(f.before)
}

// grounded ends the connection of a request that has failed, and reports whether
// not one byte of it has left.
func (f *flight) grounded() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.conn == nil {
		f.revoked = true
		return !f.blind
	}
	return f.conn.end() == f.before
}

// boarded reports whether the request got a connection.
func (f *flight) boarded() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.conn != nil || f.blind
}
