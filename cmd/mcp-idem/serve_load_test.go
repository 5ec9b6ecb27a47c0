//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/upstream/upstreamtest"
)

// shops are the servers behind the gateway that is under load.
var shops = []string{"north", "south", "west"}

// A load is a gateway that serves the shops, and its client, over stdio.
type load struct {
	t    *testing.T
	dir  string
	s    *session
	keys atomic.Int64
}

// A sale is one call: its key, how it ended, and how long that took.
type sale struct {
	shop, key, outcome string
	took               time.Duration
}

func newLoad(t *testing.T) *load {
	l := &load{t: t, dir: t.TempDir()}
	l.configure("first", l.replace)
	cmd := exec.Command("mcp-idem", "serve", l.path("servers.json"))
	cmd.Dir, cmd.Env = l.dir, upstreamtest.Env()
	s, err := startSession(cmd, l.path("gateway.log"))
	require.NoError(t, err)
	l.s = s
	t.Cleanup(func() {
		s.dismiss()
		if log, err := os.ReadFile(l.path("gateway.log")); err == nil && t.Failed() {
			t.Logf("%s", log[max(0, len(log)-20000):])
		}
	})
	require.NoError(t, s.handshake())
	return l
}

func (l *load) path(name string) string { return filepath.Join(l.dir, name) }

// configure writes the configuration, in which the server west is another one for each
// generation.
func (l *load) configure(generation string, write func(file string, text []byte)) {
	program, err := exec.LookPath("scripted")
	require.NoError(l.t, err)
	servers := make([]string, len(shops))
	for i, shop := range shops {
		env, fault := "", "none:do=hang"
		if shop == "west" { // calls are on their way when something happens to it
			env, fault = generation, "refund:do=delay:20ms"
		}
		servers[i] = fmt.Sprintf(`%q: {"command": %q, "args": ["--effects", %q, "--fault", %q], "env": {"GENERATION": %q}}`, shop, program, l.path(shop), fault, env)
	}
	write(l.path("servers.json"), fmt.Appendf(nil, `{"mcpServers": {%s}, "idempotency": {"ledger": "ledger.db", "log_format": "json"}}`, strings.Join(servers, ", ")))
}

// replace puts a file in place by renaming, overwrite writes it where it is.
func (l *load) replace(file string, text []byte) {
	require.NoError(l.t, os.WriteFile(file+".new", text, 0o600))
	require.NoError(l.t, os.Rename(file+".new", file))
}

func (l *load) overwrite(file string, text []byte) {
	require.NoError(l.t, os.WriteFile(file, text, 0o600))
}

// sell makes a call, of a key that no other has unless one is given.
func (l *load) sell(shop, key string) (sale, error) {
	if key == "" {
		key = fmt.Sprintf("refund:sale-%d:only", l.keys.Add(1))
	}
	begun := time.Now()
	p, err := l.s.request("tools/call", callParams(shop+"__refund", fmt.Sprintf(`{"order":%q,"amount":1,"idempotency_key":%q}`, key, key), ""))
	if err != nil {
		return sale{}, err
	}
	m, err := p.wait()
	if err != nil {
		return sale{}, err
	}
	said, err := readOutcome(m)
	if err != nil {
		return sale{}, errors.Join(err, fmt.Errorf("%s", m.Raw()))
	}
	return sale{shop, key, said.member("outcome"), time.Since(begun)}, nil
}

// sellUntil sells in all shops, several at a time, until done is closed.
func (l *load) sellUntil(done <-chan struct{}, note func(sale)) (wait func()) {
	var work sync.WaitGroup
	for _, shop := range slices.Concat(shops, shops) {
		work.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				s, err := l.sell(shop, "")
				if !assert.NoError(l.t, err) {
					return
				}
				note(s)
			}
		})
	}
	return work.Wait
}

// effects are the effects of a shop by order, each of which must be there once.
func (l *load) effects(shop string) map[string]bool {
	done, err := upstreamtest.Effects(l.path(shop))
	require.NoError(l.t, err)
	keys := map[string]bool{}
	for _, e := range done {
		order := string(e.Arguments)
		assert.False(l.t, keys[order], "two effects: %s", order)
		keys[order] = true
	}
	return keys
}

// children are the processes that the gateway has started and that are there.
func children(t *testing.T, parent int) (pids []int) {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	require.NoError(t, err)
	for _, file := range tasks {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // a thread that has ended
		}
		for _, word := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(word)
			require.NoError(t, err)
			pids = append(pids, pid)
		}
	}
	return pids
}

// median is that of how long calls took.
func median(sales []sale) time.Duration {
	if len(sales) == 0 {
		return 0
	}
	slices.SortFunc(sales, func(a, b sale) int { return int(a.took - b.took) })
	return sales[len(sales)/2].took
}

// Who kills one server of three does not disturb the others; of the one itself no call
// has two effects, none is lost without a word, and it comes back.
func TestAKilledServerOfThreeIsAloneInIt(t *testing.T) {
	t.Parallel()
	l := newLoad(t)
	_, err := l.sell("west", "refund:order-first:1")
	require.NoError(t, err)
	var mu sync.Mutex
	var before, during []sale
	killing, done := make(chan struct{}), make(chan struct{})
	enough, enoughDuring := make(chan struct{}), make(chan struct{})
	wait := l.sellUntil(done, func(s sale) {
		mu.Lock()
		defer mu.Unlock()
		select {
		case <-killing:
			if during = append(during, s); len(during) == 300 {
				close(enoughDuring)
			}
		default:
			if before = append(before, s); len(before) == 300 {
				close(enough)
			}
		}
	})
	<-enough
	close(killing)
	for range 5 { // each time the process that had the newest effect
		all, err := upstreamtest.Effects(l.path("west"))
		require.NoError(t, err)
		pid := all[len(all)-1].PID
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		require.NoError(t, repeat("a server that takes its place", func() bool {
			now, err := upstreamtest.Effects(l.path("west"))
			return err == nil && now[len(now)-1].PID != pid
		}))
	}
	<-enoughDuring
	close(done)
	wait()
	l.verdict(slices.Concat(before, during))
	others := func(sales []sale) []sale {
		return slices.DeleteFunc(slices.Clone(sales), func(s sale) bool { return s.shop == "west" })
	}
	t.Logf("the others' median: %v before (%d calls), %v while a server is killed five times (%d calls)",
		median(others(before)), len(others(before)), median(others(during)), len(others(during)))
	back, err := l.sell("west", "refund:order-last:1")
	require.NoError(t, err)
	assert.Equal(t, "COMPLETED", back.outcome)
}

// verdict compares what callers were told with what was done.
func (l *load) verdict(sales []sale) {
	unknown := 0
	for _, shop := range shops {
		done := l.effects(shop)
		for _, s := range sales {
			if s.shop != shop {
				continue
			}
			executed := done[fmt.Sprintf(`{"order":%q,"amount":1}`, s.key)]
			switch {
			case s.outcome == "COMPLETED":
				assert.True(l.t, executed, "%s: %s has no effect", shop, s.key)
			case shop == "west" && s.outcome == "EFFECT_UNKNOWN":
				unknown++
				again, err := l.sell(shop, s.key)
				assert.NoError(l.t, err)
				assert.Equal(l.t, "EFFECT_UNKNOWN", again.outcome)
			case shop == "west" && s.outcome == "FAILED_BEFORE_INPUT":
				assert.False(l.t, executed, "%s: %s has an effect", shop, s.key)
			default:
				assert.Fail(l.t, "an outcome that should not be", "%s: %+v", shop, s)
			}
		}
	}
	l.t.Logf("%d calls, %d of them unknown", len(sales), unknown)
	for _, shop := range shops {
		l.effects(shop) // that of no repeated call has come beside
	}
}

// reloads is how often the configuration changes under load.
const reloads = 100

// A file that changes a hundred times under load loses no call and leaves no process.
func TestAChangedFileLosesNoCall(t *testing.T) {
	t.Parallel()
	l := newLoad(t)
	var answered atomic.Int64
	var mu sync.Mutex
	var sales []sale
	done := make(chan struct{})
	wait := l.sellUntil(done, func(s sale) {
		answered.Add(1)
		mu.Lock()
		defer mu.Unlock()
		sales = append(sales, s)
	})
	for i := range reloads {
		write := l.replace
		if i%2 == 1 {
			write = l.overwrite
		}
		l.configure(fmt.Sprint(i), write)
		if i%10 > 0 { // else it is seen without being told
			require.NoError(t, l.s.cmd.Process.Signal(syscall.SIGHUP))
		}
		seen := answered.Load()
		require.NoError(t, repeat("the file to be taken over", func() bool { return l.taken() > i }))
		require.NoError(t, repeat("calls behind it", func() bool { return answered.Load() > seen+6 }))
	}
	close(done)
	wait()
	for _, s := range sales {
		assert.Equal(t, "COMPLETED", s.outcome, "%s: %s", s.shop, s.key)
	}
	total := 0
	for _, shop := range shops {
		total += len(l.effects(shop))
	}
	assert.Equal(t, int(l.keys.Load()), total, "effects, and keys")
	t.Logf("%d calls over %d changes of the file", len(sales), reloads)
	require.NoError(t, repeat("the replaced servers' end", func() bool { return len(children(t, l.s.cmd.Process.Pid)) == len(shops) }))
	last := children(t, l.s.cmd.Process.Pid)
	require.NoError(t, l.s.stdin.Close())
	status, err := l.s.exit()
	require.NoError(t, err)
	assert.Zero(t, status)
	for _, pid := range last {
		assert.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH, "a process is left")
	}
	assert.Empty(t, slices.DeleteFunc(l.s.inbox, func(m jsonrpc.Message) bool { return strings.HasSuffix(m.Method, "/list_changed") }), "answers to nothing")
}

// taken is how often the log says that a changed file was taken over.
func (l *load) taken() int {
	log, err := os.ReadFile(l.path("gateway.log"))
	require.NoError(l.t, err)
	return strings.Count(string(log), "the changed configuration is taken over")
}
