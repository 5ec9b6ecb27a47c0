// Command compare measures what a call costs through the gateway over a direct
// call, in one run on one machine, with real processes:
//
//	go run ./internal/compare [--calls N] [--only stdio|http] [--era legacy|modern]
//
// It prints ratios; the absolute figures are of the machine. Over stdio, the
// fsyncs are counted with strace, where there is one. Over HTTP the gateway is
// compared with a plain httputil.ReverseProxy too, before the same server.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"
)

func main() {
	if len(os.Args) == 4 && os.Args[1] == proxyWord {
		fmt.Fprintln(os.Stderr, reverseProxy(os.Args[2], os.Args[3]))
		os.Exit(1)
	}
	calls := flag.Int("calls", 2000, "calls for each figure")
	only := flag.String("only", "", "compare over `stdio` or http alone")
	era := flag.String("era", "legacy", "speak this era over HTTP, `legacy` or modern")
	flag.Parse()
	if err := run(*calls, *only, *era); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func run(calls int, only, era string) error {
	folder, err := os.MkdirTemp("", "mcp-idem-compare")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	b := bench{folder: folder, calls: calls, era: era, gateway: filepath.Join(folder, "mcp-idem"), server: filepath.Join(folder, "scripted")}
	for _, build := range [][2]string{{b.gateway, "./cmd/mcp-idem"}, {b.server, "./upstream/upstreamtest/cmd/scripted"}} {
		if out, err := exec.Command("go", "build", "-o", build[0], build[1]).CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w: %s", build[1], err, out)
		}
	}
	fmt.Printf("%s, %s/%s, %d cores, %s\n\n", time.Now().UTC().Format(time.DateOnly), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
	for _, part := range []struct {
		over    string
		compare func() error
	}{{"stdio", b.costs}, {"stdio", b.start}, {"stdio", b.memory}, {"stdio", b.syncs}, {"http", b.overHTTP}} {
		if only != "" && only != part.over {
			continue
		}
		if err := part.compare(); err != nil {
			return err
		}
		fmt.Println()
	}
	return nil
}

// A bench is the programs to measure and the folder to do it in.
type bench struct {
	folder, gateway, server string
	era                     string // that callers speak over HTTP
	calls                   int
	ledgers                 int
	round                   int // of figures over HTTP; each has orders of its own
}

// direct and wrapped are the command lines to compare. Each wrapped one has a
// ledger of its own.
func (b *bench) direct() []string { return []string{b.server} }

func (b *bench) wrapped() []string {
	b.ledgers++
	ledger := filepath.Join(b.folder, fmt.Sprint("ledger", b.ledgers), "ledger.db")
	return []string{b.gateway, "wrap", "--log-level", "warn", "--ledger", ledger, "--", b.server}
}

// costs compares a reader, a keyed call and a replay with the direct call.
func (b *bench) costs() error {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "call\tcallers\tdirect/call\tgateway/call\tgateway : direct\tadded/call")
	for _, callers := range []int{1, 32} {
		direct, err := open(b.direct())
		if err != nil {
			return err
		}
		wrapped, err := open(b.wrapped())
		if err != nil {
			return err
		}
		readDirect := direct.perCall(b.calls, callers, reader)
		writeDirect := direct.perCall(b.calls, callers, refund(""))
		for _, figure := range []struct {
			name            string
			direct, wrapped time.Duration
		}{
			{"reader", readDirect, wrapped.perCall(b.calls, callers, reader)},
			{"keyed", writeDirect, wrapped.perCall(b.calls, callers, refund("refund:invoice-%d:1"))},
			{"replay", writeDirect, wrapped.perCall(b.calls, callers, refund("refund:invoice-%d:1"))},
		} {
			fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%.2f\t%s\n", figure.name, callers, figure.direct, figure.wrapped,
				float64(figure.wrapped)/float64(figure.direct), figure.wrapped-figure.direct)
		}
		direct.close()
		wrapped.close()
	}
	return table.Flush()
}

// start compares the time from the start of the process to the first tools/list.
func (b *bench) start() error {
	const runs = 15
	median := func(command func() []string) (time.Duration, error) {
		var took []time.Duration
		for range runs {
			began := time.Now()
			s, err := open(command())
			if err != nil {
				return 0, err
			}
			s.request(`"method":"tools/list"`)
			took = append(took, time.Since(began))
			s.close()
		}
		slices.Sort(took)
		return took[runs/2], nil
	}
	direct, err := median(b.direct)
	if err != nil {
		return err
	}
	wrapped, err := median(b.wrapped)
	if err != nil {
		return err
	}
	_, err = fmt.Printf("start to first tools/list (median of %d): direct %s, gateway %s with a new ledger, added %s\n", runs, direct, wrapped, wrapped-direct)
	return err
}

// memory reads the gateway's resident memory when idle, and after load.
func (b *bench) memory() error {
	s, err := open(b.wrapped())
	if err != nil {
		return err
	}
	defer s.close()
	s.request(`"method":"tools/list"`)
	idle, err := resident(s.cmd.Process.Pid)
	if err != nil {
		return err
	}
	s.perCall(b.calls, 32, refund("refund:invoice-%d:1"))
	loaded, err := resident(s.cmd.Process.Pid)
	if err != nil {
		return err
	}
	_, err = fmt.Printf("resident memory: %s idle, %s after %d calls at 32 callers\n", idle, loaded, b.calls)
	return err
}

// syncs counts the fsyncs of keyed calls at one caller and at 64.
func (b *bench) syncs() error {
	strace, err := exec.LookPath("strace")
	if err != nil {
		_, err = fmt.Println("fsyncs: not counted, there is no strace")
		return err
	}
	for _, callers := range []int{1, 64} {
		before, err := b.countSyncs(strace, callers, 0)
		if err != nil {
			return err
		}
		calls := b.calls / 2
		after, err := b.countSyncs(strace, callers, calls)
		if err != nil {
			return err
		}
		fmt.Printf("fsyncs per keyed call at %d callers: %.3f\n", callers, float64(after-before)/float64(calls))
	}
	return nil
}

func (b *bench) countSyncs(strace string, callers, calls int) (int, error) {
	log := filepath.Join(b.folder, "strace.log")
	command := append([]string{strace, "-f", "--seccomp-bpf", "-qq", "-e", "trace=fsync,fdatasync", "-e", "signal=none", "-o", log}, b.wrapped()...)
	s, err := open(command)
	if err != nil {
		return 0, err
	}
	s.request(`"method":"tools/list"`)
	if calls > 0 {
		s.perCall(calls, callers, refund("refund:invoice-%d:1"))
	}
	s.close()
	return countLines(log)
}
