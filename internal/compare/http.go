package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"
)

// rounds is how often each figure over HTTP is taken, in turn with those that it
// is compared with. The median counts.
const rounds = 3

// proxyWord is the first argument by which this program knows that it is to be the
// plain reverse proxy.
const proxyWord = "reverse-proxy"

// reverseProxy serves the address, and hands everything on to the target. It is
// what the standard library has for that, with nothing set but that it keeps as
// many connections as there are callers.
func reverseProxy(address, target string) error {
	to, err := url.Parse(target)
	if err != nil {
		return err
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: to.Scheme, Host: to.Host}) },
		Transport: keepAlive(),
	}
	return http.ListenAndServe(address, proxy)
}

// A way is one from the callers to the server.
type way struct {
	name  string
	url   string
	keyed bool // it takes keys
}

// overHTTP compares the ways over HTTP at several numbers of callers.
func (b *bench) overHTTP() error {
	ways, stop, err := b.ways()
	defer stop()
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "%s over HTTP\tcallers\tway\tcalls/s\t: direct\tp50\tp99\n", b.era)
	for _, callers := range []int{1, 32, 128} {
		for _, kind := range []string{"reader", "keyed", "replay"} {
			if err := b.compareWays(table, ways, kind, callers); err != nil {
				return err
			}
		}
	}
	return table.Flush()
}

// ways starts the servers. Stop is to be called after an error too.
func (b *bench) ways() (ways []way, stop func(), err error) {
	var running []*exec.Cmd
	stop = func() {
		for _, cmd := range slices.Backward(running) {
			_ = cmd.Process.Signal(os.Interrupt)
			_ = cmd.Wait() // how it ended was not asked
		}
	}
	self, err := os.Executable()
	if err != nil {
		return nil, stop, err
	}
	add := func(name string, keyed bool, command func(address string) []string) {
		if err != nil {
			return
		}
		var w way
		var cmd *exec.Cmd
		w, cmd, err = serve(name, keyed, command)
		if cmd != nil {
			running = append(running, cmd)
		}
		ways = append(ways, w)
	}
	add("direct", false, func(address string) []string { return []string{b.server, "--http", address, "--era", b.era} })
	if err != nil {
		return nil, stop, err
	}
	direct := ways[0].url
	add("ReverseProxy", false, func(address string) []string { return []string{self, proxyWord, address, direct} })
	add("gateway to HTTP", true, func(address string) []string { return b.wrappedHTTP(address, "--url", direct) })
	add("gateway to stdio", true, func(address string) []string { return b.wrappedHTTP(address, "--", b.server) })
	return ways, stop, err
}

func (b *bench) wrappedHTTP(address string, upstream ...string) []string {
	b.ledgers++
	ledger := filepath.Join(b.folder, fmt.Sprint("ledger", b.ledgers), "ledger.db")
	return append([]string{b.gateway, "wrap", "--http", address, "--log-level", "warn", "--name", "compare", "--ledger", ledger}, upstream...)
}

// serve starts a program that serves an address, and returns when it accepts
// connections.
func serve(name string, keyed bool, command func(address string) []string) (way, *exec.Cmd, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return way{}, nil, err
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		return way{}, nil, err
	}
	line := command(address)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return way{}, nil, err
	}
	end := time.Now().Add(10 * time.Second)
	for time.Now().Before(end) {
		if connection, err := net.Dial("tcp", address); err == nil {
			return way{name: name, url: "http://" + address + "/mcp", keyed: keyed}, cmd, connection.Close()
		}
		time.Sleep(10 * time.Millisecond)
	}
	return way{}, cmd, fmt.Errorf("%s does not listen", name)
}

// compareWays takes a figure of each way, and writes a line for each. Where no key
// is taken, keyed calls have none.
func (b *bench) compareWays(table *tabwriter.Writer, ways []way, kind string, callers int) error {
	figures := make([][]figure, len(ways))
	for range rounds {
		b.round++
		for i, w := range ways {
			f, err := b.load(w, kind, callers)
			if err != nil {
				return fmt.Errorf("%s, %s, %d callers: %w", w.name, kind, callers, err)
			}
			figures[i] = append(figures[i], f)
		}
	}
	direct := middle(figures[0])
	for i, w := range ways {
		f := middle(figures[i])
		fmt.Fprintf(table, "%s\t%d\t%s\t%.0f\t%.2f\t%s\t%s\n", kind, callers, w.name, f.perSecond, f.perSecond/direct.perSecond, f.p50, f.p99)
	}
	return nil
}

// load takes one figure, when connections are there and heaps have grown. A replay
// is measured after the calls that it replays.
func (b *bench) load(w way, kind string, callers int) (figure, error) {
	call := reader
	if kind != "reader" {
		key := ""
		if w.keyed {
			key = "refund:invoice-%d:1"
		}
		// An order of an earlier round would be a replay, or a near-duplicate.
		call = func(n int) string { return refund(key)(b.round*b.calls + n) }
	}
	clients, err := dial(w.url, b.era, callers)
	if err != nil {
		return figure{}, err
	}
	defer clients.close()
	first, n := reader, b.calls/2
	if kind == "replay" {
		first, n = call, b.calls
	}
	if _, err := clients.perCall(n, first); err != nil {
		return figure{}, err
	}
	return clients.perCall(b.calls, call)
}

// A figure is how fast calls were.
type figure struct {
	perSecond float64
	p50, p99  time.Duration
}

// middle is the figure with the median throughput.
func middle(figures []figure) figure {
	slices.SortFunc(figures, func(a, b figure) int { return int(a.perSecond - b.perSecond) })
	return figures[len(figures)/2]
}
