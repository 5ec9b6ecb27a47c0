package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// body is what every call is answered with.
var body = []byte(`{"content":[{"type":"text","text":"` + strings.Repeat("x", 300) + `"}]}`)

// request is a call as a gateway asks the ledger about it. Calls of two keys have
// different arguments.
func request(key string) dedup.Request {
	parsed, err := dedup.ParseKey("refund:invoice-"+key+":1", "refund")
	if err != nil {
		panic(err) // the key was made here
	}
	return dedup.Request{
		Scope: dedup.Scope{Namespace: "ada", Upstream: "shop", Account: "/srv", Tool: "refund"},
		Key:   parsed, Fingerprint: sha256.Sum256([]byte(key)), FingerprintVersion: 1,
		Class: "NON_RETRYABLE", Window: 24 * time.Hour, Near: dedup.Near{Mode: dedup.NearConfirm, Within: 10 * time.Minute},
		Provenance: []byte(`{"client":"ledgercost 1","request_id":1,"carrier":"model"}`),
	}
}

// pair makes a keyed call, but for the call: look, claim, record the answer. Each run
// of the program has keys of its own.
func pair(l *dedup.Ledger, key string) error {
	r := request(key)
	if v, found, err := l.Look(context.Background(), r); found || err != nil {
		return errors.Join(err, fmt.Errorf("look: %T", v))
	}
	v, err := l.Begin(context.Background(), r)
	if err != nil {
		return err
	}
	lease, ok := v.(*dedup.Lease)
	if !ok {
		return fmt.Errorf("claim: %T", v)
	}
	_, err = lease.Complete(dedup.Answer{Evidence: dedup.AnsweredResult, Body: body})
	return err
}

// together makes calls by several callers at once, and returns how many microseconds
// of wall time there were to each.
func together(callers, calls int, call func(n int) error) (float64, error) {
	var next atomic.Int64
	var all sync.WaitGroup
	errs := make([]error, callers)
	began := time.Now()
	for i := range callers {
		all.Go(func() {
			for n := int(next.Add(1)) - 1; n < calls && errs[i] == nil; n = int(next.Add(1)) - 1 {
				errs[i] = call(n)
			}
		})
	}
	all.Wait()
	return float64(time.Since(began).Microseconds()) / float64(calls), errors.Join(errs...)
}

// syncTime is how long it takes to make durable what a commit writes, into a file that
// does not grow: the median of many.
func syncTime(folder string) (time.Duration, error) {
	const size, times = 16 << 10, 201
	f, err := os.Create(folder + "/sync")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var took []float64
	for i := range 2 * times {
		began := time.Now()
		if _, err := f.WriteAt(make([]byte, size), int64(i%times)*size); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		if i >= times {
			took = append(took, float64(time.Since(began)))
		}
	}
	return time.Duration(middle(took)).Round(time.Microsecond), nil
}

// resident is this process's memory in MiB, as Linux counts it; negative elsewhere.
func resident() float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return -1
	}
	var kib float64
	for line := range strings.Lines(string(status)) {
		_, _ = fmt.Sscanf(line, "VmRSS: %f", &kib) // the other lines are none
	}
	return kib / 1024
}
