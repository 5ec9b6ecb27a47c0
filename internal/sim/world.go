package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mcp-idem/mcp-idem/upstream/upstreamtest"
)

const (
	tool    = "refund"
	callers = 12
	// callTimeout and lateWindow are the gateways': a server that delays its answer
	// for longer than the one is heard within the other.
	callTimeout = 400 * time.Millisecond
	lateWindow  = time.Second
	// waitFor is how long a gateway lets a repeated call wait.
	waitFor = 200 * time.Millisecond
)

// options are the settings of a run.
type options struct {
	program string // mcp-idem
	folder  string // where the run has its files
	lasts   time.Duration
	seed    uint64
	calm    bool // nothing is lost and nobody dies
}

// A world is what there is in a run.
type world struct {
	options
	effects, living, ledger string

	log     *logFile
	remote  *remote
	slots   []*slot
	keys    *keys
	history *history
	person  *person
	counts  counts
}

// counts are what was done to the world.
type counts struct{ gatewayKills, serverKills, stops, gaveUp atomic.Int64 }

// simulate makes one run and judges it. Its error is one of the run itself.
func simulate(ctx context.Context, o options) (r report, err error) {
	w, err := newWorld(o)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, w.end()) }()
	if err := w.storm(ctx); err != nil {
		return r, err
	}
	if err := w.settle(ctx); err != nil {
		return r, err
	}
	effects, err := upstreamtest.Effects(w.effects)
	return judge(w, effects), err
}

func newWorld(o options) (*world, error) {
	w := &world{
		options: o, effects: filepath.Join(o.folder, "effects"), living: filepath.Join(o.folder, "living"),
		ledger: filepath.Join(o.folder, "ledger.db"), keys: &keys{}, history: newHistory(),
	}
	w.person = newPerson(w)
	if err := os.Mkdir(w.living, 0o700); err != nil {
		return nil, err
	}
	f, err := os.Create(filepath.Join(o.folder, "log"))
	if err != nil {
		return nil, err
	}
	w.log = &logFile{f: f}
	if w.remote, err = startRemote(w, newWeather(o.seed, 1, o.calm)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	for i, kind := range []kind{onStdio, onStdio, onHTTP, beforeRemote} {
		s := &slot{world: w, kind: kind, weather: newWeather(o.seed, uint64(10+i), o.calm)}
		w.slots = append(w.slots, s)
		if err := s.start(); err != nil {
			return nil, errors.Join(err, w.end())
		}
	}
	return w, nil
}

// storm lets everybody do what they do, as long as the weather lasts.
func (w *world) storm(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.lasts)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	for i := range callers {
		c := caller{world: w, random: newWeather(w.seed, uint64(100+i), w.calm).random}
		group.Go(func() error { return c.call(ctx) })
	}
	group.Go(func() error { return newWeather(w.seed, 2, w.calm).blow(ctx, w) })
	group.Go(func() error { return w.person.work(ctx) })
	return group.Wait()
}

// settle ends all gateways and servers, has the person settle what is unknown, and
// calls once more under each key, in fair weather.
func (w *world) settle(ctx context.Context) error {
	w.endAll()
	w.calm = true
	last := &slot{world: w, kind: onStdio, weather: newWeather(w.seed, 3, true)}
	w.slots = []*slot{last}
	if err := last.start(); err != nil {
		return err
	}
	c := caller{world: w, random: newWeather(w.seed, 4, true).random}
	for key := range w.keys.used() {
		if err := c.finish(ctx, last.current(), key); err != nil {
			return err
		}
	}
	return nil
}

// endAll kills whatever runs, and waits until no server is left.
func (w *world) endAll() {
	for _, s := range w.slots {
		s.stop()
	}
	w.slots = nil
	if w.remote != nil {
		w.remote.stop()
		w.remote = nil
	}
}

func (w *world) end() error {
	w.endAll()
	return w.log.f.Close()
}

// A kind of gateway says how its client and its server reach it.
type kind int

const (
	onStdio      kind = iota
	onHTTP            // its clients come by HTTP
	beforeRemote      // its server is reached by HTTP, and shared
)

// A slot is a place that one gateway after the other has.
type slot struct {
	world   *world
	kind    kind
	weather *weather

	mu  sync.Mutex
	now *gateway // nil: none
}

// start starts a gateway in the place.
func (s *slot) start() error {
	g, err := s.launch()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = g
	return nil
}

func (s *slot) launch() (*gateway, error) {
	w := s.world
	args := []string{
		"wrap", "--ledger", w.ledger, "--name", "refunds", "--namespace", "sim", "--account", "sim", "--log-format", "json",
		"--call-timeout", callTimeout.String(), "--late-window", lateWindow.String(), "--wait", waitFor.String(),
	}
	if s.kind == onHTTP {
		args = append(args, "--http", "127.0.0.1:0")
	}
	if s.kind == beforeRemote {
		return startStdio(command(w.program, append(args, "--trust-annotations", "yes", "--url", w.remote.url)...), w.log)
	}
	server, err := w.server(s.weather, faultsOfAll)
	if err != nil {
		return nil, err
	}
	cmd := command(w.program, append(append(args, "--"), server...)...)
	if s.kind == onHTTP {
		return startHTTP(cmd, w.log)
	}
	return startStdio(cmd, w.log)
}

// server is the command line of a scripted server.
func (w *world) server(weather *weather, choice []string, flags ...string) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	calls, err := callsSoFar(w.effects)
	line := append([]string{self, serverWord, w.living, "--effects", w.effects}, flags...)
	return append(line, weather.faults(calls, choice)...), err
}

// current is the gateway of the moment, nil where there is none.
func (s *slot) current() *gateway {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// replace kills the gateway, and starts another a little later.
func (s *slot) replace(after time.Duration) error {
	s.stop()
	_ = pause(context.Background(), after)
	if err := s.start(); err != nil {
		return fmt.Errorf("the next gateway: %w", err)
	}
	return nil
}

// freeze stops the gateway for a while: it is not dead.
func (s *slot) freeze(ctx context.Context, d time.Duration) {
	if g := s.current(); g != nil && stopProcess(g.cmd.Process) == nil {
		_ = pause(ctx, d)
		_ = continueProcess(g.cmd.Process)
	}
}

func (s *slot) stop() {
	s.mu.Lock()
	g := s.now
	s.now = nil
	s.mu.Unlock()
	if g != nil {
		g.kill()
	}
}
