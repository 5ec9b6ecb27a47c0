package gateway

import (
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
	"github.com/mcp-idem/mcp-idem/upstream"
)

// questions are requests of upstreams to the client that are not answered yet. The
// client knows them by ids of ours: a restarted upstream begins with the same ids
// again, and so does another one. The zero value is ready to use.
type questions struct {
	mu   sync.Mutex
	last int
	open []question
}

type question struct {
	session upstream.Session
	of      *Gateway
	token   []byte // for the client's progress, raw; nil: none is wanted
	shown   []byte // as which the client knows the token
	theirs  []byte // the upstream's id
	ours    []byte
}

// ask returns the request m as the client gets it; ok is false where too many are
// open.
func (q *questions) ask(one question, m jsonrpc.Message) (asked jsonrpc.Message, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.open) >= MaxRequestsInFlight {
		return m, false
	}
	q.last++
	one.ours = strconv.AppendInt(nil, int64(q.last), 10)
	if params, token := progressToken(m.Params); token != nil {
		one.token, one.shown = token.Raw(), token.Raw()
		if len(q.shownAs(one.shown)) > 0 {
			one.shown = fmt.Appendf(nil, `"mcp-idem/%d"`, q.last)
			var edits rawjson.Edits
			edits.Replace(token.Start, token.End, one.shown)
			m = m.With("params", edits.Apply(params))
		}
	}
	q.open = append(q.open, one)
	return m.With("id", one.ours), true
}

// shownAs are the open questions whose progress the client knows by a token. It is
// called with the lock held.
func (q *questions) shownAs(token []byte) (all []question) {
	for _, open := range q.open {
		if open.shown != nil && jsonrpc.SameID(open.shown, token) {
			all = append(all, open)
		}
	}
	return all
}

// take takes out the question that an id of ours, or of the upstream's, names.
func (q *questions) take(matches func(question) bool) (question, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, open := range q.open {
		if matches(open) {
			q.open = append(q.open[:i:i], q.open[i+1:]...)
			return open, true
		}
	}
	return question{}, false
}

// answer hands the client's response to the upstream that has asked. A response
// that cannot be read is an error to it.
func (q *questions) answer(m jsonrpc.Message, bad *jsonrpc.Error) {
	open, ok := q.take(func(o question) bool { return jsonrpc.SameID(o.ours, m.ID) })
	if !ok {
		return
	}
	if bad != nil {
		m = jsonrpc.ErrorReply(open.theirs, bad)
	}
	_ = open.session.Reply(m.With("id", open.theirs)) // the session that asked may be over
}

// progress hands the client's progress with a question to the one that has asked it,
// under the token that this has chosen: another may have chosen the same.
func (q *questions) progress(m jsonrpc.Message) {
	params, err := rawjson.ParseTo(m.Params, 1)
	if err != nil {
		return
	}
	token := params.Get("progressToken")
	if token == nil {
		return
	}
	q.mu.Lock()
	asked := q.shownAs(token.Raw())
	q.mu.Unlock()
	if len(asked) != 1 {
		return
	}
	var edits rawjson.Edits
	edits.Replace(token.Start, token.End, asked[0].token)
	_ = asked[0].session.Notify(m.With("params", edits.Apply(params))) // the session that asked may be over
}

// cancelled returns the notification of an upstream that it wants no answer any more,
// with the id that the client knows; ok is false where the client need not know.
func (q *questions) cancelled(of *Gateway, m jsonrpc.Message) (_ jsonrpc.Message, ok bool) {
	params, err := rawjson.ParseObject(m.Params)
	if err != nil {
		return m, false
	}
	id, _ := params.Get("requestId")
	open, ok := q.take(func(o question) bool { return o.of == of && jsonrpc.SameID(o.theirs, id) })
	return m.With("params", params.Set("requestId", open.ours)), ok
}

// void gives up all that an upstream has open, at the end of the session that has
// asked, and returns what tells the client so.
func (q *questions) void(of *Gateway) (notices []jsonrpc.Message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, open := range q.open {
		if open.of != of {
			continue
		}
		notices = append(notices, jsonrpc.Notification("notifications/cancelled",
			fmt.Appendf(nil, `{"requestId":%s,"reason":"the server that asked is gone"}`, open.ours)))
	}
	q.open = slices.DeleteFunc(q.open, func(o question) bool { return o.of == of })
	return notices
}
