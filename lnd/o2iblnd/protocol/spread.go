package protocol

// Spread counts the connections with a peer, and selects the one for the next message (o2iblnd
// 12.5). The zero value has no connections.
type Spread struct {
	dialling int
	up       int
	next     int
}

// Want returns the number of attempts to start when a message is to be sent. It is perPeer if there
// are no connections and no attempts, and 0 otherwise, even if some connections of a set are lost.
func (s *Spread) Want(perPeer int) int {
	if s.up > 0 || s.dialling > 0 {
		return 0
	}
	return max(perPeer, 1)
}

// Dialled counts an attempt that has started.
func (s *Spread) Dialled() { s.dialling++ }

// Failed counts an attempt that has ended without a connection and is not repeated. It reports
// whether no connections and attempts are left, so that waiting messages have failed.
func (s *Spread) Failed() bool {
	s.dialling--
	return s.Empty()
}

// Up counts an established connection. ours means that it results from one of our attempts.
func (s *Spread) Up(ours bool) {
	if ours {
		s.dialling--
	}
	s.up++
}

// Down counts a connection that has ended. It reports whether no connections and attempts are left.
func (s *Spread) Down() bool {
	s.up--
	return s.Empty()
}

// Empty reports whether there is neither a connection nor an attempt to open one.
func (s *Spread) Empty() bool { return s.up == 0 && s.dialling == 0 }

// Pick returns the index of the connection for the next message. It returns each index in turn; the
// caller determines the order. There must be at least one connection.
func (s *Spread) Pick() int {
	if s.next >= s.up {
		s.next = 0
	}
	k := s.next
	s.next++
	return k
}
