package main

import (
	"fmt"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"

	"github.com/mcp-idem/mcp-idem/gateway"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
	"github.com/mcp-idem/mcp-idem/toolschema"
)

// The styles use the terminal's own sixteen colours, which its user has chosen.
var (
	styleNone   = lipgloss.NewStyle()
	styleStrong = lipgloss.NewStyle().Bold(true)
	styleFaint  = lipgloss.NewStyle().Faint(true)
	styleEffect = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
	styleAlarm  = lipgloss.NewStyle().Foreground(lipgloss.Red)
	styleAdded  = lipgloss.NewStyle().Foreground(lipgloss.Green)
	stylePlace  = lipgloss.NewStyle().Foreground(lipgloss.Cyan)
)

// The columns of the table.
const (
	columnTool = iota
	columnClass
	columnKey
	columnNear
	columnRule
)

// overview is the table of all tools, and below it what a person should know of
// some of them. A width other than 0 is that of the terminal, in columns.
func (l listing) overview(width int) string {
	if len(l.tools) == 0 {
		return l.heading()
	}
	var rows [][]string
	for _, t := range l.tools {
		rows = append(rows, []string{orDash(plain(t.Name)), orDash(string(t.Class)), plain(l.keyOf(t)), orDash(string(t.NearDuplicate)), orDash(plain(t.Rule))})
	}
	var whole map[int]int
	t := table.New().Headers("TOOL", "CLASS", "KEY", "NEAR-DUPLICATE", "RULE").Rows(rows...).
		BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).BorderColumn(false).BorderHeader(false).
		StyleFunc(func(row, column int) lipgloss.Style { return l.cellStyle(row, column).Width(whole[column]) })
	if width > 0 && lipgloss.Width(t.String()) > width {
		whole = keptWhole(rows, width)
		t.Width(width)
	}
	var b strings.Builder
	b.WriteString(l.heading() + "\n")
	for line := range strings.Lines(t.String() + "\n") {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	b.WriteString(l.notes())
	return b.String()
}

// gap is the space between two columns.
const gap = 2

// keptWhole returns the widths, by column, of those columns that are not made
// narrower on a terminal that is too narrow for all: those of at most a third of
// it, as long as enough is left for the others.
func keptWhole(rows [][]string, width int) map[int]int {
	const enough = 16
	whole, left := map[int]int{}, width
	for _, column := range []int{columnClass, columnKey, columnNear, columnTool} {
		widest := 0
		for _, row := range rows {
			widest = max(widest, lipgloss.Width(row[column])+gap)
		}
		if widest <= width/3+gap && left-widest >= enough {
			whole[column] = widest
			left -= widest
		}
	}
	return whole
}

func (l listing) cellStyle(row, column int) lipgloss.Style {
	style := styleNone
	switch {
	case row == table.HeaderRow:
		style = styleStrong
	case column == columnClass:
		style = classStyle(l.tools[row].Class)
	case column == columnKey && l.tools[row].Problem != "":
		style = styleAlarm
	case column == columnRule:
		style = styleFaint
	}
	if column != columnRule {
		style = style.PaddingRight(gap)
	}
	return style
}

// classStyle lets side effects stand out, and those that nothing guards most.
func classStyle(c toolschema.Class) lipgloss.Style {
	switch {
	case c == toolschema.ClassUnguarded:
		return styleAlarm
	case c.Keyed():
		return styleEffect
	}
	return styleNone
}

// keyOf says in a few words whether calls of a tool need a key, and where it goes.
func (l listing) keyOf(t gateway.InspectedTool) string {
	switch {
	case !t.Offered:
		return "not offered"
	case !t.Keyed():
		return "-"
	case t.Problem != "" && l.Policy.OnProblem == toolschema.OnProblemRefuse:
		return "refused"
	case t.Problem != "":
		return "harness only"
	case len(t.Natives) > 0:
		var natives []string
		for _, n := range t.Natives {
			natives = append(natives, describeNative(n))
		}
		return "native: " + strings.Join(natives, ", ")
	case l.Keys == gateway.KeysHarness:
		return "harness only"
	}
	return "required"
}

func describeNative(n toolschema.NativeKey) string {
	how := "hidden"
	if n.Shown {
		how = "shown"
	}
	if n.Raw {
		how += ", raw"
	}
	return n.String() + " (" + how + ")"
}

// notes are the remarks below the table, each kind under a heading.
func (l listing) notes() string {
	var unreadable, problems, refusals remarks
	for i, t := range l.tools {
		switch {
		case t.Class == "":
			unreadable.add(fmt.Sprintf("number %d of the list", i+1), t.Problem)
		case t.Problem != "":
			problems.add(t.Name, t.Problem)
		}
		if t.Offered {
			for _, text := range l.refusalsOf(t) {
				refusals.add(t.Name, text)
			}
		}
	}
	return l.unmatchedNote() + unreadable.under("Not offered, because their definitions cannot be read:") +
		problems.under(problemHeading[l.Policy.OnProblem]) +
		l.nativeNotes() +
		refusals.under("Refused by model APIs, and with them every request that has them:")
}

// unmatchedNote names the operator's patterns that name no tool: a slip of the pen,
// most likely.
func (l listing) unmatchedNote() string {
	var names []string
	for _, t := range l.tools {
		names = append(names, t.Name)
	}
	var unmatched remarks
	for _, pattern := range l.Options.Unmatched(names) {
		unmatched.add(pattern, "")
	}
	return unmatched.under("Patterns of --class or --native-key that no tool has the name of:")
}

// nativeNotes are the remarks on keys of the tools' own: those of which the
// operator may not know, and what the operator has said that cannot be meant so.
func (l listing) nativeNotes() string {
	var found, absent, keyless remarks
	for _, t := range l.tools {
		for _, n := range t.Natives {
			switch {
			case n.Configured && !hasProperty(t.Upstream, n.Path):
				absent.add(t.Name, n.String())
			case !n.Configured && t.Class != toolschema.ClassDeduplicate:
				found.add(t.Name, describeNative(n))
			}
		}
		if t.Class == toolschema.ClassDeduplicate && len(t.Natives) == 0 {
			keyless.add(t.Name, "")
		}
	}
	return found.under("Keys of their own, filled in from the caller's (--class NAME=DEDUPLICATE, if the server honours them):") +
		absent.under("Without the property that --native-key names:") +
		keyless.under("DEDUPLICATE without a key of their own, so that nothing is sent again (--native-key NAME=PATH):")
}

var problemHeading = map[toolschema.OnProblem]string{
	toolschema.OnProblemRefuse:  "No key can be demanded, so their calls are refused (--on-problem refuse):",
	toolschema.OnProblemHarness: "No key can be demanded, so a harness has to send it (--on-problem harness):",
	toolschema.OnProblemOmit:    "No key can be demanded, so they are not offered (--on-problem omit):",
}

// refusalsOf are the reasons for which model APIs refuse a tool, a line each that
// begins with the APIs.
func (l listing) refusalsOf(t gateway.InspectedTool) (texts []string) {
	var by remarks
	for _, r := range l.refusals(t) {
		by.add(r.API, r.Problem)
	}
	for _, problem := range by.texts {
		texts = append(texts, strings.Join(by.names[problem], " and ")+": "+problem)
	}
	return texts
}

// hasProperty reports whether a definition's input schema has the property itself.
func hasProperty(definition []byte, path []string) bool {
	def, err := rawjson.Parse(definition)
	if err != nil {
		return false
	}
	schema := def.Get("inputSchema")
	for _, name := range path {
		schema = schema.Get("properties").Get(name)
	}
	return schema != nil
}

// remarks are texts on tools, and which tools each is on, in the order in which
// they were first made.
type remarks struct {
	texts []string
	names map[string][]string
}

func (r *remarks) add(name, text string) {
	if r.names == nil {
		r.names = map[string][]string{}
	}
	if _, known := r.names[text]; !known {
		r.texts = append(r.texts, text)
	}
	if !slices.Contains(r.names[text], name) {
		r.names[text] = append(r.names[text], name)
	}
}

// maxNamed is how many tools are named in one remark.
const maxNamed = 5

// under returns the remarks, a line each, under a heading; nothing where there are
// none.
func (r *remarks) under(heading string) string {
	if len(r.texts) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n" + styleStrong.Render(heading) + "\n")
	for _, text := range r.texts {
		names := r.names[text]
		line := strings.Join(names[:min(len(names), maxNamed)], ", ")
		if more := len(names) - maxNamed; more > 0 {
			line += fmt.Sprintf(" and %d more", more)
		}
		if text != "" {
			line += ": " + text
		}
		b.WriteString("  " + plain(line) + "\n")
	}
	return b.String()
}
