package gateway

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

// several is the host of a client that meets all members of a front as one server.
type several struct {
	f *Front
	c *client
	// guest makes the client a guest of a member; nil where each member has a host of
	// its own for the one client.
	guest func(*member) *guest

	mu        sync.Mutex
	over      bool
	guests    map[*member]*guest
	hello     *jsonrpc.Message // the client's initialize; nil before it came
	exchange  *Exchange        // of that
	completed *jsonrpc.Message // its notifications/initialized
	went      bool             // it goes on without
}

// newSeveral returns the host of a client, which hears of changes until depart is
// called.
func newSeveral(f *Front, c *client, visit func(*member) *guest) *several {
	s := &several{f: f, c: c, guest: visit, guests: map[*member]*guest{}}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.parties[s] = true
	return s
}

// hostOf is what the client meets of a member.
func (s *several) hostOf(m *member) host {
	if s.guest == nil {
		return m.host
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.guests[m]
	if g == nil {
		g = s.guest(m)
		s.guests[m] = g
		if !s.over {
			m.hub.join(g.hears)
		}
	}
	return g
}

// depart ends what the client hears of.
func (s *several) depart() {
	s.f.mu.Lock()
	delete(s.f.parties, s)
	s.f.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	for _, g := range s.guests {
		g.depart()
	}
}

// greet makes the client known to all members, and answers for them.
func (s *several) greet(ctx context.Context, x *Exchange, m jsonrpc.Message) jsonrpc.Message {
	x.introduce(m.Params)
	s.mu.Lock()
	s.hello, s.exchange = &m, x.within(unheard)
	s.exchange.turn = nil
	s.mu.Unlock()
	all, release := s.f.hold()
	defer release()
	each(all, func(one *member) { s.present(ctx, one) })
	if err := context.Cause(ctx); err != nil {
		return jsonrpc.ErrorReply(m.ID, unavailable(err))
	}
	return jsonrpc.Result(m.ID, negotiated(s.f.hello(all), m.Params))
}

// present makes the client known to a member, and waits until that was tried.
func (s *several) present(ctx context.Context, m *member) {
	h := s.hostOf(m)
	if s.guest != nil {
		m.meet(ctx)
		return
	}
	s.mu.Lock()
	hello, x := s.hello, s.exchange
	s.mu.Unlock()
	m.try(func() {
		answer := h.greet(m.g.life, x, *hello)
		if answer.Result != nil {
			m.hub.adopt(answer.Result)
		}
	})
	select {
	case <-m.tried:
	case <-ctx.Done():
	}
}

func (s *several) greeted(m jsonrpc.Message) error {
	s.mu.Lock()
	s.completed = &m
	s.mu.Unlock()
	return s.toAll(func(h host) error { return h.greeted(m) })
}

func (s *several) proceed() {
	s.mu.Lock()
	s.went = true
	s.mu.Unlock()
	_ = s.toAll(func(h host) error { h.proceed(); return nil }) // it has none
}

func (s *several) toAll(say func(host) error) error {
	all, release := s.f.hold()
	defer release()
	problems := make([]error, len(all))
	each(all, func(m *member) { problems[m.place(all)] = say(s.hostOf(m)) })
	return errors.Join(problems...)
}

func (s *several) answer(ctx context.Context, x *Exchange, m jsonrpc.Message) jsonrpc.Message {
	return s.f.answer(ctx, x, m, func(ctx context.Context, one *member, x *Exchange, m jsonrpc.Message) jsonrpc.Message {
		return s.hostOf(one).answer(ctx, x, m)
	})
}

// hear hands a notification to all members that are there, and progress to the one
// that has asked.
func (s *several) hear(ctx context.Context, m jsonrpc.Message) error {
	if m.Method == "notifications/progress" {
		s.c.questions.progress(m)
		return nil
	}
	all, release := s.f.hold()
	defer release()
	problems := make([]error, len(all))
	each(slices.DeleteFunc(slices.Clone(all), func(one *member) bool { return !one.isUp() }), func(one *member) {
		problems[one.place(all)] = s.hostOf(one).hear(ctx, m)
	})
	return errors.Join(problems...)
}

// takeIn lets the client meet a member that has come anew.
func (s *several) takeIn(m *member) {
	h := s.hostOf(m)
	s.mu.Lock()
	hello, completed, went := s.hello, s.completed, s.went
	s.mu.Unlock()
	if hello == nil {
		return // it will meet all
	}
	s.c.requests.spawn(func() {
		s.present(s.c.requests.life, m)
		switch {
		case completed != nil:
			_ = h.greeted(*completed) // it is told again when it comes
		case went:
			h.proceed()
		}
		s.tell(toolsChanged)
	})
}

// announce tells the client that the members are others.
func (s *several) announce() {
	s.mu.Lock()
	known := s.hello != nil
	s.mu.Unlock()
	if known {
		for _, method := range []string{toolsChanged.Method, "notifications/prompts/list_changed", "notifications/resources/list_changed"} {
			s.tell(jsonrpc.Notification(method, nil))
		}
	}
}

// tell tells the client what belongs to no request.
func (s *several) tell(m jsonrpc.Message) { s.c.out.put(m, nil) }
