package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mcp-idem/mcp-idem/upstream/upstreamtest"
)

// The answers of the histories below.
var (
	fresh     = said{Outcome: "COMPLETED", Effect: "executed", Attempt: 1, text: "refunded re_1"}
	replay    = said{Outcome: "COMPLETED", Effect: "executed", Attempt: 1, text: "refunded re_1", WasReplay: true}
	another   = said{Outcome: "COMPLETED", Effect: "executed", Attempt: 1, text: "refunded re_2", WasReplay: true}
	byPerson  = said{Outcome: "COMPLETED", Effect: "executed", Attempt: 1, text: resolvedText, WasReplay: true}
	second    = said{Outcome: "COMPLETED", Effect: "executed", Attempt: 2, text: "refunded re_2"}
	isRunning = said{Outcome: "RUNNING", Attempt: 1}
	timedOut  = said{Outcome: "EFFECT_UNKNOWN", Attempt: 1, Reason: "timeout"}
	exited    = said{Outcome: "EFFECT_UNKNOWN", Attempt: 1, Reason: "upstream_exited"}
	ownerDied = said{Outcome: "EFFECT_UNKNOWN", Attempt: 1, Reason: "owner_died"}
	freed     = said{Outcome: "FAILED_BEFORE_INPUT", Attempt: 1, Reason: "refused"}
	reused    = said{Outcome: "REJECTED_DUPLICATE", Attempt: 1, Reason: "key_reused"}
)

// at is a call that lasts from one second to another.
func at(from, to int, s said) event {
	return event{invoked: time.Duration(from) * time.Second, returned: time.Duration(to) * time.Second, answered: true, said: s, amount: usualAmount, at: time.Unix(int64(to), 0)}
}

func (e event) asking(amount int) event { e.amount = amount; return e }

// lost is a call without an answer, whose gateway died.
func lost(from, to int) event {
	e := at(from, to, said{})
	e.answered = false
	return e
}

// word is what a person says.
func word(from, to int, executed bool, outcome string) event {
	e := at(from, to, said{Outcome: outcome})
	e.person, e.executed = true, executed
	return e
}

func numbered(events []event) []event {
	for i := range events {
		events[i].id = i
	}
	return events
}

func TestWhatMayBeTold(t *testing.T) {
	t.Parallel()
	for name, events := range map[string][]event{
		"an answer and its replay":                  {at(0, 1, fresh), at(2, 3, replay)},
		"a replay that overtakes its answer":        {at(0, 4, fresh), at(1, 2, replay)},
		"running, then completed":                   {at(0, 4, fresh), at(1, 2, isRunning), at(3, 4, replay)},
		"other arguments, meanwhile and later":      {at(0, 4, fresh), at(1, 2, reused).asking(otherAmount), at(5, 6, reused).asking(otherAmount)},
		"an answer that only a replay tells":        {lost(0, 1), at(2, 3, replay), at(4, 5, replay)},
		"an attempt of a dead owner":                {lost(0, 1), at(0, 3, isRunning), at(2, 3, ownerDied), at(4, 5, ownerDied)},
		"a lost call that was never claimed":        {lost(0, 1), at(2, 3, fresh)},
		"a late answer":                             {at(0, 1, timedOut), at(2, 3, timedOut), at(4, 5, replay)},
		"a late refusal":                            {at(0, 1, timedOut), at(4, 5, second)},
		"unknown to all who wait":                   {at(0, 3, exited), at(1, 3, exited), at(1, 3, exited), at(4, 5, exited)},
		"executed by a person's word":               {at(0, 1, exited), word(2, 3, true, resolved), at(4, 5, byPerson)},
		"not executed, by a person's word":          {at(0, 1, exited), word(2, 3, false, resolved), at(4, 5, second)},
		"a person who is refused":                   {at(0, 1, exited), word(2, 3, false, refused), at(4, 5, exited)},
		"refused before it was executed, then free": {at(0, 1, freed), at(2, 3, second).asking(otherAmount)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Empty(t, contradictions(1, numbered(events)))
		})
	}
}

func TestWhatMustNotBeTold(t *testing.T) {
	t.Parallel()
	for name, events := range map[string][]event{
		"two attempts of one key":                          {at(0, 1, fresh), at(2, 3, second)},
		"two first attempts":                               {at(0, 1, fresh), at(2, 3, fresh)},
		"a replay of nothing":                              {at(0, 1, replay)},
		"a replay of another answer":                       {at(0, 1, fresh), at(2, 3, another)},
		"two replays that differ":                          {lost(0, 1), at(2, 3, replay), at(4, 5, another)},
		"a replay to other arguments":                      {at(0, 1, fresh), at(2, 3, replay).asking(otherAmount)},
		"running, when it is completed":                    {at(0, 1, fresh), at(2, 3, isRunning)},
		"running again":                                    {lost(0, 9), at(1, 2, ownerDied), at(3, 4, isRunning)},
		"unknown, when it is completed":                    {at(0, 1, fresh), at(2, 3, exited)},
		"the death of an owner who has answered":           {at(0, 1, exited), at(2, 3, ownerDied)},
		"an answer after the owner's death":                {lost(0, 1), at(2, 3, ownerDied), at(4, 5, replay)},
		"an answer of a server that has exited":            {at(0, 1, exited), at(2, 3, replay)},
		"a second attempt of what is unknown":              {at(0, 1, exited), at(2, 3, second)},
		"a second attempt after a person found the effect": {at(0, 1, exited), word(2, 3, true, resolved), at(4, 5, second)},
		"a second attempt after a person was refused":      {at(0, 1, exited), word(2, 3, false, refused), at(4, 5, second)},
		"a person settles what is not unknown":             {at(0, 1, fresh), word(2, 3, false, resolved)},
		"freed after it was completed":                     {at(0, 1, fresh), at(2, 3, freed)},
		"a key that nobody has used, reused":               {at(0, 1, reused).asking(otherAmount)},
		"the same arguments, reused":                       {at(0, 1, fresh), at(2, 3, reused)},
		"a claim after the death of its gateway":           {lost(0, 1), at(2, 3, fresh), at(4, 5, ownerDied)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.NotEmpty(t, contradictions(1, numbered(events)))
		})
	}
}

func TestEffectsAreCounted(t *testing.T) {
	t.Parallel()
	effect := upstreamtest.Effect{Arguments: arguments(1, usualAmount), Call: 1, At: time.Unix(0, 500)}
	late := effect
	late.At = time.Unix(2, 0)
	other := effect
	other.Arguments = arguments(1, otherAmount)
	for name, test := range map[string]struct {
		events  []event
		effects []upstreamtest.Effect
		faults  int
	}{
		"one":                      {[]event{at(0, 1, fresh)}, []upstreamtest.Effect{effect}, 0},
		"one that a person found":  {[]event{at(0, 1, byPerson)}, []upstreamtest.Effect{effect}, 0},
		"one that nobody knows of": {[]event{at(0, 1, exited)}, []upstreamtest.Effect{effect}, 0},
		"none, and unknown":        {[]event{at(0, 1, exited)}, nil, 0},
		"two":                      {[]event{at(0, 1, fresh)}, []upstreamtest.Effect{effect, effect}, 1},
		"none":                     {[]event{at(0, 1, fresh)}, nil, 1},
		"one that came later":      {[]event{at(0, 1, fresh)}, []upstreamtest.Effect{late}, 1},
		"one of other arguments":   {[]event{at(0, 1, fresh)}, []upstreamtest.Effect{other}, 1},
		"one of another call":      {[]event{at(0, 1, another)}, []upstreamtest.Effect{effect}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Len(t, wrongEffects(1, test.events, test.effects), test.faults)
		})
	}
}

// TestTheCheckerIsQuick gives it what is worst for it: many who call at once, and half
// of them without an answer.
func TestTheCheckerIsQuick(t *testing.T) {
	t.Parallel()
	var events []event
	for range 20 {
		events = append(events, at(0, 9, timedOut), at(0, 9, isRunning), lost(0, 9))
	}
	began := time.Now()
	assert.Empty(t, contradictions(1, numbered(events)))
	assert.NotEmpty(t, contradictions(1, numbered(append(events, at(10, 11, isRunning)))))
	assert.Less(t, time.Since(began), checkFor/2)
}
