// Command ledgercost measures what the ledger costs, in one run on one machine:
//
//	go run ./internal/ledgercost [--operations N] [--calls N] [--folder DIR]
//
// It compares a new ledger with one of N operations, and prints a line for each
// figure. Ratios say something; the absolute figures are of the machine and of what
// else runs on it. Fsyncs are counted with strace, where there is one.
//
// The large ledger is made in --folder, where it stays for the next run, which works
// on a copy; else in a temporary folder. Either needs some 1500 bytes for an operation.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"text/tabwriter"
	"time"

	"github.com/mcp-idem/mcp-idem/dedup/sqlite/sqlitetest"
)

func main() {
	if os.Getenv(childVariable) != "" {
		exitOn(runChild(os.Args[1:]))
		return
	}
	operations := flag.Int("operations", 1_000_000, "size of the large ledger")
	calls := flag.Int("calls", 10_000, "calls for each figure")
	folder := flag.String("folder", "", "where the ledgers are made, on the `disk` to measure")
	flag.Parse()
	exitOn(run(*folder, *operations, *calls))
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "ledgercost:", err)
		os.Exit(1)
	}
}

func run(folder string, operations, calls int) error {
	temporary, err := os.MkdirTemp(folder, "ledgercost")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	if folder == "" {
		folder = temporary
	}
	large := filepath.Join(folder, fmt.Sprintf("ledger-%d.db", operations))
	if _, err := os.Stat(large); err != nil {
		if err := sqlitetest.Fill(large, operations); err != nil {
			return err
		}
	}
	if large, err = copied(large, temporary); err != nil {
		return err
	}
	var all [2]figures
	for i, l := range []ledger{{path: filepath.Join(temporary, "new.db"), calls: calls}, {path: large, filled: operations, calls: calls}} {
		if all[i], err = l.measure(); err != nil {
			return err
		}
	}
	sync, err := syncTime(temporary)
	if err != nil {
		return err
	}
	fmt.Printf("%s, %s/%s, %d cores, %s; a sync of 16 KiB takes %s here\n\n",
		time.Now().UTC().Format(time.DateOnly), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(), sync)
	return print(all, operations)
}

// copied copies a ledger that nobody uses into a folder.
func copied(path, folder string) (string, error) {
	from, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer from.Close()
	to, err := os.OpenFile(filepath.Join(folder, "large.db"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(to, from)
	return to.Name(), errors.Join(err, to.Sync(), to.Close())
}

// print writes a line for each figure of the new ledger, with that of the large one
// beside it.
func print(all [2]figures, operations int) error {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "\tnew ledger\t%d operations\t: new\n", operations)
	for i, f := range all[0] {
		large := all[1][i].value
		fmt.Fprintf(table, "%s\t%s\t%s\t", f.name, f.unit.text(f.value), f.unit.text(large))
		if f.value > 0 && large > 0 {
			fmt.Fprintf(table, "%.2f", large/f.value)
		}
		fmt.Fprintln(table)
	}
	return table.Flush()
}

// A figure is one measurement.
type figure struct {
	name  string
	unit  unit
	value float64 // negative: it could not be measured
}

type figures []figure

func (f *figures) add(name string, u unit, value float64) { *f = append(*f, figure{name, u, value}) }

// A unit says how a figure is written.
type unit string

const (
	micros   unit = "%.0f µs"
	perCall  unit = "%.3f"
	share    unit = "%.2f"
	size     unit = "%.0f B"
	mebibyte unit = "%.0f MiB"
)

func (u unit) text(value float64) string {
	if value < 0 {
		return "-"
	}
	return fmt.Sprintf(string(u), value)
}
