package nettest

import (
	"fmt"
	"time"

	"github.com/lnetd/lnetd/transport"
)

// workShare is what a client has to do with each server of its test.
type workShare struct {
	*testRun
	servers   []*transport.EndPoint
	remaining []uint64 // messages or transfers left to begin, per server
}

// find resolves the end points of the servers.
func (s *workShare) find() error {
	for _, address := range s.test.Peers {
		e, err := s.loop.TM.EndPoint(address)
		if err != nil {
			s.end()
			return fmt.Errorf("peer %q: %w", address, err)
		}
		s.servers = append(s.servers, e)
		s.remaining = append(s.remaining, s.test.Count)
	}
	return nil
}

// beginOne reports whether another one may begin with a server, and counts it.
func (s *workShare) beginOne(server int) bool {
	switch {
	case s.timeOver(time.Now()):
		return false
	case s.test.Count == 0:
		return true
	case s.remaining[server] == 0:
		return false
	}
	s.remaining[server]--
	return true
}

// end releases the end points of the servers.
func (s *workShare) end() {
	for _, e := range s.servers {
		e.Put()
	}
	s.servers = nil
}
