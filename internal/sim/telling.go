package main

import "time"

// telling are the events of one key, which come as they began, without those that say nothing which others do
// not say: the checker's time grows with the power of who calls at once.
//
// Callers who are told the same of the same attempt see one stretch of its life: it is
// running, then unknown, then completed, and never what it was before. There is a
// moment of that stretch in each of their calls exactly if it begins before the first
// of them returns and ends after the last of them has begun; of the others nothing
// follows. If one of them made the attempt, the one who began first may have as well
// as any: it could claim whenever another could, and was there when the attempt
// became what they were told.
//
// Of the calls that got no answer, each of which may have made any attempt while its
// gateway lived, only so many matter as there were attempts: those that began first.
func telling(events []event) (kept []event) {
	begun, last, returned, mute := map[sight]int{}, map[sight]int{}, map[sight]event{}, map[unheard]int{}
	attempts := 0
	for _, e := range events {
		attempts = max(attempts, e.said.Attempt)
		s, ok := e.sight()
		if !ok {
			continue
		}
		first, seen := returned[s]
		if !seen {
			begun[s] = e.id
		}
		if last[s] = e.id; !seen || e.returned < first.returned {
			returned[s] = e
		}
	}
	for _, e := range events {
		if !e.answered {
			u := unheard{e.amount, e.returned}
			if mute[u]++; mute[u] <= attempts {
				kept = append(kept, e)
			}
			continue
		}
		s, ok := e.sight()
		if !ok || e.id == begun[s] || e.id == last[s] || e.id == returned[s].id {
			kept = append(kept, e)
		}
	}
	return kept
}

// A sight is what a call sees that has changed nothing, or, of EFFECT_UNKNOWN, what any
// of those may have changed that see it.
type sight struct {
	outcome, reason, text string
	amount, attempt       int
}

// sight reports what the call saw, if that is all that it did.
func (e event) sight() (sight, bool) {
	seen := sight{e.said.Outcome, e.said.Reason, "", e.amount, e.said.Attempt}
	if e.said.WasReplay {
		seen.text = e.said.text
	}
	fresh := e.said.Outcome == "COMPLETED" && !e.said.WasReplay || e.said.Outcome == "FAILED_BEFORE_INPUT"
	return seen, e.answered && !e.person && !fresh
}

// unheard are calls of which nobody can tell who made an attempt: they ask for the
// same, and their gateway died with them.
type unheard struct {
	amount   int
	returned time.Duration
}
