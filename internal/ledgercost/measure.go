package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/dedup/sqlite"
	"github.com/mcp-idem/mcp-idem/dedup/sqlite/sqlitetest"
)

// sampled is how many operations of a large ledger are looked up, each once, so that
// no cache knows them.
const sampled = 2000

// A ledger is a file to measure.
type ledger struct {
	path   string
	filled int // operations that Fill made
	calls  int // for each figure
}

// measure takes all figures of a ledger, in the same order for every ledger.
func (l ledger) measure() (f figures, err error) {
	perOperation := -1.0
	if info, err := os.Stat(l.path); err == nil && l.filled > 0 {
		perOperation = float64(info.Size()) / float64(l.filled)
	}
	began := time.Now()
	opened, err := l.open(false)
	if err != nil {
		return nil, err
	}
	if _, _, err := opened.Look(context.Background(), request("none")); err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	f.add("from start to the first look", micros, float64(time.Since(began).Microseconds()))
	err = errors.Join(l.inOneProcess(opened, &f), opened.Close())
	if err != nil {
		return nil, err
	}
	if err := l.unsynced(&f); err != nil {
		return nil, err
	}
	if err := l.inProcesses(&f); err != nil {
		return nil, err
	}
	if err := l.strangers(&f); err != nil {
		return nil, err
	}
	f.add("bytes for an operation whose answer is dropped", size, perOperation)
	f.add("resident memory at the end", mebibyte, resident())
	return f, nil
}

func (l ledger) open(unsynced bool) (*dedup.Ledger, error) {
	store, err := sqlite.Open(l.path, sqlite.Options{Unsynced: unsynced})
	if err != nil {
		return nil, err
	}
	return dedup.New(context.Background(), store, dedup.Options{})
}

// callersMeasured are the numbers of callers in one process.
var callersMeasured = []int{1, 8, 64, 512}

func (l ledger) inOneProcess(opened *dedup.Ledger, f *figures) error {
	for _, callers := range callersMeasured {
		took, err := together(callers, l.calls, func(n int) error { return pair(opened, fmt.Sprintf("%d:%d", callers, n)) })
		if err != nil {
			return err
		}
		f.add(fmt.Sprintf("claim and answer, %d callers", callers), micros, took)
	}
	first := callersMeasured[0]
	for _, look := range []struct {
		name string
		ask  func(n int) dedup.Request
		want func(dedup.Verdict) bool
	}{
		{"look-up of an unknown key", func(n int) dedup.Request { return request(fmt.Sprint("unknown", n)) }, func(v dedup.Verdict) bool { return v == nil }},
		{"replay", func(n int) dedup.Request { return request(fmt.Sprintf("%d:%d", first, n)) }, is[dedup.Replay]},
		{"refusal of a near-duplicate", func(n int) dedup.Request {
			r := request(fmt.Sprint("twin", n))
			r.Fingerprint = request(fmt.Sprintf("%d:%d", first, n)).Fingerprint
			return r
		}, is[dedup.Duplicate]},
	} {
		took, err := together(1, l.calls, func(n int) error {
			v, _, err := opened.Look(context.Background(), look.ask(n))
			if err == nil && !look.want(v) {
				err = fmt.Errorf("%s: %T", look.name, v)
			}
			return err
		})
		if err != nil {
			return err
		}
		f.add(look.name, micros, took)
	}
	return nil
}

func is[V dedup.Verdict](v dedup.Verdict) bool {
	_, ok := v.(V)
	return ok
}

// unsynced compares with a ledger that syncs nothing, the two in turn and the median
// of each.
func (l ledger) unsynced(f *figures) error {
	const callers, rounds = 64, 3
	var took [2][]float64
	for round := range rounds {
		for i, unsynced := range []bool{false, true} {
			opened, err := l.open(unsynced)
			if err != nil {
				return err
			}
			t, err := together(callers, l.calls, func(n int) error { return pair(opened, fmt.Sprintf("%t%d:%d", unsynced, round, n)) })
			if err := errors.Join(err, opened.Close()); err != nil {
				return err
			}
			took[i] = append(took[i], t)
		}
	}
	f.add(fmt.Sprintf("throughput : that with synchronous=OFF, %d callers", callers), share, middle(took[1])/middle(took[0]))
	return nil
}

// strangers looks up operations that were written long ago.
func (l ledger) strangers(f *figures) error {
	took := -1.0
	if l.filled > 0 {
		queries, err := sqlitetest.Sample(l.path, sampled)
		if err != nil {
			return err
		}
		store, err := sqlite.Open(l.path, sqlite.Options{})
		if err != nil {
			return err
		}
		took, err = together(1, len(queries), func(n int) error {
			around, err := store.Find(context.Background(), queries[n])
			if err == nil && around.Same == nil {
				err = errors.New("an operation of the ledger was not found")
			}
			return err
		})
		if err := errors.Join(err, store.Close()); err != nil {
			return err
		}
	}
	f.add("look-up of an old operation, the first time", micros, took)
	return nil
}

func middle(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
