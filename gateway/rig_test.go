package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/dedup/storetest"
	"github.com/mcp-idem/mcp-idem/gateway"
	"github.com/mcp-idem/mcp-idem/toolschema"
	"github.com/mcp-idem/mcp-idem/upstream"
	"github.com/mcp-idem/mcp-idem/upstream/upstreamtest"
)

// refundTool is a tool with side effects that creates something.
const refundTool = `[{"name":"refund","inputSchema":{"type":"object"}}]`

// A rig is a gateway between a client and a server that the test speaks for, on a
// ledger whose faults and whose clock the test has in its hands.
type rig struct {
	*client
	server  *server
	clock   *storetest.Clock
	store   *cued
	ledger  *dedup.Ledger
	log     *book
	options gateway.Options
}

// newRig is a rig whose hands are shaken. edit may be nil.
func newRig(t *testing.T, tools string, edit func(*gateway.Options)) *rig {
	t.Helper()
	r := prepare(t, tools, edit)
	r.client = r.another(nil)
	return r
}

// prepare is a rig to which no client has come yet.
func prepare(t *testing.T, tools string, edit func(*gateway.Options)) *rig {
	t.Helper()
	r := &rig{server: newServer(t, tools), clock: storetest.NewClock(), log: newBook()}
	t.Cleanup(r.server.close)
	r.store = newCued(storetest.NewReference(r.clock.Now).Open(nil))
	var err error
	r.ledger, err = dedup.New(context.Background(), r.store, dedup.Options{SweepEvery: 20 * time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, r.ledger.Close()) })
	self, err := os.Executable()
	require.NoError(t, err)
	r.options = gateway.Options{
		Scope:       dedup.Scope{Namespace: "tester", Upstream: "shop", Account: "here"},
		CallTimeout: patience, LateWindow: patience, Wait: patience, DrainFor: patience,
		Dial: gateway.Local(upstream.Command{Name: "shop", Path: self, Args: []string{handsOver, r.server.listener.Addr().String()}, Env: upstreamtest.Env()}),
		Upstream: upstream.Options{
			StartTimeout: patience, Grace: 5 * time.Second, BackoffMin: time.Millisecond, BackoffMax: 20 * time.Millisecond,
		},
		Log: zerolog.New(r.log),
	}
	if edit != nil {
		edit(&r.options)
	}
	return r
}

// stranger is a client of a further gateway on the same ledger, with options that
// differ. It has not said anything yet.
func (r *rig) stranger(edit func(*gateway.Options)) *client {
	options := r.options
	if edit != nil {
		edit(&options)
	}
	c := serve(r.server.t, gateway.New(r.ledger, options))
	r.server.t.Cleanup(func() { c.close() })
	return c
}

// another is a stranger who has shaken hands.
func (r *rig) another(edit func(*gateway.Options)) *client {
	c := r.stranger(edit)
	c.listen()
	c.greet()
	return c
}

// asked is what the gateway asks the ledger for a call.
func (r *rig) asked(tool, arguments string) dedup.Request {
	r.server.t.Helper()
	said, err := toolschema.ParseCall(fmt.Appendf(nil, `{"name":%q,"arguments":%s}`, tool, arguments))
	require.NoError(r.server.t, err)
	fingerprint, err := said.Fingerprint(toolschema.Tool{})
	require.NoError(r.server.t, err)
	key, err := dedup.ParseKey(said.Key, tool)
	require.NoError(r.server.t, err)
	scope := r.options.Scope
	scope.Tool = tool
	return dedup.Request{
		Scope: scope, Key: key, Fingerprint: dedup.Digest(fingerprint), FingerprintVersion: toolschema.FingerprintVersion,
		Class: string(toolschema.ClassNonRetryable), Window: gateway.DefaultWindow,
	}
}

// run claims an operation as if another caller had made the call just now.
func (r *rig) run(request dedup.Request) *dedup.Lease {
	r.server.t.Helper()
	verdict, err := r.ledger.Begin(context.Background(), request)
	require.NoError(r.server.t, err)
	lease, ok := verdict.(*dedup.Lease)
	require.True(r.server.t, ok, "%T", verdict)
	r.server.t.Cleanup(lease.Close)
	return lease
}

// entries are the ledger's operations, newest first.
func (r *rig) entries() (all []dedup.Entry) {
	r.server.t.Helper()
	for e, err := range r.ledger.List(context.Background(), dedup.Filter{}) {
		require.NoError(r.server.t, err)
		all = append(all, e)
	}
	return all
}

// only is the ledger's one operation, with its result.
func (r *rig) only() dedup.Entry {
	r.server.t.Helper()
	all := r.entries()
	require.Len(r.server.t, all, 1)
	e, err := r.store.Get(context.Background(), all[0].ID)
	require.NoError(r.server.t, err)
	return e
}

// becomes waits until the one operation is in a state.
func (r *rig) becomes(state dedup.State) dedup.Entry {
	r.server.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		e := r.only()
		if e.State == state {
			return e
		}
		require.NoError(r.server.t, r.store.Store.Await(ctx, e), "it stays %s", e.State)
	}
}

// A book is a log that can be waited for. It is safe for concurrent use.
type book struct {
	mu      sync.Mutex
	lines   []string
	written chan struct{} // closed and replaced with each line
}

func newBook() *book { return &book{written: make(chan struct{})} }

// Write takes one line.
func (b *book) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, string(bytes.TrimSpace(line)))
	close(b.written)
	b.written = make(chan struct{})
	return len(line), nil
}

// with are the lines that hold the text.
func (b *book) with(text string) (lines []string, written <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, line := range b.lines {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	return lines, b.written
}

// await waits until n lines hold the text, and returns all that do.
func (b *book) await(t testing.TB, text string, n int) []string {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		lines, written := b.with(text)
		if len(lines) >= n {
			return lines
		}
		select {
		case <-written:
		case <-timer.C:
			t.Fatalf("waited in vain for %d lines with %s", n, text)
		}
	}
}
