package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// maxErrors is how many errors of a file are told at once.
const maxErrors = 20

// An Error is one thing that is wrong in a file. Its text never holds a value of an
// environment variable, a header, an argument, or more of a URL than its scheme.
type Error struct {
	File    string
	Line    int // from 1; 0 where the file as a whole is wrong
	Column  int // from 1, in characters
	Problem string
}

// Error returns FILE:LINE:COLUMN: PROBLEM, on one line.
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Problem
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Problem)
}

// A position is a place in a file; the zero value is the file as a whole.
type position struct{ line, column int }

func (p position) compare(q position) int {
	return cmp.Or(cmp.Compare(p.line, q.line), cmp.Compare(p.column, q.column))
}

// faults are what was found wrong in a file so far.
type faults struct {
	file string
	list []*Error
}

func (f *faults) add(at position, format string, args ...any) {
	f.list = append(f.list, &Error{File: f.file, Line: at.line, Column: at.column, Problem: fmt.Sprintf(format, args...)})
}

// err joins the errors in the order of the file, each once and the first of them
// only: what an alias repeats is wrong in one place.
func (f *faults) err() error {
	if len(f.list) == 0 {
		return nil
	}
	slices.SortStableFunc(f.list, func(a, b *Error) int {
		return position{a.Line, a.Column}.compare(position{b.Line, b.Column})
	})
	list := slices.CompactFunc(f.list, func(a, b *Error) bool { return *a == *b })
	if more := len(list) - maxErrors + 1; more > 1 {
		list = append(list[:maxErrors-1:maxErrors-1], &Error{File: f.file, Problem: fmt.Sprintf("%d more errors are not shown", more)})
	}
	errs := make([]error, len(list))
	for i, e := range list {
		errs[i] = e
	}
	return errors.Join(errs...)
}
