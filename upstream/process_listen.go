package upstream

import (
	"slices"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// maxParting is how many subscriptions that were given up may still be without the
// response that ends them. A server need not send one.
const maxParting = 16

// A hearing is the request subscriptions/listen of a modern process, open as long as
// something is wanted. Its announcements come among everything else that the server
// writes. It is made anew when something else is wanted, or the server ends it; the
// old one is given up when the new one stands.
type hearing struct {
	s *life

	mu      sync.Mutex
	of      *dialect // nil before anything is listened for
	call    *Call    // the newest; nil where nothing is wanted, or the server has ended it
	wanted  filter   // of the newest
	granted bool     // the server has said that it will announce something
	missed  bool     // something may have been announced while none was open
	old     []*Call  // that end when the newest stands
	parting []*Call  // that were told to end
	born    time.Time
	pause   backoff
	again   *time.Timer // opens another one; nil unless the server has ended the newest
}

// listen begins to listen for what the dialect of the session wants.
func (s *life) listen() {
	d := s.modern()
	if d == nil {
		return
	}
	s.ear.mu.Lock()
	same := s.ear.of == d
	s.ear.of, s.ear.pause.o = d, s.p.o
	s.ear.mu.Unlock()
	if !same {
		d.onRefilter(s.ear.tune)
		s.ear.tune()
	}
}

// tune asks for what is wanted now.
func (e *hearing) tune() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopTimer()
	if e.call != nil {
		e.old, e.call = append(e.old, e.call), nil
	}
	if e.wanted = e.of.wanted(); !e.wanted.empty() {
		e.open()
	}
	if e.call == nil {
		e.giveUpOld()
	}
}

// open queues the request. Unlike a call it is nothing that the server is busy with.
func (e *hearing) open() {
	m, _ := e.of.request(jsonrpc.Request([]byte("0"), methodListen, e.wanted.params()))
	var c *Call
	c = e.s.newCall(m.ID, func(answer jsonrpc.Message) { e.ended(c, answer) })
	if e.s.open(c) != nil {
		return
	}
	if e.s.post(m.With("id", c.id)) != nil {
		c.Forget()
		return
	}
	e.call, e.granted, e.born = c, false, time.Now()
}

// acknowledged takes the server's word that a subscription stands.
func (e *hearing) acknowledged(m jsonrpc.Message) {
	params, err := rawjson.ParseTo(m.Params, 2)
	if err != nil {
		return
	}
	id := params.Get("_meta").Get(mcp.MetaKeySubscriptionID)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.call == nil || id == nil || !isOurs(id.Raw(), e.call.id) {
		return
	}
	e.granted = len(params.Get("notifications").Fields()) > 0
	e.giveUpOld()
	if h := e.s.p.o.Handler; e.missed && h != nil {
		for _, notice := range e.wanted.missed() {
			h.Notification(notice)
		}
	}
	e.missed = false
}

// ended takes the response that ends a subscription. One that announced something is
// opened again, after a while: whatever made the server end it may be over then.
func (e *hearing) ended(c *Call, answer jsonrpc.Message) {
	e.mu.Lock()
	defer e.mu.Unlock()
	isOther := func(other *Call) bool { return other == c }
	e.old, e.parting = slices.DeleteFunc(e.old, isOther), slices.DeleteFunc(e.parting, isOther)
	if e.call != c {
		return
	}
	e.call = nil
	e.giveUpOld()
	if answer.Error == nil && e.granted {
		e.missed = true
		e.again = time.AfterFunc(e.pause.next(time.Since(e.born)), e.tune)
	}
}

// giveUpOld tells the server to end what another one has taken the place of.
func (e *hearing) giveUpOld() {
	for _, c := range e.old {
		_ = e.s.post(jsonrpc.Notification(notifyCancelled, objectOf([]metaMember{{"requestId", c.id}}))) // a lost one means that some announcements come twice
	}
	e.parting, e.old = append(e.parting, e.old...), nil
	for ; len(e.parting) > maxParting; e.parting = e.parting[1:] {
		e.parting[0].Forget()
	}
}

// stop ends what would begin by itself.
func (e *hearing) stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopTimer()
}

func (e *hearing) stopTimer() {
	if e.again != nil {
		e.again.Stop()
		e.again = nil
	}
}
