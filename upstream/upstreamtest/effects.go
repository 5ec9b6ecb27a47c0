package upstreamtest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// poll is how often a file that something waits for is looked at.
const poll = 2 * time.Millisecond

// An Effect is one line of the file of effects.
type Effect struct {
	Tool      string
	Arguments []byte // raw, as the call had them
	Call      int    // the number of the call, over all tools and restarts
	PID       int    // of the server
	At        time.Time
}

// Effects returns what the server has done so far. A file that does not exist
// has none; a last line without its end is an error.
func Effects(file string) ([]Effect, error) {
	data, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	var effects []Effect
	for line := range bytes.Lines(data) {
		effect, err := parseEffect(line)
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", file, len(effects)+1, err)
		}
		effects = append(effects, effect)
	}
	return effects, nil
}

func parseEffect(line []byte) (e Effect, err error) {
	object, err := rawjson.ParseObject(line)
	if err != nil {
		return e, err
	}
	e.Tool, _ = object.String("tool")
	e.Arguments, _ = object.Get("arguments")
	for name, number := range map[string]*int{"call": &e.Call, "pid": &e.PID} {
		raw, _ := object.Get(name)
		if *number, err = strconv.Atoi(string(raw)); err != nil {
			return e, fmt.Errorf("%s: %w", name, err)
		}
	}
	at, _ := object.String("at")
	e.At, err = time.Parse(time.RFC3339Nano, at)
	return e, err
}

// line writes the effect as a line of JSON.
func (e Effect) line() []byte {
	return jsonrpc.Line(fmt.Appendf(nil, `{"tool":%s,"call":%d,"pid":%d,"at":"%s","arguments":%s}`,
		rawjson.Quote(e.Tool), e.Call, e.PID, e.At.UTC().Format(time.RFC3339Nano), e.Arguments))
}

// WaitForFile waits until the file exists and fails the test when it does not
// within ten seconds.
func WaitForFile(t testing.TB, elements ...string) {
	t.Helper()
	file := filepath.Join(elements...)
	wait(t, "the file "+file, func() bool {
		_, err := os.Stat(file)
		return err == nil
	})
}

// WaitForEffects waits until the file has at least n effects, returns them all,
// and fails the test when that takes more than ten seconds.
func WaitForEffects(t testing.TB, file string, n int) (effects []Effect) {
	t.Helper()
	wait(t, fmt.Sprintf("%d effects in %s", n, file), func() bool {
		var err error
		effects, err = Effects(file)
		return err == nil && len(effects) >= n
	})
	return effects
}

// Open opens the gate of that name in the folder that the server was given.
func Open(t testing.TB, dir, gate string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, gate), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func wait(t testing.TB, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	end := time.After(10 * time.Second)
	for !done() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// A tally counts the calls in a file, so that the count outlives a restart. The
// file may be none.
type tally struct {
	file   string
	mu     sync.Mutex
	total  int
	byTool map[string]int
}

func newTally(effects string) (*tally, error) {
	t := &tally{byTool: map[string]int{}}
	if effects == "" {
		return t, nil
	}
	t.file = effects + ".calls"
	data, err := os.ReadFile(t.file)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	for line := range bytes.Lines(data) {
		t.total++
		t.byTool[string(bytes.TrimSpace(line))]++
	}
	return t, nil
}

// count counts one call and returns its number over all tools and of its tool.
func (t *tally) count(tool string) (total, nth int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.total++
	t.byTool[tool]++
	if t.file != "" {
		err = appendTo(t.file, []byte(tool+"\n"), false)
	}
	return t.total, t.byTool[tool], err
}

func appendTo(file string, line []byte, sync bool) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Write(line); err != nil || !sync {
		return err
	}
	return f.Sync()
}
