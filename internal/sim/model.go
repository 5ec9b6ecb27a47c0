package main

import (
	"github.com/anishathalye/porcupine"
)

// A phase is what may be known of a key.
type phase int

const (
	free phase = iota // none, or released
	running
	unknown
	completed
)

// A state is what the ledger may hold of a key.
type state struct {
	phase   phase
	attempt int    // the newest
	by      int    // the call whose attempt it is
	amount  int    // what that call asked for
	mute    bool   // that call got no answer: how its attempt ended is for others to hear
	late    bool   // unknown: the answer may still come
	text    string // completed: the answer; "" is one that nobody has heard yet
}

// A step is one moment of an event: a call may claim the key at one moment, and what
// it is told is true at a later one. A person's word is one moment.
type step struct {
	event
	end bool
}

// next are the states that may follow a state at a step; none where the step cannot
// be. First may happen what nobody does: an attempt whose caller heard nothing ends,
// and a late answer comes.
func next(s state, at step) (after []state) {
	for _, s := range drifted(s) {
		switch {
		case at.person:
			after = append(after, s.resolved(at.event)...)
		case at.end:
			after = append(after, s.told(at.event)...)
		case s.phase == free:
			after = append(after, s, state{phase: running, attempt: s.attempt + 1, by: at.id, amount: at.amount, mute: !at.answered})
		default:
			after = append(after, s)
		}
	}
	return after
}

// drifted are the states that a state may become by itself.
func drifted(s state) []state {
	all := []state{s}
	if s.phase == running && s.mute {
		lost := s
		lost.phase, lost.late = unknown, true
		all = append(all, lost)
	}
	if s.phase == running && s.mute || s.phase == unknown && s.late {
		heard := s
		heard.phase, heard.late = completed, false
		all = append(all, heard, s.released())
	}
	return all
}

func (s state) released() state { return state{attempt: s.attempt} }

// told are the states that follow where a call is told what it was told.
func (s state) told(e event) []state {
	mine, same := s.by == e.id && s.phase == running, s.amount == e.amount && s.phase != free
	if s.attempt != e.said.Attempt && e.said.Attempt != 0 { // it tells of another
		return nil
	}
	holds := false
	switch e.said.Outcome {
	case "COMPLETED":
		holds = e.said.WasReplay && same && s.phase == completed && (s.text == "" || s.text == e.said.text) || !e.said.WasReplay && mine
		s.phase, s.text = completed, e.said.text
	case "EFFECT_UNKNOWN":
		if e.said.Reason == "owner_died" { // whose caller heard nothing, then
			holds, s.late = same && s.phase == unknown && s.mute, false
			break
		}
		holds, s.late = same && s.phase == unknown || mine, s.late || mine && e.said.Reason == "timeout"
		s.phase = unknown
	case "RUNNING":
		holds = same && s.phase == running
	case "REJECTED_DUPLICATE":
		holds = e.said.Reason == "key_reused" && !same && s.phase != free
	case "FAILED_BEFORE_INPUT":
		holds = mine || s.phase == free
		s = s.released()
	}
	if !holds {
		return nil
	}
	return []state{s}
}

// resolved are the states that follow a person's word.
func (s state) resolved(e event) []state {
	switch {
	case e.said.Outcome == refused:
		return []state{s}
	case s.phase != unknown:
		return nil
	case e.executed:
		s.phase, s.text, s.late = completed, resolvedText, false
		return []state{s}
	}
	return []state{s.released()}
}

// model is what everybody may be told of one key.
var model = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{state{}} },
	Step: func(s, input, _ any) (after []any) {
		for _, one := range next(s.(state), input.(step)) {
			after = append(after, one)
		}
		return after
	},
	Equal: func(a, b any) bool { return a == b },
}).ToModel()

// stepsOf are the events of one key as the checker takes them. A call that got no
// answer may have claimed the key; one that was told of another's attempt has not.
func stepsOf(events []event) (steps []porcupine.Operation) {
	for _, e := range telling(events) {
		operation := porcupine.Operation{Input: step{event: e}, Call: int64(e.invoked), Return: int64(e.returned)}
		if e.person || !e.answered || e.said.mayBeOwn() {
			steps = append(steps, operation)
		}
		if e.answered && !e.person {
			operation.Input = step{event: e, end: true}
			steps = append(steps, operation)
		}
	}
	return steps
}

// mayBeOwn reports whether the call that is told this may have made the attempt that
// it tells of.
func (s said) mayBeOwn() bool {
	switch s.Outcome {
	case "COMPLETED":
		return !s.WasReplay
	case "EFFECT_UNKNOWN":
		return s.Reason != "owner_died"
	}
	return s.Outcome == "FAILED_BEFORE_INPUT" && s.Attempt > 0
}
