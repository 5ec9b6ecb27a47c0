package upstream

// Done is closed when the session is over.
func Done(s Session) <-chan struct{} { return s.(*life).done }
