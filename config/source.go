package config

import (
	"bytes"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"unicode/utf8"
)

// MaxBytes is the size of the largest file that is read.
const MaxBytes = 4 << 20

// A source is the text of a file.
type source struct {
	data   []byte
	starts []int // of the lines
}

func newSource(data []byte) source {
	s := source{data: data, starts: []int{0}}
	for i, c := range data {
		if c == '\n' {
			s.starts = append(s.starts, i+1)
		}
	}
	return s
}

// position tells where an offset is.
func (s source) position(offset int) position {
	offset = min(max(offset, 0), len(s.data))
	line := sort.SearchInts(s.starts, offset+1)
	return position{line, utf8.RuneCount(s.data[s.starts[line-1]:offset]) + 1}
}

// parseTree reads a file in the format that its name says, or else its text. It
// returns nil where it has added an error.
func parseTree(data []byte, f *faults) *node {
	if len(data) > MaxBytes {
		f.add(position{}, "it has more than %d MiB; a file of servers is smaller", MaxBytes>>20)
		return nil
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if !utf8.Valid(data) {
		f.add(newSource(data).position(invalidAt(data)), "the text is not in UTF-8; save the file as UTF-8")
		return nil
	}
	var root *node
	switch formatOf(f.file, data) {
	case formatTOML:
		f.add(position{1, 1}, "this is TOML, as Codex has it, which is not read; write the servers as YAML or JSON")
		return nil
	case formatJSON:
		root = parseJSON(data, f)
	default:
		root = parseYAML(data, f)
	}
	switch {
	case len(f.list) > 0 && root == nil:
		return nil
	case root == nil || root.kind == kindNull:
		f.add(position{1, 1}, "the file is empty; give mcpServers, an object with each server by its name")
		return nil
	case root.kind != kindObject:
		f.add(root.at, "the file is no object; give one with the member mcpServers, an object with each server by its name")
		return nil
	}
	return root
}

func invalidAt(data []byte) int {
	at := 0
	for {
		r, size := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && size <= 1 {
			return at
		}
		at += size
	}
}

type format int

const (
	formatYAML format = iota
	formatJSON
	formatTOML
)

var (
	looksLikeJSON = regexp.MustCompile(`^\s*(\{|//|/\*)`)
	looksLikeTOML = regexp.MustCompile(`^(\s|#.*\n)*(\[\[?[\w."' -]+\]|[\w."-]+\s*=)`)
)

func formatOf(name string, data []byte) format {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".json", ".jsonc", ".json5":
		return formatJSON
	case ".yaml", ".yml":
		return formatYAML
	case ".toml":
		return formatTOML
	}
	switch {
	case looksLikeJSON.Match(data):
		return formatJSON
	case looksLikeTOML.Match(data):
		return formatTOML
	}
	return formatYAML
}
