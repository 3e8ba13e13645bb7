package nettest

import (
	"fmt"
	"time"

	"github.com/lnetd/lnetd/transport"
)

// clientWork is the part of a client that is the same for pings and bulk: the servers, and how many
// messages or transfers remain for each.
type clientWork struct {
	*testRun
	servers   []*transport.EndPoint
	remaining []uint64 // by server: number of messages or transfers that were not started yet
}

// resolveServers gets the end points of the servers.
func (s *clientWork) resolveServers() error {
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

// takeNext reports whether the client must start another message or transfer with a server. If so, it
// subtracts it from the remaining ones.
func (s *clientWork) takeNext(server int) bool {
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
func (s *clientWork) end() {
	for _, e := range s.servers {
		e.Put()
	}
	s.servers = nil
}
