package main

import (
	"bytes"
	"errors"

	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// A listing is all that a server has to say about its tools.
type listing struct {
	result    []byte // of tools/list
	tools     int
	annotated int // tools with at least one annotation
}

// join makes one result of the pages. One page is itself; several become the
// first, with all tools in its list and without its cursor.
func join(pages []page) (listing, error) {
	l := listing{result: pages[0].result}
	var all [][]byte
	for _, p := range pages {
		all = append(all, p.tools...)
	}
	if len(all) == 0 {
		return listing{}, errors.New("it lists no tools; it may want other args or env")
	}
	if len(pages) > 1 {
		list := append(append([]byte{'['}, bytes.Join(all, []byte{','})...), ']')
		whole, err := rawjson.ParseObject(pages[0].object.Set("tools", list))
		if err != nil {
			return listing{}, err
		}
		l.result = whole.Without("nextCursor")
	}
	for _, tool := range all {
		l.tools++
		if isAnnotated(tool) {
			l.annotated++
		}
	}
	return l, nil
}

func isAnnotated(tool []byte) bool {
	object, err := rawjson.ParseObject(tool)
	if err != nil {
		return false
	}
	raw, _ := object.Get("annotations")
	annotations, err := rawjson.ParseObject(raw)
	return err == nil && len(annotations.Members()) > 0
}
