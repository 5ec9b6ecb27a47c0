package gateway

import (
	"fmt"
	"strconv"
	"sync"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
	"github.com/mcp-idem/mcp-idem/upstream"
)

// questions are the upstream's requests to the client that are not answered yet.
// The client knows them by ids of ours: a restarted upstream begins with the same
// ids again. The zero value is ready to use.
type questions struct {
	mu   sync.Mutex
	last int
	open []question
}

type question struct {
	session upstream.Session
	theirs  []byte // the upstream's id
	ours    []byte
}

// ask returns the request as the client gets it; ok is false where too many are
// open.
func (q *questions) ask(s upstream.Session, m jsonrpc.Message) (asked jsonrpc.Message, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.open) >= MaxRequestsInFlight {
		return m, false
	}
	q.last++
	ours := strconv.AppendInt(nil, int64(q.last), 10)
	q.open = append(q.open, question{session: s, theirs: m.ID, ours: ours})
	return m.With("id", ours), true
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

// cancelled returns the upstream's notification that it wants no answer any more,
// with the id that the client knows; ok is false where the client need not know.
func (q *questions) cancelled(m jsonrpc.Message) (_ jsonrpc.Message, ok bool) {
	params, err := rawjson.ParseObject(m.Params)
	if err != nil {
		return m, false
	}
	id, _ := params.Get("requestId")
	open, ok := q.take(func(o question) bool { return jsonrpc.SameID(o.theirs, id) })
	return m.With("params", params.Set("requestId", open.ours)), ok
}

// void gives up all that is open, at the end of the session that has asked, and
// returns what tells the client so.
func (q *questions) void() (notices []jsonrpc.Message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, open := range q.open {
		notices = append(notices, jsonrpc.Notification("notifications/cancelled",
			fmt.Appendf(nil, `{"requestId":%s,"reason":"the server that asked is gone"}`, open.ours)))
	}
	q.open = nil
	return notices
}
