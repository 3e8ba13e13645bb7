package transport

import (
	"fmt"
	"syscall"
)

// EndPoint is an address that a TM sends to or has received from (transport 3.6). A TM has one EndPoint for
// each address. It is reference counted. A reference uses no network resource, but a TM cannot be closed
// while the program holds one.
type EndPoint struct {
	tm      *TransferMachine
	address Address
	// TransferMachine.mu guards the fields below.
	refs         int
	older, newer *EndPoint // links in endPoints.unused, while refs is 0
}

// EndPoint returns the end point of an address, with a reference that Put drops. It returns EINVAL if the
// address is malformed or has no TM number, or if the TM is not started.
func (tm *TransferMachine) EndPoint(address string) (*EndPoint, error) {
	a, err := ParseAddress(address)
	if err != nil {
		return nil, err
	}
	return tm.EndPointAt(a)
}

// EndPointAt is like EndPoint, but takes a parsed address.
func (tm *TransferMachine) EndPointAt(a Address) (*EndPoint, error) {
	if a.NID.IsZero() || a.TMID < 1 || a.TMID > MaxTMID {
		return nil, fmt.Errorf("transport: end point %q: %w", a, syscall.EINVAL)
	}
	tm.mu.Lock()
	defer tm.mu.Unlock()
	if tm.state != StateStarted {
		return nil, fmt.Errorf("transport: end point %v: the TM is %v: %w", a, tm.state, syscall.EINVAL)
	}
	return tm.endPoints.acquire(tm, a), nil
}

// Get adds a reference and returns e. The caller must hold one, or be in a callback that received e.
func (e *EndPoint) Get() *EndPoint {
	e.tm.mu.Lock()
	if e.refs > 0 {
		e.tm.endPoints.retain(e)
	}
	e.tm.mu.Unlock()
	return e
}

// Put drops a reference. It must be called once for each Get and EndPoint.
func (e *EndPoint) Put() {
	e.tm.mu.Lock()
	if e != e.tm.self || e.refs > 1 {
		e.tm.endPoints.drop(e)
	}
	e.tm.mu.Unlock()
}

// Address returns the address of e.
func (e *EndPoint) Address() Address { return e.address }

// String returns the address in canonical form.
func (e *EndPoint) String() string { return e.address.String() }

// maxUnused is the number of unreferenced end points that a TM keeps, so that the next message of a peer
// can reuse its end point.
const maxUnused = 1024

// endPoints holds the end points of a TM, guarded by the TM's mu. It keeps some unreferenced ones for
// reuse; programs do not see these.
type endPoints struct {
	all            map[Address]*EndPoint
	last           *EndPoint // most recently looked up
	references     int       // total number of references
	unused         int
	oldest, newest *EndPoint // ends of the list of unused ones
}

// acquire returns the end point of an address with a new reference.
func (s *endPoints) acquire(tm *TransferMachine, a Address) *EndPoint {
	e := s.last
	if e == nil || e.address != a {
		e = s.all[a]
	}
	if e == nil {
		if s.all == nil {
			s.all = make(map[Address]*EndPoint)
		}
		e = &EndPoint{tm: tm, address: a}
		s.all[a] = e
	} else if e.refs == 0 {
		s.removeUnused(e)
	}
	s.last = e
	s.retain(e)
	return e
}

// retain adds a reference.
func (s *endPoints) retain(e *EndPoint) {
	s.references++
	e.refs++
}

// drop drops a reference. If all were dropped already, it has no effect.
func (s *endPoints) drop(e *EndPoint) {
	if e.refs == 0 {
		return
	}
	s.references--
	e.refs--
	if e.refs > 0 {
		return
	}
	if s.unused == maxUnused {
		oldest := s.oldest
		s.removeUnused(oldest)
		delete(s.all, oldest.address)
		if s.last == oldest {
			s.last = nil
		}
	}
	e.older = s.newest
	if s.newest == nil {
		s.oldest = e
	} else {
		s.newest.newer = e
	}
	s.newest = e
	s.unused++
}

// removeUnused removes e from the list of unused end points.
func (s *endPoints) removeUnused(e *EndPoint) {
	if e.older == nil {
		s.oldest = e.newer
	} else {
		e.older.newer = e.newer
	}
	if e.newer == nil {
		s.newest = e.older
	} else {
		e.newer.older = e.older
	}
	e.older, e.newer = nil, nil
	s.unused--
}
