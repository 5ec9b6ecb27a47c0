package upstreamtest

import (
	"sync"

	"github.com/google/uuid"
)

// A session is what the legacy era has over HTTP.
type session struct {
	id     string
	over   *ending
	stream *stream2024 // in the transport of 2024-11-05; set before its id is known

	mu        sync.Mutex
	listening bool // there is a GET stream
}

// listen takes the place of the one GET stream, and reports whether it was free.
func (s *session) listen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	free := !s.listening
	s.listening = true
	return free
}

func (s *session) unlisten() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listening = false
}

// sessions are those that are open. The zero value has none.
type sessions struct {
	mu   sync.Mutex
	byID map[string]*session
}

func (s *sessions) open() *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil {
		s.byID = map[string]*session{}
	}
	one := &session{id: uuid.NewString(), over: newEnding()}
	s.byID[one.id] = one
	return one
}

func (s *sessions) find(id string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[id]
}

func (s *sessions) close(one *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, one.id)
	one.over.end()
}

// forget ends all sessions, as a restart would.
func (s *sessions) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.byID {
		one.over.end()
	}
	clear(s.byID)
}
