package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// weather decides what goes wrong.
type weather struct {
	random *rand.Rand
	calm   bool
}

func newWeather(seed, stream uint64, calm bool) *weather {
	return &weather{random: rand.New(rand.NewPCG(seed, stream)), calm: calm}
}

// faultsAhead is for how many calls a server is given its faults.
const faultsAhead = 200

// What may become of one call in a server. None of it lies: what proves by convention
// that nothing was executed is said before the effect only.
var (
	faultsOfAll = []string{
		"when=before_effect,do=kill", "when=after_effect,do=kill", "when=after_effect,do=exit:1",
		"when=before_effect,do=hang", "when=after_effect,do=hang",
		"when=before_effect,do=delay:30ms", "when=after_effect,do=delay:30ms",
		"when=before_effect,do=delay:700ms", "when=after_effect,do=delay:700ms", // longer than callTimeout
		"when=before_effect,do=error:-32601:no such method", "when=before_effect,do=error:-32603:order not found",
		"when=after_effect,do=error:-32603:internal error",
		"when=before_effect,do=iserror:the order is invalid", "when=after_effect,do=iserror:the request timed out",
		"when=after_effect,do=garbage", "when=after_effect,do=wrong_id", "when=after_effect,do=twice",
	}
	faultsOfHTTP = []string{
		"when=before_effect,do=reset", "when=after_effect,do=reset", "when=after_effect,do=cut:20",
		"when=before_effect,do=status:429", "when=after_effect,do=status:502", "when=after_effect,do=end",
	}
)

// faults are the flags of a server that starts after so many calls: one call in five
// meets a fault.
func (w *weather) faults(calls int, choice []string) (flags []string) {
	if w.calm {
		return nil
	}
	for n := range faultsAhead {
		if w.random.IntN(5) == 0 {
			flags = append(flags, "--fault", fmt.Sprintf("%s:nth=%d,%s", tool, calls+n+1, choice[w.random.IntN(len(choice))]))
		}
	}
	return flags
}

// blow kills and stops, until ctx ends.
func (w *weather) blow(ctx context.Context, all *world) error {
	for !w.calm {
		if err := pause(ctx, 50*time.Millisecond+time.Duration(w.random.IntN(300))*time.Millisecond); err != nil {
			return nil
		}
		s := all.slots[w.random.IntN(len(all.slots))]
		if w.random.IntN(6) == 0 {
			s.freeze(ctx, time.Duration(w.random.IntN(400))*time.Millisecond)
			all.counts.stops.Add(1)
			continue
		}
		if w.random.IntN(6) == 0 {
			all.remote.kill()
			all.counts.serverKills.Add(1)
			continue
		}
		all.counts.gatewayKills.Add(1)
		if err := s.replace(time.Duration(w.random.IntN(60)) * time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// pause waits, and returns the error of a context that ends before.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// callsSoFar is how many calls the servers have counted.
func callsSoFar(effects string) (int, error) {
	counted, err := os.ReadFile(filepath.Clean(effects) + ".calls")
	if os.IsNotExist(err) {
		return 0, nil
	}
	n := 0
	for _, b := range counted {
		if b == '\n' {
			n++
		}
	}
	return n, err
}
