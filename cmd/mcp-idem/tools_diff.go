package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/mcp-idem/mcp-idem/gateway"
	"github.com/mcp-idem/mcp-idem/toolschema"
)

// details are all that is known of each tool, and its definition before and after.
func (l listing) details() string {
	var b strings.Builder
	for i, t := range l.tools {
		if i > 0 {
			b.WriteString("\n")
		}
		facts := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		for _, fact := range l.facts(t) {
			fmt.Fprintf(facts, "%s\t%s\n", fact[0], plain(fact[1]))
		}
		facts.Flush() // into memory: it cannot fail
		b.WriteString("\n" + change(t))
	}
	return b.String()
}

// facts are what is known of a tool: names and values.
func (l listing) facts(t gateway.InspectedTool) [][2]string {
	facts := [][2]string{
		{"tool", t.Name}, {"upstream", l.Scope.Upstream}, {"account", l.Scope.Account}, {"namespace", l.Scope.Namespace},
		{"class", string(t.Class)}, {"rule", t.Rule}, {"key", l.keyOf(t)}, {"near-duplicate", string(t.NearDuplicate)},
	}
	if needsKey(t) {
		facts = append(facts, [2]string{"replayed for", brief(t.Window)}, [2]string{"if unknown", l.ifUnknown(t)})
		if !t.AnnotatesOutput {
			facts = append(facts, [2]string{"replays", "are marked in text and _meta; the outputSchema admits no mark"})
		}
	}
	if t.Problem != "" {
		facts = append(facts, [2]string{"problem", t.Problem})
	}
	for _, n := range t.Natives {
		if n.Configured && !hasProperty(t.Upstream, n.Path) {
			facts = append(facts, [2]string{"native key", "the inputSchema has no property " + n.String()})
		}
	}
	for _, text := range l.refusalsOf(t) {
		facts = append(facts, [2]string{"refused by", text})
	}
	return facts
}

// ifUnknown says what becomes of a repeated call when nobody knows of the first.
func (l listing) ifUnknown(t gateway.InspectedTool) string {
	switch {
	case t.Class == toolschema.ClassSafeRetry:
		return "a repeated call runs again"
	case t.Class == toolschema.ClassDeduplicate && len(t.Natives) > 0:
		return "a repeated call is sent again with the same native key, within " + brief(l.UpstreamWindowOf(t.Name)) + " of the first"
	}
	return "it stays unknown until a late answer or a person settles it"
}

// change is a tool's definition before and after, as a unified diff of indented
// JSON; the definition alone where nothing differs or nothing is offered.
func change(t gateway.InspectedTool) string {
	before := indented(t.Upstream)
	switch {
	case !t.Offered:
		return "The upstream's definition, which is not offered:\n" + before
	case bytes.Equal(t.Upstream, t.Definition):
		return "The definition is offered as it is:\n" + before
	}
	unified := string(diff.Diff("upstream", []byte(before), "offered", []byte(indented(t.Definition))))
	_, unified, _ = strings.Cut(unified, "\n") // the line "diff upstream offered"
	var b strings.Builder
	for line := range strings.Lines(unified) {
		text := strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(text, "@@"):
			text = stylePlace.Render(text)
		case strings.HasPrefix(text, "--- "), strings.HasPrefix(text, "+++ "):
			text = styleStrong.Render(text)
		case strings.HasPrefix(text, "-"):
			text = styleAlarm.Render(text)
		case strings.HasPrefix(text, "+"):
			text = styleAdded.Render(text)
		}
		b.WriteString(text + "\n")
	}
	return b.String()
}

// indented sets JSON out over lines, each fit to be shown. Order, numbers and
// escapes stay.
func indented(definition []byte) string {
	var set bytes.Buffer
	if json.Indent(&set, definition, "", "  ") != nil {
		set.Reset()
		set.Write(definition) // nested too deep for that package
	}
	var b strings.Builder
	for line := range strings.Lines(set.String()) {
		b.WriteString(plain(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return b.String()
}
