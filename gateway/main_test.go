package gateway_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long the tests wait for anything that must happen.
const patience = 20 * time.Second

// handsOver is the first argument by which the test binary knows that it is to be
// the process of a server.
const handsOver = "hand-over"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == handsOver {
		os.Exit(handOver(os.Args[2]))
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if left := children(); len(left) > 0 {
			fmt.Fprintf(os.Stderr, "child processes are left: %s\n", left)
			code = 1
		}
		os.Exit(code)
	}))
}

// handOver hands standard input and output over to whoever listens at the
// address: the server is then a part of the test.
func handOver(address string) int {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return 1
	}
	defer func() { _ = conn.Close() }()
	go func() {
		_, _ = io.Copy(conn, os.Stdin)
		_ = conn.(*net.TCPConn).CloseWrite() // the end of input is handed over too
	}()
	_, _ = io.Copy(os.Stdout, conn)
	return 0
}

// children returns the pids of the processes, zombies included, whose parent is
// this one, on systems that tell.
func children() []byte {
	var all []byte
	files, _ := filepath.Glob("/proc/self/task/*/children")
	for _, file := range files {
		pids, _ := os.ReadFile(file)
		all = append(all, pids...)
	}
	return bytes.TrimSpace(all)
}

// receive takes what comes next through a channel.
func receive[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case value, ok := <-c:
		if !ok {
			t.Fatalf("%s: the channel is closed", what)
		}
		return value
	case <-timer.C:
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}
