package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/gateway"
	"github.com/mcp-idem/mcp-idem/internal/conformance/fetch"
	"github.com/mcp-idem/mcp-idem/upstream/upstreamtest"
)

// An sdkKit is the programs of the clients.
type sdkKit struct{ files, modules, node, goClient string }

// sdkOnce fetches the kit once for all tests.
var sdkOnce = sync.OnceValues(func() (k sdkKit, err error) {
	ctx := context.Background()
	k.files = filepath.Join("..", "..", "testdata", "sdk")
	folder, err := fetch.NPM(ctx, os.DirFS(k.files))
	if err != nil {
		return k, err
	}
	k.modules = filepath.Join(folder, "node_modules")
	if k.node, err = fetch.Node(ctx); err != nil {
		return k, err
	}
	k.goClient, err = fetch.GoModule(ctx, os.DirFS(filepath.Join(k.files, "go")), ".")
	return k, err
})

// sdkPrograms returns the clients. Where they cannot be had the test is skipped.
func sdkPrograms(t *testing.T) sdkKit {
	k, err := sdkOnce()
	if err != nil {
		missing(t, "the clients of the SDKs cannot be had: "+err.Error())
	}
	return k
}

// An sdkClient is a running client of an SDK.
type sdkClient struct {
	t        *testing.T
	stdin    io.Writer
	stdout   *bufio.Scanner
	answered map[string]sdkAnswer
	heard    map[string]int // notifications of progress, by the names of calls
}

// An sdkAnswer is what a client says; see testdata/sdk/README.md.
type sdkAnswer struct {
	Threw, Revision, Text, Outcome string
	Tools                          []string
	IsError, Replay                bool
}

// connect starts a client, and has it connect.
func (p *sdkPlay) connect(sdk, era string, target []string) *sdkClient {
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	command := p.client(sdk, era, target)
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env, cmd.Stderr = append(upstreamtest.Env(), "XDG_STATE_HOME="+p.dir), p.t.Output()
	stdin, err := cmd.StdinPipe()
	require.NoError(p.t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(p.t, err)
	require.NoError(p.t, cmd.Start())
	p.t.Cleanup(func() {
		defer cancel()
		assert.NoError(p.t, stdin.Close())
		assert.NoError(p.t, cmd.Wait())
	})
	c := &sdkClient{t: p.t, stdin: stdin, stdout: bufio.NewScanner(stdout), answered: map[string]sdkAnswer{}, heard: map[string]int{}}
	c.send(`{"do":"connect","name":"connect"}`)
	want := "2026-07-28"
	if era == "legacy" {
		want = c.answer("connect").Revision
		assert.Less(p.t, want, "2026", "a legacy client")
	}
	assert.Equal(p.t, want, c.answer("connect").Revision)
	return c
}

func (c *sdkClient) send(format string, args ...any) {
	_, err := fmt.Fprintf(c.stdin, format+"\n", args...)
	require.NoError(c.t, err)
}

// receive reads until an order is answered.
func (c *sdkClient) receive(name string) sdkAnswer {
	for {
		if a, ok := c.answered[name]; ok {
			return a
		}
		c.next(name)
	}
}

// hears reads until so much progress of a call has been told.
func (c *sdkClient) hears(name string, n int) {
	for c.heard[name] < n {
		c.next(name)
	}
}

// next reads one line.
func (c *sdkClient) next(name string) {
	require.True(c.t, c.stdout.Scan(), "the client has ended without a word on %q", name)
	var line struct {
		Name  string
		Done  bool
		Heard int
		sdkAnswer
	}
	require.NoError(c.t, json.Unmarshal(c.stdout.Bytes(), &line))
	if line.Done {
		c.answered[line.Name] = line.sdkAnswer
	}
	c.heard[line.Name] = max(c.heard[line.Name], line.Heard)
}

// answer receives what the SDK must take.
func (c *sdkClient) answer(name string) sdkAnswer {
	a := c.receive(name)
	require.Empty(c.t, a.Threw, "the client throws at %q", name)
	return a
}

func (c *sdkClient) call(name, tool, arguments string) sdkAnswer {
	c.send(`{"do":"call","name":%q,"tool":%q,"arguments":%s}`, name, tool, arguments)
	return c.answer(name)
}

// replayed is a call whose answer says, in a line of text, that it is a replay;
// that line is not returned.
func (c *sdkClient) replayed(name, tool, arguments string) sdkAnswer {
	a := c.call(name, tool, arguments)
	a.Text, _, _ = strings.Cut(a.Text, "\n")
	return a
}

// lists lists the tools.
func (c *sdkClient) lists() {
	c.send(`{"do":"list","name":"list"}`)
	tools := c.answer("list").Tools
	assert.Contains(c.t, tools, "refund")
	assert.Contains(c.t, tools, gateway.StatusTool)
}

// serveHTTP starts a gateway that serves HTTP, and returns the address for clients.
func serveHTTP(t *testing.T, command ...string) string {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = upstreamtest.Env()
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	address, exited := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(exited)
		defer close(address)
		findAddress(t, stderr, address)
		assert.NoError(t, cmd.Wait()) // with a race in it, too
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		select {
		case <-exited:
		case <-time.After(patience):
			_ = cmd.Process.Kill()
			<-exited
			t.Error("the gateway did not end when asked to")
		}
	})
	listening, ok := <-address
	require.True(t, ok, "the gateway has ended without listening")
	return listening
}

// findAddress reads the log, and sends the address on which the gateway listens.
func findAddress(t *testing.T, log io.Reader, address chan<- string) {
	lines := bufio.NewScanner(log)
	for lines.Scan() { // to the end: nobody else reads it
		var entry struct{ Message, Address string }
		if json.Unmarshal(lines.Bytes(), &entry) == nil && entry.Message == "listening" {
			address <- entry.Address
		}
		_, _ = fmt.Fprintln(t.Output(), lines.Text())
	}
}
