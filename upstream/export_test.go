package upstream

// Done is closed when the session is over.
func (s *Session) Done() <-chan struct{} { return s.done }
