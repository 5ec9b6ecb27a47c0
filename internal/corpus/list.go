package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
	"github.com/mcp-idem/mcp-idem/upstream"
)

// handshake is what we say of ourselves: no capabilities, so that what is listed
// is what every client gets.
const handshake = `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"mcp-idem-corpus","version":"1"}}`

// maxPages is the number of pages that are read before a server is taken to give
// cursors for ever.
const maxPages = 1000

// listTools makes the handshake and returns the result of tools/list. It leaves
// the process running.
func listTools(ctx context.Context, p *upstream.Process) (listing, error) {
	m, err := p.Initialize(ctx, []byte(handshake))
	if err != nil {
		return listing{}, err
	}
	if _, err := resultOf(m); err != nil {
		return listing{}, fmt.Errorf("initialize: %w", err)
	}
	if err := p.Initialized(jsonrpc.Notification("notifications/initialized", nil)); err != nil {
		return listing{}, err
	}
	s, err := p.Ready(ctx)
	if err != nil {
		return listing{}, err
	}
	pages, err := readPages(func(cursor []byte) ([]byte, error) { return ask(ctx, s, cursor) })
	if err != nil {
		return listing{}, fmt.Errorf("tools/list: %w", err)
	}
	return join(pages)
}

// readPages asks for page after page. A nil cursor stands for the first.
func readPages(ask func(cursor []byte) (result []byte, err error)) (pages []page, err error) {
	var cursor []byte
	for range maxPages {
		result, err := ask(cursor)
		if err != nil {
			return nil, err
		}
		p, err := parsePage(result)
		if err != nil {
			return nil, fmt.Errorf("page %d: %w", len(pages)+1, err)
		}
		pages = append(pages, p)
		if cursor = p.next; cursor == nil {
			return pages, nil
		}
	}
	return nil, fmt.Errorf("it has more than %d pages", maxPages)
}

// ask asks for one page.
func ask(ctx context.Context, s upstream.Session, cursor []byte) ([]byte, error) {
	params := []byte(`{}`)
	if cursor != nil {
		params = fmt.Appendf(nil, `{"cursor":%s}`, cursor)
	}
	call, err := s.Send(ctx, jsonrpc.Request([]byte("0"), "tools/list", params))
	if err != nil {
		return nil, err
	}
	m, err := call.Wait(ctx)
	if err != nil {
		return nil, err
	}
	return resultOf(m)
}

func resultOf(m jsonrpc.Message) ([]byte, error) {
	if m.Result != nil {
		return m.Result, nil
	}
	if err, ok := jsonrpc.ParseError(m.Error); ok {
		return nil, err
	}
	return nil, fmt.Errorf("the answer is neither a result nor an error: %s", m.Error)
}

// A page is one result of tools/list.
type page struct {
	result []byte
	object rawjson.Object
	tools  [][]byte // as written
	next   []byte   // the cursor of the next page, as written; nil on the last
}

// parsePage checks what the rules of tools/list demand of a result, as far as a
// reader of the corpus relies on it: a list of objects with names.
func parsePage(result []byte) (p page, err error) {
	p.result = result
	if p.object, err = rawjson.ParseObject(result); err != nil {
		return p, err
	}
	list, ok := p.object.Get("tools")
	if !ok {
		return p, errors.New("it has no member tools")
	}
	if p.tools, err = rawjson.ParseArray(list); err != nil {
		return p, fmt.Errorf("tools: %w", err)
	}
	for i, raw := range p.tools {
		tool, err := rawjson.ParseObject(raw)
		if err != nil {
			return p, fmt.Errorf("tool %d: %w", i+1, err)
		}
		if name, _ := tool.String("name"); name == "" {
			return p, fmt.Errorf("tool %d has no name", i+1)
		}
	}
	// Some servers end their pages with null or an empty cursor.
	if next, _ := p.object.String("nextCursor"); next != "" {
		p.next, _ = p.object.Get("nextCursor")
	}
	return p, nil
}
