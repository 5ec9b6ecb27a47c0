package gateway

import (
	"context"
	"slices"
	"strings"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// A subscriber hears of changes that belong to no request.
type subscriber struct {
	hear  func(jsonrpc.Message) bool // must not block
	wants func(method string) bool   // of changes of lists

	uris  map[string]bool // of resources; guarded by the hub
	level severity        // of log messages; likewise; zero: it has said nothing
}

// hasSubscribed reports whether a subscriber wants to know of a resource. What lies
// below a resource belongs to it (server/resources, section Subscriptions).
func (s *subscriber) hasSubscribed(uri string) bool {
	for subscribed := range s.uris {
		if rest, ok := strings.CutPrefix(uri, subscribed); ok &&
			(rest == "" || strings.HasSuffix(subscribed, "/") || strings.ContainsRune("/?#", rune(rest[0]))) {
			return true
		}
	}
	return false
}

func (h *hub) join(s *subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.subscribers[s] = true
}

// leave ends what a subscriber hears. What only it has heard of, the upstream need
// not tell any more.
func (h *hub) leave(s *subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.subscribers, s)
	for uri := range s.uris {
		if !h.isSubscribed(uri) {
			h.work.Go(func() { h.forget(uri) })
		}
	}
}

// isSubscribed is called with the lock held.
func (h *hub) isSubscribed(uri string) bool {
	for s := range h.subscribers {
		if s.uris[uri] {
			return true
		}
	}
	return false
}

func (h *hub) forget(uri string) {
	ctx, cancel := context.WithTimeout(h.g.life, listWithin)
	defer cancel()
	_, _ = h.inTurn(ctx, func() (jsonrpc.Message, error) { // a lost one only means that we hear of what concerns nobody
		h.mu.Lock()
		taken := h.isSubscribed(uri)
		h.mu.Unlock()
		if taken {
			return jsonrpc.Message{}, nil
		}
		return h.ask(ctx, resourceRequest("resources/unsubscribe", uri))
	})
}

// inTurn has what clients want told to the upstream one after the other, so that it
// ends with what they wanted last.
func (h *hub) inTurn(ctx context.Context, tell func() (jsonrpc.Message, error)) (jsonrpc.Message, error) {
	select {
	case h.telling <- struct{}{}:
	case <-ctx.Done():
		return jsonrpc.Message{}, context.Cause(ctx)
	}
	defer func() { <-h.telling }()
	return tell()
}

func resourceRequest(method, uri string) jsonrpc.Message {
	return jsonrpc.Request([]byte("0"), method, slices.Concat([]byte(`{"uri":`), rawjson.Quote(uri), []byte("}")))
}

// subscribe tells the upstream that a subscriber wants to know of a resource.
func (h *hub) subscribe(ctx context.Context, s *subscriber, request jsonrpc.Message) (jsonrpc.Message, error) {
	return h.inTurn(ctx, func() (jsonrpc.Message, error) {
		answer, err := h.ask(ctx, request)
		if err == nil && answer.Result != nil {
			h.mu.Lock()
			defer h.mu.Unlock()
			if len(s.uris) < MaxRequestsInFlight {
				s.uris[uriOf(request)] = true
			}
		}
		return answer, err
	})
}

// unsubscribe tells the upstream so only where nobody else wants to know.
func (h *hub) unsubscribe(ctx context.Context, s *subscriber, request jsonrpc.Message) (jsonrpc.Message, error) {
	return h.inTurn(ctx, func() (jsonrpc.Message, error) {
		uri := uriOf(request)
		h.mu.Lock()
		delete(s.uris, uri)
		taken := h.isSubscribed(uri)
		h.mu.Unlock()
		if taken {
			return jsonrpc.Result(request.ID, []byte(`{}`)), nil
		}
		return h.ask(ctx, request)
	})
}

// setLevel notes from which level on a subscriber wants log messages, and has the
// upstream log the least severe that anybody wants.
func (h *hub) setLevel(ctx context.Context, s *subscriber, request jsonrpc.Message, level severity) (jsonrpc.Message, error) {
	return h.inTurn(ctx, func() (jsonrpc.Message, error) {
		h.mu.Lock()
		s.level = level
		h.mu.Unlock()
		return h.askForLevel(ctx, request.ID)
	})
}

// heed has the upstream log what a request of the modern era wants to hear of.
func (h *hub) heed(ctx context.Context, level severity) {
	h.mu.Lock()
	enough := h.heeded != 0 && h.heeded <= level
	h.mu.Unlock()
	if enough || !h.declares("logging", "") {
		return
	}
	_, _ = h.inTurn(ctx, func() (jsonrpc.Message, error) { // without it there are fewer log messages
		h.mu.Lock()
		if h.floor == 0 || level < h.floor {
			h.floor = level
		}
		h.mu.Unlock()
		return h.askForLevel(ctx, []byte("0"))
	})
}

// wanted is called with the lock held.
func (h *hub) wanted() severity {
	least := h.floor
	for s := range h.subscribers {
		if s.level != 0 && (least == 0 || s.level < least) {
			least = s.level
		}
	}
	return least
}

// askForLevel tells the upstream what is wanted, unless it knows.
func (h *hub) askForLevel(ctx context.Context, id []byte) (jsonrpc.Message, error) {
	h.mu.Lock()
	wanted, heeded := h.wanted(), h.heeded
	h.mu.Unlock()
	if wanted == heeded {
		return jsonrpc.Result(id, []byte(`{}`)), nil
	}
	answer, err := h.ask(ctx, jsonrpc.Request(id, "logging/setLevel", []byte(`{"level":"`+wanted.String()+`"}`)))
	if err == nil && answer.Result != nil {
		h.mu.Lock()
		h.heeded = wanted
		h.mu.Unlock()
	}
	return answer, err
}

// ask sends a request of the hub's own, whose effect outlasts a restart of the
// upstream.
func (h *hub) ask(ctx context.Context, request jsonrpc.Message) (jsonrpc.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, listWithin)
	defer cancel()
	session, err := h.g.reach(ctx)
	if err != nil {
		return jsonrpc.Message{}, err
	}
	call, err := session.Send(ctx, request)
	if err != nil {
		return jsonrpc.Message{}, err
	}
	defer call.Forget()
	answer, err := call.Wait(ctx)
	if err == nil && answer.Result != nil {
		h.g.state.learn(request)
	}
	return answer, err
}
