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
	target string // a tool, a method, GET, DELETE, or * for every tool
	nth    int    // of the calls of that target, from 1; 0 for all
	when   string
	conn   string // what the connection has to be: reused, new, or empty for either
	action string
	detail string // behind the colon of the action
}

// faults is a flag that may be repeated.
type faults []fault

// String is part of flag.Value.
func (f *faults) String() string { return fmt.Sprintf("%d faults", len(*f)) }

// Set is part of flag.Value: it parses
// TARGET[:nth=N][,when=WHEN][,conn=CONN],do=ACTION[:DETAIL].
func (f *faults) Set(spec string) error {
	target, rest, _ := strings.Cut(spec, ":")
	parsed := fault{target: target}
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
	if parsed.when == "" {
		parsed.when = actions[parsed.action].usual()
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
	case "conn":
		if value != "new" && value != "reused" {
			return fmt.Errorf("conn=%s is neither new nor reused", value)
		}
		f.conn = value
	case "do":
		f.action, f.detail, _ = strings.Cut(value, ":")
		if _, ok := actions[f.action]; !ok {
			return fmt.Errorf("do=%s is not an action", f.action)
		}
		err = f.check()
	default:
		return fmt.Errorf("unknown name %q", name)
	}
	return err
}

// strikes reports whether the fault is for this call at this point.
func (f fault) strikes(c call, when string) bool {
	return f.when == when && f.isFor(c)
}

// isFor reports whether the fault is for this call, at whatever point.
func (f fault) isFor(c call) bool {
	return (f.target == c.target || f.target == "*" && c.tool) && (f.nth == 0 || f.nth == c.nth) &&
		(f.conn == "" || (f.conn == "reused") == c.reused)
}

// A kind of action says what becomes of the call.
type kind int

const (
	pauses  kind = iota // it goes on as it would, later, or with something said before
	shapes              // its answer will be sent in another way
	answers             // it has another answer
	replies             // something that is no answer is sent in its place
	fails               // there is no answer
	asks                // it goes on when the client has been asked
	tasks               // it goes on behind a handle
)

// An action is what a fault does.
type action struct {
	kind kind
	only string // the one transport that it is for, or empty
}

// usual returns the point at which a fault strikes that does not say when.
func (a action) usual() string {
	if a.kind == asks || a.kind == tasks {
		return beforeEffect
	}
	return afterEffect
}

const (
	onStdio = "stdio"
	onHTTP  = "http"
)

var actions = map[string]action{
	"delay": {pauses, ""}, "gate": {pauses, ""}, "progress": {pauses, ""}, "log": {pauses, ""},
	"request": {pauses, ""}, "notify": {pauses, ""}, "forget": {pauses, onHTTP},
	"sse": {shapes, onHTTP}, "rpc_status": {shapes, onHTTP}, "cut": {shapes, onHTTP}, "stay_open": {shapes, onHTTP},
	"slow_headers": {shapes, onHTTP}, "slow_body": {shapes, onHTTP}, "resume": {shapes, onHTTP},
	"error": {answers, ""}, "iserror": {answers, ""}, "result": {answers, ""}, "big": {answers, ""},
	"wrong_id": {answers, ""}, "string_id": {answers, ""}, "twice": {answers, ""},
	"garbage": {replies, ""}, "broken": {replies, ""}, "empty": {replies, ""}, "batch": {replies, ""},
	"exit": {fails, ""}, "kill": {fails, ""}, "hang": {fails, ""}, "drop": {fails, ""}, "close_stdout": {fails, onStdio},
	"reset": {fails, onHTTP}, "status": {fails, onHTTP}, "redirect": {fails, onHTTP}, "end": {fails, onHTTP}, "endless": {fails, onHTTP},
	"ask": {asks, ""}, "task": {tasks, ""},
}

// fit fails where a fault asks for what the transport cannot do.
func (f faults) fit(transport string) error {
	for _, one := range f {
		if only := actions[one.action].only; only != "" && only != transport {
			return fmt.Errorf("do=%s is for %s only", one.action, only)
		}
		if one.conn != "" && transport != onHTTP {
			return fmt.Errorf("conn= is for %s only", onHTTP)
		}
	}
	return nil
}

// has reports whether one of the faults does this.
func (f faults) has(action string) bool {
	for _, one := range f {
		if one.action == action {
			return true
		}
	}
	return false
}
