package toolschema

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// A Page is one tools/list result, ready to be offered.
type Page struct {
	// Result is the upstream's result with the offered definitions in place of
	// its own. Every other byte, the order of the tools included, is as it came.
	Result []byte
	// Tools are the tools in Result.
	Tools []Tool
	// Dropped are those that were left out.
	Dropped []Dropped
}

// A Dropped tool is one that is not offered, and why, in one line. Name is empty
// where none could be read.
type Dropped struct{ Name, Problem string }

// RewritePage rewrites the tools of a tools/list result. A tool that needs a
// key and cannot be given one is dropped and does not disturb the others. It
// fails only where the result has no list of tools.
func (p Policy) RewritePage(result []byte) (Page, error) {
	list, raw, err := toolList(result)
	if err != nil {
		return Page{}, err
	}
	elements, err := rawjson.ParseArray(raw)
	if err != nil {
		return Page{}, fmt.Errorf("tools of a tools/list result: %w", err)
	}
	page := Page{Result: result}
	definitions := make([][]byte, len(elements)) // nil for what is dropped
	changed := false
	for i, element := range elements {
		t, err := p.Rewrite(element)
		switch {
		case err != nil:
			page.Dropped = append(page.Dropped, Dropped{Problem: err.Error()})
		case t.Problem != "":
			page.Dropped = append(page.Dropped, Dropped{Name: t.Name, Problem: t.Problem})
		default:
			page.Tools = append(page.Tools, t)
			definitions[i] = t.Definition
		}
		changed = changed || !bytes.Equal(definitions[i], element)
	}
	if changed {
		page.Result = list.Set("tools", replaceElements(raw, elements, definitions))
	}
	return page, nil
}

// AppendTool adds a tool at the end of a tools/list result.
func AppendTool(result []byte, definition []byte) ([]byte, error) {
	list, raw, err := toolList(result)
	if err != nil {
		return nil, err
	}
	tools, err := rawjson.AppendElement(raw, definition)
	if err != nil {
		return nil, fmt.Errorf("tools of a tools/list result: %w", err)
	}
	return list.Set("tools", tools), nil
}

func toolList(result []byte) (list rawjson.Object, tools []byte, err error) {
	if list, err = rawjson.ParseObject(result); err != nil {
		return list, nil, fmt.Errorf("tools/list result: %w", err)
	}
	tools, ok := list.Get("tools")
	if !ok {
		return list, nil, errors.New("tools/list result without tools")
	}
	return list, tools, nil
}

// replaceElements writes an array anew with its own white space: old are its
// elements, each of which gives way to the replacement at its place, or goes
// together with the comma before it where that is nil.
func replaceElements(array []byte, old, replacements [][]byte) []byte {
	out := make([]byte, 0, len(array)+len(array)/2)
	from := bytes.IndexByte(array, '[') + 1
	out = append(out, array[:from]...)
	kept := false
	for i, element := range old {
		gap := len(array[from:]) - len(bytes.TrimLeft(array[from:], " \t\r\n,"))
		before := array[from : from+gap]
		from += gap + len(element)
		if replacements[i] == nil {
			continue
		}
		if !kept {
			before = bytes.ReplaceAll(before, []byte(","), nil)
		}
		kept = true
		out = append(append(out, before...), replacements[i]...)
	}
	return append(out, array[from:]...)
}
