package nettest

import (
	"fmt"
	"time"

	"github.com/lnetd/lnetd/transport"
)

// share is what a client has to do with each server of its test.
type share struct {
	*trial
	servers []*transport.EndPoint
	left    []uint64 // messages or transfers left to begin, per server
}

// find resolves the end points of the servers.
func (s *share) find() error {
	for _, address := range s.test.Peers {
		e, err := s.loop.TM.EndPoint(address)
		if err != nil {
			s.end()
			return fmt.Errorf("peer %q: %w", address, err)
		}
		s.servers = append(s.servers, e)
		s.left = append(s.left, s.test.Count)
	}
	return nil
}

// another reports whether another one may begin with a server, and counts it.
func (s *share) another(server int) bool {
	switch {
	case s.over(time.Now()):
		return false
	case s.test.Count == 0:
		return true
	case s.left[server] == 0:
		return false
	}
	s.left[server]--
	return true
}

// end releases the end points of the servers.
func (s *share) end() {
	for _, e := range s.servers {
		e.Put()
	}
	s.servers = nil
}
