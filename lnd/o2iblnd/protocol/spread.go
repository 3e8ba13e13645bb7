package protocol

// Spread counts the connections to a peer and the attempts to open one (o2iblnd 12.5). The zero value has no
// connections.
type Spread struct {
	dialling int // attempts of this node
	up       int // established connections
}

// Want returns the number of attempts to start when a message is to be sent. It is perPeer if there are no
// connections and no attempts. Otherwise it is 0, even if some of the connections have ended.
func (s *Spread) Want(perPeer int) int {
	if s.up > 0 || s.dialling > 0 {
		return 0
	}
	return max(perPeer, 1)
}

// Dialled counts an attempt that is to be started.
func (s *Spread) Dialled() { s.dialling++ }

// Failed counts an attempt that has ended without a connection and will not be repeated. It returns true if
// neither connections nor attempts remain.
func (s *Spread) Failed() bool {
	s.dialling--
	return s.Empty()
}

// Up counts an established connection. ours means that an attempt of this node has led to it.
func (s *Spread) Up(ours bool) {
	if ours {
		s.dialling--
	}
	s.up++
}

// Down counts a connection that has ended. It returns true if neither connections nor attempts remain.
func (s *Spread) Down() bool {
	s.up--
	return s.Empty()
}

// Empty reports whether there are neither connections nor attempts to open one.
func (s *Spread) Empty() bool { return s.up == 0 && s.dialling == 0 }
