package suite

import (
	"maps"
	"slices"
	"strings"
)

// A Difference is a check whose status is not what it is directly.
type Difference struct {
	Scenario, Check string
	Direct, Here    Status
	Words           string // of the suite, on the failure here
}

// Worse reports whether something is lost by the gateway.
func (d Difference) Worse() bool { return d.Here.rank() < d.Direct.rank() }

// Compare returns the differences, by scenario and check.
func Compare(direct, here Report) []Difference {
	var found []Difference
	for _, scenario := range union(direct, here) {
		for _, id := range union(direct[scenario], here[scenario]) {
			d := Difference{Scenario: scenario, Check: id, Words: here[scenario][id].Words,
				Direct: statusOf(direct[scenario], id), Here: statusOf(here[scenario], id)}
			if d.Direct.rank() != d.Here.rank() {
				found = append(found, d)
			}
		}
	}
	return found
}

func statusOf(checks map[string]Check, id string) Status {
	if c, ok := checks[id]; ok {
		return c.Status
	}
	return Absent
}

// union is the keys of both, sorted.
func union[V any](a, b map[string]V) []string {
	both := slices.Concat(slices.Collect(maps.Keys(a)), slices.Collect(maps.Keys(b)))
	slices.Sort(both)
	return slices.Compact(both)
}

// core are the beginnings of the names of the scenarios that belong to tools, to
// the transport and to the life of a connection.
var core = []string{
	"tools-list", "tools-call-", "json-schema-2020-12", "input-required-result-", "caching",
	"http-", "server-sse-", "dns-rebinding-protection",
	"server-initialize", "server-session-lifecycle", "server-stateless", "ping",
}

// questions are the scenarios of tools that ask the client something. They belong
// to the capabilities of clients.
var questions = []string{"tools-call-sampling", "tools-call-elicitation"}

// Core reports whether a scenario belongs to tools, transport or lifecycle, in
// which nothing may fail that does not fail directly.
func Core(scenario string) bool {
	return !slices.Contains(questions, scenario) &&
		slices.ContainsFunc(core, func(beginning string) bool { return strings.HasPrefix(scenario, beginning) })
}
