package suite

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
)

// An Expectation is differences that are known, and the reason for them.
type Expectation struct {
	Runs      []string // names of runs; none for all
	Places    []string // names of places; none for all
	Scenarios []string
	Checks    []string // ids; none for all of the scenarios
	Reason    string
}

//go:embed expected.json
var expected []byte

// Expected are the differences that are known.
func Expected() ([]Expectation, error) { return parseExpected(expected) }

// parseExpected parses a list of expectations.
func parseExpected(raw []byte) ([]Expectation, error) {
	var list []Expectation
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	for i, e := range list {
		if len(e.Scenarios) == 0 || e.Reason == "" {
			return nil, fmt.Errorf("expectation %d: it needs scenarios and a reason", i+1)
		}
	}
	return list, nil
}

// Covers reports whether a difference of the run at the place is an expected one.
// In what belongs to tools, transport and lifecycle no failure is: only that a
// check which is optional is not made.
func (e Expectation) Covers(run Run, place Place, d Difference) bool {
	if Core(d.Scenario) && d.Here != Absent {
		return false
	}
	return e.Concerns(run, place) && slices.Contains(e.Scenarios, d.Scenario) && amongOrAll(e.Checks, d.Check)
}

// Concerns reports whether the expectation speaks of the run at the place.
func (e Expectation) Concerns(run Run, place Place) bool {
	return amongOrAll(e.Runs, run.Name) && amongOrAll(e.Places, place.Name)
}

// Occurs reports whether each of the scenarios, and each of the checks, has become
// worse as it was expected to. One that has not is to be taken off the list.
func (e Expectation) Occurs(run Run, place Place, found []Difference) bool {
	seen := map[string]bool{}
	for _, d := range found {
		if d.Worse() && e.Covers(run, place, d) {
			seen[d.Scenario], seen[d.Check] = true, true
		}
	}
	return !slices.ContainsFunc(slices.Concat(e.Scenarios, e.Checks), func(name string) bool { return !seen[name] })
}

// amongOrAll reports whether the word is one of the list; an empty list is of all.
func amongOrAll(list []string, word string) bool {
	return len(list) == 0 || slices.Contains(list, word)
}
