package upstream_test

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/upstream"
)

// A sink is a connection whose other end takes everything.
type sink struct{ net.Conn }

func (sink) Write(b []byte) (int, error) { return len(b), nil }
func (sink) Close() error                { return nil }

func TestRequestThatIsRevokedNeverLeaves(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		fly     func(upstream.Flight, net.Conn)
		revoked bool
	}{
		{"before there is a connection", func(upstream.Flight, net.Conn) {}, true},
		{"before anything is written", func(f upstream.Flight, c net.Conn) { f.Board(c) }, true},
		{"after what others have written", func(f upstream.Flight, c net.Conn) {
			_, _ = c.Write([]byte("an earlier request"))
			f.Board(c)
		}, true},
		{"after one byte", func(f upstream.Flight, c net.Conn) {
			f.Board(c)
			_, _ = c.Write([]byte("P"))
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f, conn := upstream.NewFlight(), upstream.Meter(sink{})
			c.fly(f, conn)
			assert.Equal(t, c.revoked, f.Revoke())
			if c.name == "before there is a connection" {
				f.Board(conn)
			}
			n, err := conn.Write([]byte("POST"))
			if c.revoked {
				assert.Zero(t, n)
				assert.ErrorIs(t, err, net.ErrClosed)
			} else {
				assert.NoError(t, err)
			}
			assert.Equal(t, c.revoked, f.Grounded())
		})
	}
}

func TestRequestInTheMiddleOfAWriteIsNotRevoked(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	f, conn := upstream.NewFlight(), upstream.Meter(near)
	f.Board(conn)
	written := make(chan int, 1)
	go func() {
		n, _ := conn.Write([]byte("POST"))
		written <- n
	}()
	one := make([]byte, 1)
	_, err := io.ReadFull(far, one) // the write has begun, and is not over
	require.NoError(t, err)
	assert.False(t, f.Revoke())
	assert.False(t, f.Grounded(), "it ends the write, and sees its byte")
	assert.Equal(t, 1, next(t, written))
	assert.NoError(t, far.Close())
}

func TestConnectionThatIsNotMeteredProvesNothing(t *testing.T) {
	t.Parallel()
	f := upstream.NewFlight()
	f.Board(sink{})
	assert.False(t, f.Revoke())
	assert.False(t, f.Grounded())
}

func TestErasHaveNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"auto", "legacy", "modern"} {
		era, err := upstream.ParseEra(name)
		require.NoError(t, err)
		assert.Equal(t, name, string(era))
	}
	for _, name := range []string{"", "Modern", "2026-07-28"} {
		_, err := upstream.ParseEra(name)
		assert.ErrorContains(t, err, "auto, legacy and modern", name)
	}
}
