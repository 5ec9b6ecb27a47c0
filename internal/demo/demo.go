// Package demo is the experiment behind mcp-idem, with real processes: many
// callers ask an upstream for refunds, and it loses some of its answers. First
// they call it straight, then through the gateway, which is killed on the way.
// The upstream's own book says afterwards how many refunds were made.
//
//	demo.go        the two runs
//	upstream.go    the bundled upstream: commits refunds, loses answers
//	book.go        the file of its refunds, and which answers are lost
//	connection.go  an MCP client that connects again
//	caller.go      those who want a refund for each order
//	operator.go    who settles what the gateway calls EFFECT_UNKNOWN
//	killer.go      who kills the gateway
//	progress.go    what is shown meanwhile
//	report.go      what is counted and shown at the end
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/mcp-idem/mcp-idem/internal/filelock"
)

// MaxCalls is the largest experiment.
const MaxCalls = 1_000_000

// callTimeout is how long the gateway waits for the upstream: less than its
// callers wait for it, so that they hear EFFECT_UNKNOWN in place of nothing.
const callTimeout = 200 * time.Millisecond

const (
	// endWithin is how long an upstream may take to end after its input has.
	endWithin = 10 * time.Second
	// lookAgain is how often it is looked whether it has ended.
	lookAgain = 5 * time.Millisecond
)

// Options are the settings of the experiment.
type Options struct {
	Program string  // the path of mcp-idem
	Calls   int     // refunds that are wanted, each of another order; 1 to MaxCalls
	Loss    float64 // the share of answers that is lost, from 0 to less than 1
	Seed    uint64  // of the losses and the kills
	Keep    bool    // leave the files, and say where they are
	Out     io.Writer
	// Progress gets a bar if ProgressIsTerminal, else a line for every tenth.
	Progress           io.Writer
	ProgressIsTerminal bool
}

// Validate says what is wrong with the options, by the names of the flags.
func (o Options) Validate() error {
	if o.Calls < 1 || o.Calls > MaxCalls {
		return fmt.Errorf("--calls: %d is not from 1 to %d", o.Calls, MaxCalls)
	}
	return ValidateLoss(o.Loss)
}

// ValidateLoss says what is wrong with a share of lost answers.
func ValidateLoss(share float64) error {
	if !(share >= 0 && share < 1) { // NaN is neither
		return fmt.Errorf("--loss: %v is not from 0 to less than 1; give for instance 0.3", share)
	}
	return nil
}

// ErrInterrupted is returned by Run when its context ended.
var ErrInterrupted = errors.New("the demo was interrupted")

// Run makes the experiment and prints what came of it. It fails if the protected
// run has a duplicate or a missing refund, and if the experiment cannot be made.
// When it returns, its processes have ended, and its files are removed unless
// they are to be kept.
func Run(ctx context.Context, o Options) (err error) {
	if err := o.Validate(); err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "mcp-idem-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.leave(folder)) }()
	e := experiment{Options: o, folder: folder}
	err = e.run(ctx)
	if ctx.Err() != nil {
		return ErrInterrupted
	}
	return err
}

// leave removes the files, or says where they are.
func (o Options) leave(folder string) error {
	if !o.Keep {
		return os.RemoveAll(folder)
	}
	_, err := fmt.Fprintf(o.Out, "The files are in %s\n", folder)
	return err
}

type experiment struct {
	Options
	folder string
}

func (e *experiment) run(ctx context.Context) error {
	_, err := fmt.Fprintf(e.Out, "%s, %v of the answers lost, seed %d\n", count(e.Calls, "refund"), e.Loss, e.Seed)
	if err != nil {
		return err
	}
	straight, err := e.straight(ctx)
	if err != nil {
		return fmt.Errorf("the straight run: %w", err)
	}
	protected, err := e.protected(ctx)
	if err != nil {
		return fmt.Errorf("the protected run: %w", err)
	}
	if err := printFindings(e.Out, straight, protected); err != nil {
		return err
	}
	return protected.verdict()
}

// straight lets the callers call the upstream themselves.
func (e *experiment) straight(ctx context.Context) (finding, error) {
	const name = "straight"
	return e.observe(ctx, name, e.upstreamCommand(name), func(l *line, p *progress) (finding, error) {
		c := straightCaller{line: l, done: p.oneMore}
		return finding{}, forEachOrder(ctx, e.Calls, c.refund)
	})
}

// protected lets the same callers call through the gateway.
func (e *experiment) protected(ctx context.Context) (finding, error) {
	const name = "protected"
	return e.observe(ctx, name, e.gatewayCommand(name), func(l *line, p *progress) (finding, error) {
		counts := &counts{}
		k := &killer{kill: l.kill, moments: momentsOf(e.Seed, e.Calls)}
		c := protectedCaller{
			line: l, counts: counts, operator: newOperator(l, e.Program, e.ledger(), counts),
			done: func() { p.oneMore(); k.oneMore() },
		}
		err := forEachOrder(ctx, e.Calls, c.refund)
		return finding{counts: counts, kills: k.kills}, err
	})
}

// observe makes a run against the server of a command, and counts the effects
// once all its processes have ended.
func (e *experiment) observe(ctx context.Context, name string, command []string, run func(*line, *progress) (finding, error)) (f finding, err error) {
	log, err := os.Create(filepath.Join(e.folder, name+".log"))
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	p := newProgress(e.Progress, e.ProgressIsTerminal, name, e.Calls)
	l := &line{life: ctx, command: command, log: log}
	began := time.Now()
	f, err = run(l, p)
	f.took = time.Since(began)
	p.end()
	l.close()
	if err := errors.Join(err, awaitEnd(e.book(name))); err != nil {
		return f, err
	}
	refunds, err := readBook(e.book(name))
	f.tally = tallyOf(refunds, e.Calls)
	return f, err
}

// awaitEnd waits until no upstream has the book open. The server that fed the last
// one has ended, so that it finds the end of its input.
func awaitEnd(path string) error {
	f, err := os.OpenFile(lockPath(path), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for limit := time.Now().Add(endWithin); ; {
		held, err := filelock.Held(f)
		if err == nil && held && time.Now().After(limit) {
			err = fmt.Errorf("an upstream still has %s open, %s after the end of its input", path, endWithin)
		}
		if err != nil || !held {
			return errors.Join(err, f.Close())
		}
		<-tick.C
	}
}

func (e *experiment) book(run string) string { return filepath.Join(e.folder, run+".jsonl") }
func (e *experiment) ledger() string         { return filepath.Join(e.folder, "ledger.db") }

func (e *experiment) upstreamCommand(run string) []string {
	return []string{
		e.Program, "demo", "upstream", "--refunds", e.book(run),
		"--loss", strconv.FormatFloat(e.Loss, 'g', -1, 64), "--seed", strconv.FormatUint(e.Seed, 10),
	}
}

// gatewayCommand is the gateway before the upstream. With a late window the
// operator would have to wait for its end; without, an attempt is closed when its
// caller is told.
func (e *experiment) gatewayCommand(run string) []string {
	gateway := []string{
		e.Program, "wrap", "--ledger", e.ledger(), "--name", "refunds", "--namespace", "demo", "--account", "demo",
		"--call-timeout", callTimeout.String(), "--late-window", "0", "--",
	}
	return append(gateway, e.upstreamCommand(run)...)
}
