package config

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A reader turns the tree of a file into what the file says.
type reader struct {
	dir      string
	env      func(string) (string, bool)
	faults   *faults
	file     *File
	server   string // whose members are read; "" at the top
	openCode bool   // the servers are where opencode keeps them
}

// fault adds an error, with the server's name where it is one's.
func (r *reader) fault(at position, format string, args ...any) {
	r.faults.add(at, "%s", r.said(format, args...))
}

// note tells the user something that is no error.
func (r *reader) note(at position, format string, args ...any) {
	e := Error{File: r.faults.file, Line: at.line, Column: at.column, Problem: r.said(format, args...)}
	r.file.Notes = append(r.file.Notes, e.Error())
}

func (r *reader) said(format string, args ...any) string {
	text := fmt.Sprintf(format, args...)
	if r.server != "" {
		return fmt.Sprintf("server %q: %s", r.server, text)
	}
	return text
}

// A read is what reads a member's value. Where the value is bad it adds an error.
type read func(name string, n *node)

// members are the members that an object may have, and what reads each.
type members map[string]read

func (m members) names() []string { return slices.Sorted(maps.Keys(m)) }

// with are the members of both.
func (m members) with(other members) members {
	all := maps.Clone(m)
	maps.Copy(all, other)
	return all
}

// block reads an object, called what, that may have no other members; misplaced says
// of some names where they belong.
func (r *reader) block(n *node, what string, known members, misplaced map[string]string) {
	if n.kind != kindObject {
		r.fault(n.at, "%s is no object; give its members, or leave it out", what)
		return
	}
	for _, m := range n.members {
		reads, ok := known[m.name]
		where, elsewhere := misplaced[m.name]
		near := nearest(m.name, known.names())
		switch {
		case ok && m.value.kind == kindNull:
			r.fault(m.value.at, "%s has no value; give one, or leave it out", m.name)
		case ok:
			reads(m.name, m.value)
		case elsewhere:
			r.fault(m.at, "%s has no member %s; %s", what, m.name, where)
		case near != "":
			r.fault(m.at, "%s has no member %q; perhaps %s is meant", what, m.name, near)
		default:
			r.fault(m.at, "%s has no member %q; it may have %s", what, m.name, strings.Join(known.names(), ", "))
		}
	}
}

// text is a text with its variables put in; a number or a boolean is the text that is
// written. It adds an error, and is not ok, where there is none or it is empty.
func (r *reader) text(name string, n *node) (string, bool) {
	text, ok := r.anyText(name, n)
	if ok && text == "" {
		r.fault(n.at, "%s is empty; give a value, or leave it out", name)
		return "", false
	}
	return text, ok
}

// anyText is a text that may be empty.
func (r *reader) anyText(name string, n *node) (string, bool) {
	if !n.isScalar() {
		r.fault(n.at, "%s is no text; give one, in quotes", name)
		return "", false
	}
	if r.openCode && r.server != "" && openCode.MatchString(n.text) {
		r.fault(n.at, "%s: {env:VAR} and {file:PATH} are only opencode's; %s", name, spellings)
		return "", false
	}
	text, err := Expand(n.text, r.env)
	switch {
	case err != nil:
		r.fault(n.at, "%s: %s", name, err)
		return "", false
	case strings.ContainsRune(text, 0):
		r.fault(n.at, "%s has a NUL character in it; take it out", name)
		return "", false
	}
	return text, true
}

// texts is a list of texts, called name; empty ones are allowed.
func (r *reader) texts(name string, n *node) (list []string) {
	if n.kind != kindList {
		r.fault(n.at, "%s is no list; give one: [\"a\", \"b\"]", name)
		return nil
	}
	for i, item := range n.items {
		if text, ok := r.anyText(fmt.Sprintf("%s[%d]", name, i), item); ok {
			list = append(list, text)
		}
	}
	return list
}

// truth is true or false.
func (r *reader) truth(name string, n *node) (value, ok bool) {
	if !n.isTrue() && !n.isFalse() {
		r.fault(n.at, "%s is neither true nor false; give one of them, without quotes", name)
		return false, false
	}
	return n.isTrue(), true
}

// path is a path that counts from the file's folder.
func (r *reader) path(name string, n *node) (string, bool) {
	text, ok := r.text(name, n)
	switch {
	case !ok:
		return "", false
	case text == "~" || strings.HasPrefix(text, "~/"):
		r.fault(n.at, "%s begins with ~, which only a shell knows; write ${HOME}", name)
		return "", false
	case filepath.IsAbs(text), os.IsPathSeparator(text[0]): // the latter, on Windows, of the current drive
		return filepath.Clean(text), true
	}
	return filepath.Join(r.dir, text), true
}

// What follows makes what reads a member into a variable.

func (r *reader) toText(to *string) read {
	return func(name string, n *node) {
		if text, ok := r.text(name, n); ok {
			*to = text
		}
	}
}

func (r *reader) toPath(to *string) read {
	return func(name string, n *node) {
		if text, ok := r.path(name, n); ok {
			*to = text
		}
	}
}

func (r *reader) toTruth(to *bool) read {
	return func(name string, n *node) {
		if value, ok := r.truth(name, n); ok {
			*to = value
		}
	}
}

// toSpan reads a length of time that is greater than zero.
func (r *reader) toSpan(to *time.Duration) read {
	return func(name string, n *node) {
		if d, ok := r.duration(name, n); ok && d <= 0 {
			r.fault(n.at, "%s: %s is no length of time that anything fits into; give for instance 30s", name, shown(n))
		} else if ok {
			*to = d
		}
	}
}

// toSpanOrNone reads a length of time that may be zero, which becomes -1.
func (r *reader) toSpanOrNone(to *time.Duration) read {
	return func(name string, n *node) {
		switch d, ok := r.duration(name, n); {
		case !ok:
		case d < 0:
			r.fault(n.at, "%s: %s is less than nothing; give for instance 1h, or 0 for not at all", name, shown(n))
		case d == 0:
			*to = -1
		default:
			*to = d
		}
	}
}

var days = regexp.MustCompile(`^(\d{1,5})d$`)

// duration reads time.ParseDuration's syntax, which is that of the flags.
func (r *reader) duration(name string, n *node) (time.Duration, bool) {
	text, ok := r.text(name, n)
	if !ok {
		return 0, false
	}
	d, err := time.ParseDuration(text)
	if err == nil {
		return d, true
	}
	advice := "give for instance 90s, 10m or 168h"
	if match := days.FindStringSubmatch(text); match != nil {
		count, _ := strconv.Atoi(match[1]) // five digits at most
		advice = fmt.Sprintf("there is no unit for days; give %dh", 24*count)
	}
	r.fault(n.at, "%s: %s is no length of time; %s", name, shown(n), advice)
	return 0, false
}

// toWord reads one of some words.
func toWord[W ~string](r *reader, to *W, words ...W) read {
	return func(name string, n *node) {
		text, ok := r.text(name, n)
		if !ok {
			return
		}
		if slices.Contains(words, W(text)) {
			*to = W(text)
			return
		}
		var list []string
		for _, w := range words {
			list = append(list, string(w))
		}
		advice := "give one of them"
		if near := nearest(text, list); near != "" {
			advice = "perhaps " + near + " is meant"
		}
		r.fault(n.at, "%s: %s is none of %s; %s", name, shown(n), strings.Join(list, ", "), advice)
	}
}

// toPatterns reads a list of regular expressions.
func (r *reader) toPatterns(to *[]*regexp.Regexp) read {
	return func(name string, n *node) {
		if n.kind != kindList {
			r.fault(n.at, "%s is no list; give one of regular expressions", name)
			return
		}
		list := []*regexp.Regexp{} // an empty one too takes the place of the top's
		for _, item := range n.items {
			text, ok := r.text(name, item)
			if !ok {
				continue
			}
			pattern, err := regexp.Compile(text)
			if err != nil {
				r.fault(item.at, "%s: %s is no regular expression; see https://pkg.go.dev/regexp/syntax", name, shown(item))
				continue
			}
			list = append(list, pattern)
		}
		*to = list
	}
}

// shown is a setting as it is written, for an error: with the names of variables, not
// with their values.
func shown(n *node) string {
	const longest = 40
	if text := []rune(n.text); len(text) > longest {
		return strconv.Quote(string(text[:longest]) + "…")
	}
	return strconv.Quote(n.text)
}

// validGlob reports whether path.Match, which decides what a pattern names, knows it.
func validGlob(pattern string) bool {
	_, err := path.Match(pattern, "")
	return err == nil && pattern != ""
}
