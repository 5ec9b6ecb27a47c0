package gateway

import (
	"bytes"
	"strconv"
	"sync"
	"time"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// progress finds whom the upstream's progress concerns. Clients choose their
// progress tokens, and two may choose the same; so the upstream gets one of ours
// with each request, and the caller's is put back. It knows who waits for the
// upstream, with a token or without. The zero value is ready to use.
type progress struct {
	mu   sync.Mutex
	last int
	open map[string]follower // by jsonrpc.IDKey of our token
	lost time.Time           // when a request was given up without an answer
}

// straysFor is for how long the upstream may go on with a request that was given up.
const straysFor = time.Hour

// A follower hears of the progress of one request.
type follower struct {
	token []byte // the caller's, as written; nil: it wants no progress
	hear  func(jsonrpc.Message)
	renew func() // may be nil
}

// follow returns the request as the upstream gets it. A request that asks for no
// progress is returned as it is. The follower hears of the request until stop is
// called.
func (p *progress) follow(request jsonrpc.Message, hear func(jsonrpc.Message), renew func()) (followed jsonrpc.Message, stop func()) {
	params, token := progressToken(request.Params)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == nil {
		p.open = map[string]follower{}
	}
	p.last++
	ours := strconv.AppendInt(nil, int64(p.last), 10)
	key := jsonrpc.IDKey(ours)
	stop = func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.open, key)
	}
	if token == nil {
		p.open[key] = follower{hear: hear}
		return request, stop
	}
	p.open[key] = follower{token.Raw(), hear, renew}
	var edits rawjson.Edits
	edits.Replace(token.Start, token.End, ours)
	return request.With("params", edits.Apply(params)), stop
}

// givenUp notes that a request was given up without an answer.
func (p *progress) givenUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost = time.Now()
}

// alone returns who hears of the one request that the upstream can be busy with; nil
// where there is none, or more than one.
func (p *progress) alone() (hear func(jsonrpc.Message)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.open) != 1 || time.Since(p.lost) < straysFor {
		return nil
	}
	for _, f := range p.open {
		hear = f.hear
	}
	return hear
}

// progressToken finds the token that a request's params have, or nil.
func progressToken(raw []byte) (params, token *rawjson.Value) {
	if !bytes.Contains(raw, []byte(`progressToken`)) && !bytes.Contains(raw, []byte(`\u`)) {
		return nil, nil
	}
	params, err := rawjson.ParseTo(raw, 2)
	if err != nil {
		return nil, nil
	}
	return params, params.Get("_meta").Get("progressToken")
}

// heard takes a notification of progress from the upstream. Progress of a request
// that nobody follows any more concerns nobody.
func (p *progress) heard(m jsonrpc.Message) {
	params, err := rawjson.ParseTo(m.Params, 1)
	if err != nil {
		return
	}
	token := params.Get("progressToken")
	if token == nil {
		return
	}
	p.mu.Lock()
	f, ok := p.open[jsonrpc.IDKey(token.Raw())]
	p.mu.Unlock()
	if !ok || f.token == nil {
		return
	}
	if f.renew != nil {
		f.renew()
	}
	var edits rawjson.Edits
	edits.Replace(token.Start, token.End, f.token)
	f.hear(m.With("params", edits.Apply(params)))
}
