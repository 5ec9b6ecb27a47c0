package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"github.com/mcp-idem/mcp-idem/internal/conformance/suite"
)

// A column is what was measured at one place.
type column struct {
	place  suite.Place
	report suite.Report // nil where the run failed, for which err says why
	err    error
}

// A sheet is one run at all places. The first column is the direct one.
type sheet struct {
	run      suite.Run
	columns  []column
	expected []suite.Expectation
}

// measure makes a run at the places. What fails at one of them is in the sheet; an
// error is that there is nothing to compare with.
func (s settings) measure(ctx context.Context, kit *suite.Kit, run suite.Run, folder string) (sheet, error) {
	made := sheet{run: run, expected: s.expected}
	for _, place := range append([]suite.Place{suite.Direct}, suite.Places...) {
		if place.Name != suite.Direct.Name && !s.places.selects(place.Name) {
			continue
		}
		report, err := kit.Measure(ctx, run, place, filepath.Join(folder, place.Name))
		made.columns = append(made.columns, column{place: place, report: report, err: err})
	}
	return made, made.columns[0].err
}

// print prints how many checks pass and fail, in all and for each scenario that
// differs somewhere, and then the checks that do.
func (s sheet) print(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "\n%s", s.run.Name)
	for _, c := range s.columns {
		fmt.Fprintf(table, "\t%s", c.place.Name)
	}
	fmt.Fprintln(table)
	for _, scenario := range s.differing() {
		s.printRow(table, scenario)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, c := range s.columns[1:] {
		s.printChecks(out, c)
	}
	return nil
}

// differing are the scenarios to print: all together, which is named "", and those
// that are somewhere not as directly.
func (s sheet) differing() []string {
	scenarios := []string{""}
	for _, c := range s.columns[1:] {
		for _, d := range s.differences(c) {
			scenarios = append(scenarios, d.Scenario)
		}
	}
	slices.Sort(scenarios)
	return slices.Compact(scenarios)
}

func (s sheet) differences(c column) []suite.Difference {
	if c.err != nil {
		return nil
	}
	return suite.Compare(s.columns[0].report, c.report)
}

func (s sheet) printRow(table io.Writer, scenario string) {
	if scenario == "" {
		fmt.Fprint(table, "passed/failed")
	}
	fmt.Fprint(table, scenario)
	for _, c := range s.columns {
		cell := "not run"
		if c.err == nil {
			cell = fmt.Sprintf("%d/%d", c.report.Count(scenario, suite.Success), c.report.Count(scenario, suite.Failure))
		}
		fmt.Fprintf(table, "\t%s", cell)
	}
	fmt.Fprintln(table)
}

// printChecks prints the checks that are worse at a place, and that nobody expects
// to be; of those that are expected, and of better ones, only how many there are.
func (s sheet) printChecks(out io.Writer, c column) {
	if c.err != nil {
		fmt.Fprintf(out, "  %s: not run: %v\n", c.place.Name, c.err)
		return
	}
	better, expected := 0, 0
	for _, d := range s.differences(c) {
		switch {
		case !d.Worse():
			better++
		case s.expects(c.place, d):
			expected++
		default:
			fmt.Fprintf(out, "  %s: WORSE: %s: %s is %s, directly %s; %s\n", c.place.Name, d.Scenario, d.Check, d.Here, d.Direct, d.Words)
		}
	}
	if better+expected > 0 {
		fmt.Fprintf(out, "  %s: %d checks worse as expected, %d better\n", c.place.Name, expected, better)
	}
}

func (s sheet) expects(place suite.Place, d suite.Difference) bool {
	return slices.ContainsFunc(s.expected, func(e suite.Expectation) bool { return e.Covers(s.run, place, d) })
}

// worse reports whether something is worse than it is expected to be, or was not run.
func (s sheet) worse() bool {
	return slices.ContainsFunc(s.columns[1:], func(c column) bool {
		return c.err != nil || slices.ContainsFunc(s.differences(c), func(d suite.Difference) bool {
			return d.Worse() && !s.expects(c.place, d)
		})
	})
}
