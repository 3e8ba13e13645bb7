package protocol

// Spread is how many connections there are with a peer, and which one a message
// takes (o2iblnd 12.5). The zero value is that of a peer with none.
type Spread struct {
	dialling int
	up       int
	next     int
}

// Want is how many attempts to begin now that a message is to be sent: perPeer for a
// peer with none, else none, however many of a set are lost.
func (s *Spread) Want(perPeer int) int {
	if s.up > 0 || s.dialling > 0 {
		return 0
	}
	return max(perPeer, 1)
}

// Dialled notes that an attempt has begun.
func (s *Spread) Dialled() { s.dialling++ }

// Failed notes that an attempt is over, without a connection and another attempt. It
// tells whether nothing is left: what waits has failed.
func (s *Spread) Failed() bool {
	s.dialling--
	return s.Empty()
}

// Up notes that a connection stands, of an attempt of ours or not.
func (s *Spread) Up(ours bool) {
	if ours {
		s.dialling--
	}
	s.up++
}

// Down notes that a connection has gone. It tells whether nothing is left.
func (s *Spread) Down() bool {
	s.up--
	return s.Empty()
}

// Empty tells whether there is neither a connection nor an attempt of ours.
func (s *Spread) Empty() bool { return s.up == 0 && s.dialling == 0 }

// Pick returns the connection for the next message, counted from 0 in any order that
// the caller keeps, each in turn. There must be one.
func (s *Spread) Pick() int {
	if s.next >= s.up {
		s.next = 0
	}
	k := s.next
	s.next++
	return k
}
