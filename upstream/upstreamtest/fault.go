package upstreamtest

import (
	"fmt"
	"strconv"
	"strings"
)

// The points of a call at which a fault can strike.
const (
	beforeRead   = "before_read"   // nothing has been noted down, nothing has begun
	beforeEffect = "before_effect" // the call is noted down as started
	afterEffect  = "after_effect"  // the effect is on disk, the answer is not sent
)

// A fault is something that goes wrong at one point of a call.
type fault struct {
	target string // a tool or a method, or * for every tool
	nth    int    // of the calls of that tool, from 1; 0 for all
	when   string
	action string
	detail string // behind the colon of the action
}

// faults is a flag that may be repeated.
type faults []fault

// String is part of flag.Value.
func (f *faults) String() string { return fmt.Sprintf("%d faults", len(*f)) }

// Set is part of flag.Value: it parses TOOL:nth=N,when=WHEN,do=ACTION[:DETAIL].
func (f *faults) Set(spec string) error {
	target, rest, _ := strings.Cut(spec, ":")
	parsed := fault{target: target, when: afterEffect}
	for rest != "" {
		name, value, ok := strings.Cut(rest, "=")
		if !ok {
			return fmt.Errorf("fault %q: %q is not of the form name=value", spec, rest)
		}
		rest = ""
		if name != "do" {
			value, rest, _ = strings.Cut(value, ",")
		}
		if err := parsed.set(name, value); err != nil {
			return fmt.Errorf("fault %q: %w", spec, err)
		}
	}
	if parsed.action == "" {
		return fmt.Errorf("fault %q: do= is missing", spec)
	}
	*f = append(*f, parsed)
	return nil
}

func (f *fault) set(name, value string) (err error) {
	switch name {
	case "nth":
		f.nth, err = strconv.Atoi(value)
	case "when":
		if value != beforeRead && value != beforeEffect && value != afterEffect {
			return fmt.Errorf("when=%s is none of %s, %s, %s", value, beforeRead, beforeEffect, afterEffect)
		}
		f.when = value
	case "do":
		f.action, f.detail, _ = strings.Cut(value, ":")
		if !known[f.action] {
			return fmt.Errorf("do=%s is not an action", f.action)
		}
	default:
		return fmt.Errorf("unknown name %q", name)
	}
	return err
}

// known has the actions that act understands.
var known = map[string]bool{
	"exit": true, "kill": true, "hang": true, "drop": true, "delay": true, "gate": true, "progress": true,
	"garbage": true, "broken": true, "error": true, "iserror": true, "result": true, "wrong_id": true,
	"string_id": true, "twice": true, "big": true, "close_stdout": true,
}

// strikes reports whether the fault is for this call at this point.
func (f fault) strikes(target string, nth int, when string) bool {
	return (f.target == target || f.target == "*" && nth > 0) && (f.nth == 0 || f.nth == nth) && f.when == when
}
