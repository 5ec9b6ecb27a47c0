package toolschema

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

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

// A Dropped tool is one that is not offered. Its Problem says why; its Name is
// empty where none could be read.
type Dropped struct {
	Tool
	Place int // among all tools of the page, from 0
}

// RewritePage rewrites the tools of a tools/list result. A tool that is not
// offered does not disturb the others: one whose definition cannot be read, or
// one with a Problem where the policy is OnProblemOmit. RewritePage fails only
// where the result has no list of tools.
func (p Policy) RewritePage(result []byte) (Page, error) {
	list, err := rawjson.Parse(result)
	if err != nil {
		return Page{}, fmt.Errorf("tools/list result: %w", err)
	}
	tools := list.Get("tools")
	if name, ok := list.Repeated(); ok {
		return Page{}, fmt.Errorf("tools/list result: %w", &rawjson.DuplicateError{Name: shorten(name)})
	}
	if !tools.IsArray() {
		return Page{}, errors.New("tools/list result without a list of tools")
	}
	page := Page{}
	var edits rawjson.Edits
	var omitted []int
	for i, definition := range tools.Elements() {
		t, err := p.rewrite(definition)
		if err != nil {
			t.Problem = err.Error()
		}
		if err != nil || t.Problem != "" && p.OnProblem == OnProblemOmit {
			page.Dropped = append(page.Dropped, Dropped{t, i})
			omitted = append(omitted, i)
			continue
		}
		page.Tools = append(page.Tools, t)
		if !bytes.Equal(t.Definition, definition.Raw()) {
			edits.Replace(definition.Start, definition.End, t.Definition)
		}
	}
	edits.RemoveElements(tools, omitted...)
	page.Result = slices.Concat(result[:list.Start], edits.Apply(list), result[list.End:])
	return page, nil
}

// AppendTool adds a tool at the end of a tools/list result.
func AppendTool(result []byte, definition []byte) ([]byte, error) {
	list, err := rawjson.ParseObject(result)
	if err != nil {
		return nil, fmt.Errorf("tools/list result: %w", err)
	}
	raw, _ := list.Get("tools")
	tools, err := rawjson.AppendElement(raw, definition)
	if err != nil {
		return nil, fmt.Errorf("tools of a tools/list result: %w", err)
	}
	return list.Set("tools", tools), nil
}
