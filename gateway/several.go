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
	// shakes, if not nil, is told that the client makes a handshake of its own.
	shakes func()
	kept   mindful

	mu        sync.Mutex
	over      bool
	guests    map[*member]*guest
	lines     map[*member]*line // of what the client sends, where the members are shared
	hello     *jsonrpc.Message  // the client's initialize; nil before it came
	exchange  *Exchange         // of that
	completed *jsonrpc.Message  // its notifications/initialized
	went      bool              // it goes on without
	changed   bool              // members have come that are not in the answer to its initialize
}

// newSeveral returns the host of a client, which hears of changes until depart is
// called.
func newSeveral(f *Front, c *client, visit func(*member) *guest) *several {
	s := &several{f: f, c: c, guest: visit, guests: map[*member]*guest{}, lines: map[*member]*line{}}
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

// line is part of party.
func (s *several) line(m *member) *line {
	if s.guest == nil {
		return &m.order
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lines[m] == nil {
		s.lines[m] = &line{}
	}
	return s.lines[m]
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
	if s.shakes != nil {
		s.shakes()
	}
	s.mu.Lock()
	s.hello, s.exchange = &m, x.within(unheard)
	s.exchange.turn = nil
	s.mu.Unlock()
	held := s.f.hold()
	defer held.release()
	s.f.gather(ctx, held.all, s.present)
	if err := context.Cause(ctx); err != nil {
		return jsonrpc.ErrorReply(m.ID, unavailable(err))
	}
	s.mu.Lock()
	s.changed = false
	s.mu.Unlock()
	return jsonrpc.Result(m.ID, negotiated(s.f.hello(held.all), m.Params))
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
	err := s.toAll(func(h host) error { return h.greeted(m) })
	s.catchUp()
	return err
}

func (s *several) proceed() {
	s.mu.Lock()
	s.went = true
	s.mu.Unlock()
	_ = s.toAll(func(h host) error { h.proceed(); return nil }) // it has none
	s.catchUp()
}

// catchUp tells the client of what has come while it shook hands.
func (s *several) catchUp() {
	s.mu.Lock()
	changed := s.changed
	s.changed = false
	s.mu.Unlock()
	if changed {
		s.announce(anyMethod)
	}
}

func (s *several) toAll(say func(host) error) error {
	held := s.f.hold()
	defer held.release()
	problems := make([]error, len(held.all))
	each(held.all, func(m *member) { problems[slices.Index(held.all, m)] = say(s.hostOf(m)) })
	return errors.Join(problems...)
}

func (s *several) answer(ctx context.Context, x *Exchange, m jsonrpc.Message) jsonrpc.Message {
	if m.Method == "logging/setLevel" {
		s.kept.asks(m)
	}
	return s.f.answer(ctx, x, m, s)
}

// ask is part of party.
func (s *several) ask(ctx context.Context, m *member, x *Exchange, request jsonrpc.Message) jsonrpc.Message {
	answer := s.hostOf(m).answer(ctx, x, request)
	if answer.Result != nil {
		s.kept.granted(m, request)
	}
	return answer
}

// hear hands a notification to all members that are there, each in its own time, and
// progress to the one that has asked.
func (s *several) hear(_ context.Context, m jsonrpc.Message) error {
	if m.Method == "notifications/progress" {
		s.c.questions.progress(m)
		return nil
	}
	for _, one := range s.f.all() {
		turn := s.line(one).join()
		if !s.spawn(one, func(ctx context.Context) {
			defer turn.leave()
			turn.wait(ctx)
			if !one.isUp() {
				return
			}
			if err := s.hostOf(one).hear(ctx, m); err != nil {
				one.g.log.Warn().Err(err).Str("method", m.Method).Msg("a notification of the client was lost")
			}
		}) {
			turn.leave()
		}
	}
	return nil
}

// takeIn lets the client meet a member that has come anew.
func (s *several) takeIn(m *member) {
	s.mu.Lock()
	isKnown := s.hello != nil
	s.mu.Unlock()
	if isKnown { // else it will meet all
		s.spawn(m, func(ctx context.Context) { s.show(ctx, m) })
	}
}

// spawn runs f on a goroutine of its own, for which the member is kept, unless either
// the member or the client is gone. f's context ends when the client says no more.
func (s *several) spawn(m *member, f func(context.Context)) bool {
	held, ok := s.f.holdOne(m)
	if !ok {
		return false
	}
	taken := s.c.requests.spawn(func() {
		defer held.release()
		ctx, cancel := context.WithCancel(s.c.requests.life)
		defer cancel()
		go func() {
			select {
			case <-s.c.requests.closed:
				cancel()
			case <-ctx.Done():
			}
		}()
		f(ctx)
	})
	if !taken {
		held.release()
	}
	return taken
}

func (s *several) show(ctx context.Context, m *member) {
	s.present(ctx, m)
	s.mu.Lock()
	completed, went := s.completed, s.went
	s.mu.Unlock()
	switch {
	case completed != nil:
		_ = s.hostOf(m).greeted(*completed) // it is told again when it comes
	case went:
		s.hostOf(m).proceed()
	}
}

// willArrive notes that a member is about to be there. A client that shakes hands just
// now is told when it has.
func (s *several) willArrive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = s.changed || s.hello != nil && !s.isShaken()
}

// isShaken is called with the lock held.
func (s *several) isShaken() bool { return s.completed != nil || s.went }

// arrived tells the client of a member that is there, whose lists have changed; which
// names them by what announces them.
func (s *several) arrived(m *member, which func(method string) bool) {
	s.mu.Lock()
	isShaken := s.isShaken()
	s.mu.Unlock()
	if !isShaken {
		return
	}
	s.announce(func(method string) bool { return which(method) && m.offers(method) })
	if again := s.kept.untold(m); len(again) > 0 {
		s.spawn(m, func(ctx context.Context) {
			for _, request := range again {
				s.ask(ctx, m, &Exchange{Caller: s.c.caller, respond: unheard}, request)
			}
		})
	}
}

// lose forgets a member that was taken away.
func (s *several) lose(m *member) {
	s.kept.lose(m)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.guests, m)
	delete(s.lines, m)
}

// announce tells the client that lists are others, if it has shaken hands.
func (s *several) announce(which func(method string) bool) {
	s.mu.Lock()
	isKnown := s.hello != nil
	s.mu.Unlock()
	if !isKnown {
		return
	}
	for _, method := range listsChanged {
		if which(method) {
			s.c.out.put(jsonrpc.Notification(method, nil), nil)
		}
	}
}
