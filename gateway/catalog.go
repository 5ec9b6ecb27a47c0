package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
	"github.com/mcp-idem/mcp-idem/toolschema"
)

// MaxToolPages is how many pages of tools/list are read from an upstream.
const MaxToolPages = 1000

var errNoSuchTool = errors.New("no such tool")

// A catalog is the upstream's tools as they are offered. It is read when it is
// first needed, and again when the upstream says that its tools have changed;
// while the upstream is down, the last good one stays.
type catalog struct {
	g          *Gateway
	flight     singleflight.Group
	refreshing sync.Mutex

	mu      sync.Mutex
	read    *tools   // nil until it was read once
	offered *tools   // what the client knows of: the first reading, or what it was told of since
	stale   bool     // the upstream has said that its tools have changed
	counted [2]int   // tools, and those with keys, that the operator was told of
	noted   []string // native keys that the operator was told of
	// unmatched are patterns of the operator's that name no tool.
	unmatched []string
}

// tools is one reading of all pages. It is never changed.
type tools struct {
	pages   []page
	byName  map[string]toolschema.Tool
	dropped map[string]string // why a tool is not offered
}

type page struct {
	cursor string // the one that asks for it; empty for the first
	result []byte
}

func newCatalog(g *Gateway) *catalog { return &catalog{g: g} }

// find returns a tool, or errNoSuchTool. A name that is not known is looked for
// in a fresh reading, since upstreams change their tools without a word; and so
// is every name where they have changed with one. stale says that the tool is
// what it was before that, because there is no fresh reading to be had.
func (c *catalog) find(ctx context.Context, name string) (tool toolschema.Tool, stale bool, err error) {
	last, stale := c.current()
	if last != nil && !stale {
		if tool, ok := last.byName[name]; ok {
			return tool, false, nil
		}
	}
	limit, cancel := context.WithTimeout(ctx, c.g.options.ReachWithin)
	defer cancel()
	if last == nil { // as long as it takes: nothing is known yet
		limit = ctx
	}
	read, err := c.reread(limit)
	if err != nil {
		if last != nil {
			if tool, ok := last.byName[name]; ok {
				return tool, true, nil
			}
		}
		return toolschema.Tool{}, false, err
	}
	if tool, ok := read.byName[name]; ok {
		return tool, false, nil
	}
	return toolschema.Tool{}, false, errNoSuchTool
}

// list is the response to a tools/list.
func (c *catalog) list(ctx context.Context, request jsonrpc.Message) jsonrpc.Message {
	read, err := c.get(ctx)
	var refused *jsonrpc.Error
	switch {
	case errors.As(err, &refused):
		return jsonrpc.ErrorReply(request.ID, refused)
	case err != nil:
		return jsonrpc.ErrorReply(request.ID, unavailable(err))
	}
	cursor, err := cursorOf(request.Params)
	if err != nil {
		return jsonrpc.ErrorReply(request.ID, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "tools/list: " + err.Error()})
	}
	for _, p := range read.pages {
		if p.cursor == cursor {
			if cursor == "" { // from here on the client goes through this reading
				c.offer(read)
			}
			return jsonrpc.Result(request.ID, p.result)
		}
	}
	return jsonrpc.ErrorReply(request.ID, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "tools/list: unknown cursor"})
}

// get returns the tools, read anew if they may have changed and the upstream can
// be asked.
func (c *catalog) get(ctx context.Context) (*tools, error) {
	read, stale := c.current()
	if read != nil && !stale {
		return read, nil
	}
	again, err := c.reread(ctx)
	if err != nil && read != nil {
		return read, nil // the last good one stays
	}
	return again, err
}

// reread asks the upstream for all pages, once for all who want them.
func (c *catalog) reread(ctx context.Context) (*tools, error) {
	answer := c.flight.DoChan("tools/list", func() (any, error) {
		ctx, cancel := context.WithTimeout(c.g.life, listWithin)
		defer cancel()
		c.mu.Lock()
		c.stale = false // what changes from now on makes it stale again
		c.mu.Unlock()
		read, err := c.readAll(ctx, func([]byte) {})
		c.mu.Lock()
		defer c.mu.Unlock()
		if err != nil {
			c.stale = true
			return nil, err
		}
		c.read = read
		if c.offered == nil {
			c.offered = read
		}
		c.note(read)
		return read, nil
	})
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case got := <-answer:
		if got.Err != nil {
			return nil, got.Err
		}
		return got.Val.(*tools), nil
	}
}

// invalidate notes that the upstream's tools may have changed.
func (c *catalog) invalidate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stale = true
}

// refresh reads the tools anew, if they may have changed, and reports whether what
// is offered differs from what was. Of several at once, one reads and reports; the
// others find nothing to do.
func (c *catalog) refresh(ctx context.Context) bool {
	c.refreshing.Lock()
	defer c.refreshing.Unlock()
	after, stale := c.current()
	if after == nil {
		return true // nobody has asked for them yet; who does gets what is there now
	}
	for ; stale; _, stale = c.current() { // again, if they change while they are read
		var err error
		if after, err = c.reread(ctx); err != nil {
			return false
		}
	}
	before := c.offer(after)
	return !slices.EqualFunc(before.pages, after.pages, func(a, b page) bool {
		return a.cursor == b.cursor && bytes.Equal(a.result, b.result)
	})
}

// offer notes what the client knows of from now on, and returns what it knew of.
// That is not always the newest reading but one: calls have the tools read too.
func (c *catalog) offer(read *tools) (before *tools) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, c.offered = c.offered, read
	return before
}

func (c *catalog) current() (read *tools, stale bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read, c.stale
}

// readAll reads all pages, and shows each to see as it came.
func (c *catalog) readAll(ctx context.Context, see func(result []byte)) (*tools, error) {
	read := &tools{byName: map[string]toolschema.Tool{}, dropped: map[string]string{}}
	for cursor, more := "", true; more; {
		if len(read.pages) == MaxToolPages {
			return nil, fmt.Errorf("the server's tools/list has more than %d pages", MaxToolPages)
		}
		result, err := c.ask(ctx, cursor)
		if err != nil {
			return nil, err
		}
		see(result)
		if cursor, more, err = c.add(read, cursor, result); err != nil {
			return nil, err
		}
	}
	if !c.g.isOneOfSeveral() && read.isKeyed(c.g.options.Policy.OnProblem) {
		return read, c.addStatusTool(read)
	}
	return read, nil
}

// add rewrites a page and adds it; it returns the cursor of the next one.
func (c *catalog) add(read *tools, cursor string, result []byte) (next string, more bool, err error) {
	rewritten, err := c.g.options.Policy.RewritePage(result)
	if err != nil {
		return "", false, fmt.Errorf("the server's tools/list cannot be read: %w", err)
	}
	for _, tool := range rewritten.Tools {
		if other, twice := read.byName[tool.Name]; twice {
			c.g.log.Warn().Str("tool", tool.Name).Msg("the server lists two tools of one name; its calls are guarded as the stricter of the two")
			tool = toolschema.Stricter(other, tool)
		}
		read.byName[tool.Name] = tool
		if tool.Problem != "" {
			c.g.log.Warn().Str("tool", tool.Name).Str("problem", tool.Problem).Str("on_problem", string(c.g.options.Policy.OnProblem)).Msg("a tool cannot be given a key")
		}
	}
	for _, dropped := range rewritten.Dropped {
		c.g.log.Warn().Str("tool", dropped.Name).Str("problem", dropped.Problem).Msg("a tool is not offered")
		read.dropped[dropped.Name] = dropped.Problem
	}
	o, err := rawjson.ParseObject(rewritten.Result)
	if err != nil {
		return "", false, err
	}
	offered := page{cursor: cursor, result: rewritten.Result}
	next, _ = o.String("nextCursor")
	if next != "" && (next == cursor || slices.ContainsFunc(read.pages, func(p page) bool { return p.cursor == next })) {
		next, offered.result = "", o.Without("nextCursor") // it leads back: whoever follows it never ends
	}
	read.pages = append(read.pages, offered)
	return next, next != "", nil
}

// note tells the operator, once for each change of them, how many tools there are, of
// patterns that name none, and of tools that take a key of their own which nobody has said anything
// about.
func (c *catalog) note(read *tools) {
	if keyed := read.countKeyed(); c.counted != [2]int{len(read.byName), keyed} {
		c.counted = [2]int{len(read.byName), keyed}
		c.g.log.Info().Int("tools", len(read.byName)).Int("keyed", keyed).Msg("the upstream's tools are known")
	}
	var found []string
	names := slices.Sorted(maps.Keys(read.byName))
	unmatched := c.g.options.Unmatched(append(slices.Collect(maps.Keys(read.dropped)), names...))
	if len(unmatched) > 0 && !slices.Equal(unmatched, c.unmatched) {
		c.g.log.Warn().Strs("patterns", unmatched).Msg("the server has no tool that these patterns name; check --class and --native-key, or the tools in the configuration")
	}
	c.unmatched = unmatched
	for _, name := range names {
		tool := read.byName[name]
		for _, native := range tool.Natives {
			if !native.Configured && tool.Class != toolschema.ClassDeduplicate {
				found = append(found, name+": "+native.String())
			}
		}
	}
	if slices.Equal(found, c.noted) {
		return
	}
	if c.noted = found; len(found) > 0 {
		c.g.log.Info().Strs("native_keys", found).Msg("tools take a key of their own, and get one derived from the caller's; " +
			"if the server honours it, --class NAME=DEDUPLICATE lets a call of which nothing is known be sent again")
	}
}

// countKeyed counts the tools whose calls need a key.
func (t *tools) countKeyed() (n int) {
	for _, tool := range t.byName {
		if tool.Keyed() {
			n++
		}
	}
	return n
}

// isKeyed reports whether any tool can be called with a key.
func (t *tools) isKeyed(onProblem toolschema.OnProblem) bool {
	for _, tool := range t.byName {
		if tool.Keyed() && (tool.Problem == "" || onProblem == toolschema.OnProblemHarness) {
			return true
		}
	}
	return false
}

// addStatusTool adds the gateway's own tool to the last page, where the upstream has
// none of that name.
func (c *catalog) addStatusTool(read *tools) error {
	_, taken := read.byName[c.g.statusTool()]
	_, dropped := read.dropped[c.g.statusTool()]
	if taken || dropped {
		return nil
	}
	last := &read.pages[len(read.pages)-1]
	result, err := toolschema.AppendTool(last.result, statusDefinition(c.g.statusTool()))
	if err != nil {
		return err
	}
	last.result = result
	return nil
}

// known is what is known of a tool without asking; zero where nothing is.
func (c *catalog) known(name string) toolschema.Tool {
	read, _ := c.current()
	if read == nil {
		return toolschema.Tool{}
	}
	return read.byName[name]
}

// whyDropped says why a tool of the upstream's is not offered, "" where it has
// none of the name.
func (c *catalog) whyDropped(name string) string {
	read, _ := c.current()
	if read == nil {
		return ""
	}
	return read.dropped[name]
}

// ask asks the upstream for one page.
func (c *catalog) ask(ctx context.Context, cursor string) ([]byte, error) {
	reach, cancel := context.WithTimeout(ctx, c.patience())
	session, err := c.g.server.Ready(reach)
	cancel()
	if err != nil {
		return nil, err
	}
	var params []byte
	if cursor != "" {
		params = append(append([]byte(`{"cursor":`), rawjson.Quote(cursor)...), '}')
	}
	call, err := session.Send(ctx, jsonrpc.Request([]byte("0"), "tools/list", params))
	if err != nil {
		return nil, err
	}
	defer call.Forget()
	answer, err := call.Wait(ctx)
	if err != nil {
		return nil, err
	}
	if refused, ok := jsonrpc.ParseError(answer.Error); ok {
		return nil, refused
	}
	return answer.Result, nil
}

// patience is how long the upstream is waited for: not long where there is a list
// to fall back on.
func (c *catalog) patience() time.Duration {
	if read, _ := c.current(); read != nil {
		return min(time.Second, c.g.options.ReachWithin)
	}
	return c.g.options.ReachWithin
}

func cursorOf(params []byte) (string, error) {
	if params == nil {
		return "", nil
	}
	o, err := rawjson.ParseObject(params)
	if err != nil {
		return "", err
	}
	value, ok := o.Get("cursor")
	if !ok {
		return "", nil
	}
	cursor, ok := rawjson.Unquote(value)
	if !ok {
		return "", errors.New("the cursor is no string")
	}
	return cursor, nil
}
