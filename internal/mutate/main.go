// Command mutate changes the ledger's state machine one place at a time and asks
// whether the tests of package dedup notice. A change that they do not notice is
// a rule that no test holds.
//
// From the root of the module:
//
//	go run ./internal/mutate                    all of it, for some minutes
//	go run ./internal/mutate --file judge.go    one file
//	go run ./internal/mutate --max 40           40 changes, spread evenly
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// settings say what is changed and how it is tested.
type settings struct {
	files    []string
	max      int
	parallel int
	timeout  time.Duration
	skip     string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, parse()); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func parse() settings {
	s := settings{files: []string{"state.go", "judge.go", "settle.go", "lease.go", "resolve.go"}}
	file := flag.String("file", "", "change only these files of package dedup, separated by commas")
	flag.IntVar(&s.max, "max", 0, "make at most so many changes, spread evenly; 0: all")
	flag.IntVar(&s.parallel, "parallel", 2, "how many changes are tested at once")
	flag.DurationVar(&s.timeout, "timeout", time.Minute, "how long the tests of one change may take; longer counts as noticed")
	flag.StringVar(&s.skip, "skip", "SQLite", "tests that are left out, since they sync to disk")
	flag.Parse()
	if *file != "" {
		s.files = strings.Split(*file, ",")
	}
	return s
}

func run(ctx context.Context, s settings) error {
	mutants, err := collect(s.files)
	if err != nil {
		return err
	}
	mutants = spread(mutants, s.max)
	work := make(chan mutant)
	results := make(chan result)
	var workers sync.WaitGroup
	for range max(s.parallel, 1) {
		bench, err := newBench(ctx, s)
		if err != nil {
			return err
		}
		defer bench.remove()
		workers.Go(func() {
			for m := range work {
				results <- bench.try(ctx, m)
			}
		})
	}
	go func() {
		for _, m := range mutants {
			work <- m
		}
		close(work)
		workers.Wait()
		close(results)
	}()
	return report(results)
}

// collect finds the places to change in files of package dedup.
func collect(files []string) (all []mutant, err error) {
	for _, file := range files {
		path := filepath.Join("dedup", file)
		source, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("run this from the root of the module: %w", err)
		}
		mutants, err := mutate(path, source)
		if err != nil {
			return nil, err
		}
		all = append(all, mutants...)
	}
	return all, nil
}

// spread chooses at most n of the mutants, evenly.
func spread(all []mutant, n int) (some []mutant) {
	if n <= 0 || n >= len(all) {
		return all
	}
	for i := range n {
		some = append(some, all[i*len(all)/n])
	}
	return some
}

// report prints each change that the tests did not notice, and the score.
func report(results <-chan result) (err error) {
	count := map[verdict]int{}
	for r := range results {
		if r.err != nil {
			err = r.err // the others end too, each for itself
			continue
		}
		count[r.verdict]++
		if r.verdict != unbuildable {
			fmt.Printf("%-8s  %s\n", r.verdict, r.mutant)
		}
	}
	if err != nil {
		return err
	}
	tried := count[killed] + count[survived]
	if tried == 0 {
		return fmt.Errorf("nothing could be changed")
	}
	fmt.Printf("\n%d of %d changes noticed (%.1f %%), %d survived, %d did not build\n",
		count[killed], tried, 100*float64(count[killed])/float64(tried), count[survived], count[unbuildable])
	return nil
}
