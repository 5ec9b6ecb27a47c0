package gateway

import (
	"context"
	"sync"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
	"github.com/mcp-idem/mcp-idem/upstream"
)

// clientState is what the client has told the upstream to keep in mind: its log
// level and its subscriptions. A restarted upstream is told again; each of these
// requests may be made twice without harm. The zero value is ready to use.
type clientState struct {
	mu       sync.Mutex
	order    []string
	requests map[string]jsonrpc.Message
}

// learn notes a request that the upstream has granted.
func (s *clientState) learn(request jsonrpc.Message) {
	switch request.Method {
	case "logging/setLevel":
		s.keep(request.Method, request)
	case "resources/subscribe":
		s.keep("resource "+uriOf(request), request)
	case "resources/unsubscribe":
		s.drop("resource " + uriOf(request))
	}
}

func (s *clientState) keep(what string, request jsonrpc.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.requests == nil {
		s.requests = map[string]jsonrpc.Message{}
	}
	if _, known := s.requests[what]; !known {
		if len(s.order) >= MaxRequestsInFlight {
			return // a client that subscribes to more has to do so again by itself
		}
		s.order = append(s.order, what)
	}
	s.requests[what] = request
}

func (s *clientState) drop(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.requests, what)
	for i, known := range s.order {
		if known == what {
			s.order = append(s.order[:i:i], s.order[i+1:]...)
			return
		}
	}
}

// restore makes the requests again. Their answers are nobody's any more.
func (s *clientState) restore(ctx context.Context, session upstream.Session) {
	ctx, cancel := context.WithTimeout(ctx, listWithin)
	defer cancel()
	for _, request := range s.all() {
		call, err := session.Send(ctx, request)
		if err != nil {
			return // gone again: the next restart makes them all
		}
		_, _ = call.Wait(ctx)
		call.Forget()
	}
}

func (s *clientState) all() (all []jsonrpc.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, what := range s.order {
		all = append(all, s.requests[what])
	}
	return all
}

func uriOf(request jsonrpc.Message) string {
	params, err := rawjson.ParseObject(request.Params)
	if err != nil {
		return ""
	}
	uri, _ := params.String("uri")
	return uri
}
