package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// socketed is an MCP server that is spoken for by whoever listens at an address:
// it hands its standard input and output over.
func socketed(args []string) int {
	if len(args) != 1 {
		return 2
	}
	conn, err := net.Dial("tcp", args[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer conn.Close()
	go func() {
		_, _ = io.Copy(conn, os.Stdin)
		_ = conn.(*net.TCPConn).CloseWrite() // the end of input is handed over too
	}()
	_, _ = io.Copy(os.Stdout, conn)
	return 0
}

// A wire is a gateway both of whose ends are in the test's hands.
type wire struct {
	t             *testing.T
	cmd           *exec.Cmd
	client        io.WriteCloser
	fromGateway   <-chan string // closed at the end of its output
	listener      net.Listener
	server        net.Conn // nil until it is needed, and after its death
	fromServerEnd <-chan string

	names map[string]string // for operation ids and derived keys: op_1, KEY_1 and so on
	reals map[string]string // the reverse
}

func startWire(t *testing.T, flags []string) *wire {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w := &wire{t: t, listener: listener, names: map[string]string{}, reals: map[string]string{}}
	t.Cleanup(w.hangUp)
	w.cmd = w.command(flags, listener.Addr().String())
	w.client, err = w.cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := w.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, w.cmd.Start())
	w.fromGateway = linesOf(stdout)
	return w
}

// linesOf reads lines on a goroutine that ends with its reader.
func linesOf(r io.Reader) <-chan string {
	lines := make(chan string, 1024)
	go func() {
		defer close(lines)
		in := bufio.NewReader(r)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			lines <- strings.TrimSuffix(line, "\n")
		}
	}()
	return lines
}

// upstream is the connection to the server that the gateway has started.
func (w *wire) upstream() net.Conn {
	if w.server == nil {
		require.NoError(w.t, w.listener.(*net.TCPListener).SetDeadline(time.Now().Add(patience)))
		conn, err := w.listener.Accept()
		require.NoError(w.t, err, "the gateway has started no server")
		w.server, w.fromServerEnd = conn, linesOf(conn)
	}
	return w.server
}

// die ends the server.
func (w *wire) die() {
	require.NoError(w.t, w.upstream().Close())
	for range w.fromServerEnd {
		w.t.Error("the server died with a message unread")
	}
	w.server = nil
}

func (w *wire) next(lines <-chan string, number int) string {
	w.t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case line, ok := <-lines:
		require.True(w.t, ok, "line %d: the gateway has closed its side", number)
		return line
	case <-timer.C:
		w.t.Fatalf("line %d: nothing was sent", number)
		return ""
	}
}

// finish ends the dialogue: nothing more may have been said.
func (w *wire) finish() {
	server := w.upstream()
	require.NoError(w.t, w.client.Close())
	for line := range w.fromServerEnd {
		w.t.Errorf("the server got one more: %s", line)
	}
	require.NoError(w.t, server.Close())
	for line := range w.fromGateway {
		w.t.Errorf("the client got one more: %s", line)
	}
	assert.NoError(w.t, w.cmd.Wait())
}

// hangUp leaves nothing behind where a dialogue failed.
func (w *wire) hangUp() {
	_ = w.listener.Close()
	if w.server != nil {
		_ = w.server.Close() // it may be closed: an error and no more
	}
	if w.cmd.Process != nil && w.cmd.ProcessState == nil {
		_ = w.cmd.Process.Kill()
		_ = w.cmd.Wait()
	}
}

// What differs from run to run: operation ids, times, and the keys that are
// derived for servers which take one.
var (
	operationID = regexp.MustCompile(`op_[0-9a-f]{32}`)
	moment      = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z`)
	derivedKey  = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)
	operation   = regexp.MustCompile(`op_\d+\b`)
)

// normalise puts names in the place of what differs from run to run.
func (w *wire) normalise(line string) string {
	line = operationID.ReplaceAllStringFunc(line, func(id string) string { return w.nameOf(id, "op_") })
	line = derivedKey.ReplaceAllStringFunc(line, func(key string) string { return w.nameOf(key, "KEY_") })
	return moment.ReplaceAllString(line, "TIME")
}

func (w *wire) nameOf(real, prefix string) string {
	name := w.names[real]
	for n := 1; name == ""; n++ {
		if candidate := fmt.Sprint(prefix, n); w.reals[candidate] == "" {
			name = candidate
			w.names[real], w.reals[name] = name, real
		}
	}
	return name
}

// restore puts operation ids back.
func (w *wire) restore(line string) string {
	return operation.ReplaceAllStringFunc(line, func(name string) string {
		if id := w.reals[name]; id != "" {
			return id
		}
		return name
	})
}
