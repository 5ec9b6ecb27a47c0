package dedup_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// A story is what happens to some calls through a gateway whose store may fail
// once, and an upstream that counts effects by key.
type story struct {
	*bench
	t       *testing.T
	name    string
	effects map[string]int
}

// The keys of a story, named for what happens to their first call.
var storyKeys = []string{"answered", "unsent-first", "late-answer", "lost-before-effect", "lost-after-effect", "owner-crashes"}

func (w *story) tell() {
	w.call("answered", w.answered)
	w.call("unsent-first", func(_ string, l *dedup.Lease) { _, _ = l.Release(proof(2)) })
	w.call("unsent-first", w.answered)
	w.call("late-answer", func(key string, l *dedup.Lease) {
		w.effects[key]++
		_, late, _ := l.Strand(dedup.Stranding{Evidence: dedup.NoAnswer, OpenFor: lateness})
		w.check()
		if late != nil {
			_, _ = late.Complete(dedup.Answer{Evidence: dedup.AnsweredResult, Body: []byte(key)})
		}
	})
	w.call("lost-before-effect", func(_ string, l *dedup.Lease) { l.Close() })
	w.call("lost-after-effect", func(key string, l *dedup.Lease) {
		w.effects[key]++
		l.Close()
	})
	w.mend()
	for _, key := range storyKeys {
		w.resolve(key)
		w.call(key, w.answered)
	}
	w.call("owner-crashes", func(key string, _ *dedup.Lease) { w.effects[key]++ })
	w.crash(w.ledger)
	w.ledger = w.peer()
	for _, key := range storyKeys {
		w.resolve(key)
		w.call(key, w.answered)
		require.Equal(w.t, dedup.Completed, w.standing(key).State, "%s: %s", w.name, key)
		require.Equal(w.t, 1, w.effects[key], "%s: %s", w.name, key)
	}
}

func (w *story) answered(key string, l *dedup.Lease) {
	w.effects[key]++
	_, _ = l.Complete(dedup.Answer{Evidence: dedup.AnsweredResult, Body: []byte(key)})
}

// call is a caller that repeats its call once when the ledger fails.
func (w *story) call(key string, run func(string, *dedup.Lease)) {
	for range 2 {
		v, err := w.ledger.Begin(context.Background(), request(w.t, key))
		if lease, ok := v.(*dedup.Lease); ok {
			run(key, lease)
		}
		w.check()
		if err == nil {
			return
		}
	}
	w.t.Fatalf("%s: the ledger failed twice", w.name)
}

// mend does what a gateway does by itself, until there is nothing left to do.
func (w *story) mend() {
	for range 2 {
		w.ledger.WriteUnwritten()
		_ = w.ledger.Sweep(context.Background())
		w.check()
	}
}

// resolve lets a person look at the upstream's effects and tell the truth.
func (w *story) resolve(key string) {
	e := w.standing(key)
	if e.State != dedup.Unknown {
		return
	}
	r := dedup.Resolution{Executed: w.effects[key] > 0, Result: []byte(key), By: "ada", Note: "looked"}
	for range 2 {
		_, err := w.ledger.Resolve(context.Background(), e.ID, r)
		w.check()
		if err == nil || w.standing(key).State != dedup.Unknown {
			return
		}
	}
	w.t.Fatalf("%s: the ledger failed twice", w.name)
}

// standing is how a key's operation stands; zero where there is none.
func (w *story) standing(key string) dedup.Entry {
	r := request(w.t, key)
	for range 2 {
		if e, _, err := w.ledger.OperationOf(context.Background(), r.Scope, r.Key); err == nil {
			return e
		}
	}
	return dedup.Entry{}
}

// check looks past the faults at what the ledger holds.
func (w *story) check() {
	for e := range w.reference.Open(nil).List(context.Background(), dedup.Filter{}) {
		key := w.keyOf(e)
		require.LessOrEqual(w.t, w.effects[key], 1, "%s: %s", w.name, key)
		switch e.State {
		case dedup.Completed:
			require.Equal(w.t, 1, w.effects[key], "%s: %s is completed", w.name, key)
		case dedup.Released:
			require.Zero(w.t, w.effects[key], "%s: %s is released", w.name, key)
		}
	}
}

func (w *story) keyOf(e dedup.Entry) string {
	for _, key := range storyKeys {
		if request(w.t, key).Key.Hint() == e.KeyHint {
			return key
		}
	}
	w.t.Fatalf("whose operation is %v?", e)
	return ""
}
