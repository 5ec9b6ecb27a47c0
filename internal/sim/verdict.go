package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/mcp-idem/mcp-idem/upstream/upstreamtest"
)

// checkFor is how long the checker may take for one key.
const checkFor = 10 * time.Second

// A report is what a run showed.
type report struct {
	seed                                    uint64
	keys, calls, answered, words            int
	effects                                 int
	gatewayKills, serverKills, stops, gives int64
	outcomes                                map[string]int
	faults                                  []string
}

// judge holds the history against the model and against the effects.
func judge(w *world, effects []upstreamtest.Effect) report {
	r := report{
		seed: w.seed, effects: len(effects), outcomes: map[string]int{},
		gatewayKills: w.counts.gatewayKills.Load(), serverKills: w.counts.serverKills.Load(),
		stops: w.counts.stops.Load(), gives: w.counts.gaveUp.Load(),
	}
	keys := byKey(w.history.events)
	r.keys = len(keys)
	for key, events := range keys {
		r.count(events)
		r.faults = append(r.faults, contradictions(key, events)...)
		r.faults = append(r.faults, wrongEffects(key, events, effectsOf(effects, key))...)
	}
	return r
}

func (r *report) count(events []event) {
	for _, e := range events {
		if e.person {
			r.words++
			continue
		}
		r.calls++
		if e.answered {
			r.answered++
			r.outcomes[e.said.name()]++
		}
	}
}

// name is the outcome with what tells it from others of its kind.
func (s said) name() string {
	switch {
	case s.WasReplay:
		return s.Outcome + " replay"
	case s.Reason != "":
		return s.Outcome + " " + s.Reason
	}
	return s.Outcome
}

// contradictions says whether what was told of a key can be true in no order.
func contradictions(key int, events []event) []string {
	switch result := porcupine.CheckOperationsTimeout(model, stepsOf(events), checkFor); result {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return []string{fmt.Sprintf("key %d: whether what was told can be true takes longer than %s to find out:%s", key, checkFor, told(events))}
	}
	return []string{fmt.Sprintf("key %d: what was told can be true in no order:%s", key, told(events))}
}

// told shows what everybody was told.
func told(events []event) string {
	var b strings.Builder
	for _, e := range events {
		what := fmt.Sprintf("a call for %d", e.amount)
		if e.person {
			what = fmt.Sprintf("a person says executed=%t", e.executed)
		}
		until, answer := e.returned.String(), fmt.Sprintf("%s, attempt %d: %.40q", e.said.name(), e.said.Attempt, e.said.text)
		if !e.answered {
			until, answer = "?", "no answer"
		}
		fmt.Fprintf(&b, "\n  %4d  %s to %s  %s: %s", e.id, e.invoked, until, what, answer)
	}
	return b.String()
}

// wrongEffects holds what was told of a key against its effects. There is never more
// than one: a second attempt is allowed only where the first had none.
func wrongEffects(key int, events []event, effects []upstreamtest.Effect) (faults []string) {
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Sprintf("key %d: ", key)+fmt.Sprintf(format, args...)+told(events))
	}
	if len(effects) > 1 {
		fault("%d effects", len(effects))
	}
	for _, e := range events {
		if !e.answered || e.person || e.said.Outcome != "COMPLETED" || e.said.Effect != "executed" {
			continue
		}
		switch {
		case len(effects) == 0:
			fault("COMPLETED, and there is no effect")
		case effects[0].At.After(e.at):
			fault("COMPLETED before the effect")
		case !strings.Contains(string(effects[0].Arguments), fmt.Sprintf(`"amount":%d`, e.amount)):
			fault("COMPLETED for %d, and the effect is another: %s", e.amount, effects[0].Arguments)
		case e.said.text != resolvedText && e.said.text != fmt.Sprintf("refunded re_%d", effects[0].Call):
			fault("COMPLETED with %q, and the effect is of call %d", e.said.text, effects[0].Call)
		}
	}
	return faults
}

// String is the report in some lines.
func (r report) String() string {
	return fmt.Sprintf("seed %d: %d calls under %d keys, %d without an answer; %d effects; %d gateways and %d servers killed, %d gateways stopped, %d callers gave up, %d words of a person\n%v",
		r.seed, r.calls, r.keys, r.calls-r.answered, r.effects, r.gatewayKills, r.serverKills, r.stops, r.gives, r.words, r.outcomes)
}

// err is an error where the promise was broken.
func (r report) err() error {
	if len(r.faults) == 0 {
		return nil
	}
	return errors.New(strings.Join(r.faults, "\n"))
}
