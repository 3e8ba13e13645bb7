package transport

import (
	"fmt"
	"syscall"
)

// EndPoint is the address of a TM as another TM uses it, to send messages to it or because it has received
// some from it (transport 3.6). A TM has one EndPoint for each address. An EndPoint is reference counted. A
// reference uses no network resource, but a TM cannot be closed while the program holds one.
type EndPoint struct {
	tm      *TransferMachine
	address Address
	// TransferMachine.mu guards the fields below.
	refs         int
	older, newer *EndPoint // neighbours in the list of unused end points, while refs is 0
}

// EndPoint returns the end point of an address, with a reference that the caller must drop with Put. It
// returns EINVAL if the address is malformed or has no TM number, or if the TM is not started.
func (tm *TransferMachine) EndPoint(address string) (*EndPoint, error) {
	a, err := ParseAddress(address)
	if err != nil {
		return nil, err
	}
	return tm.EndPointAt(a)
}

// EndPointAt is like EndPoint, but takes an Address instead of text.
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

// Get adds a reference and returns e. The caller must already hold a reference, or be in a callback that
// received e.
func (e *EndPoint) Get() *EndPoint {
	e.tm.mu.Lock()
	if e.refs > 0 {
		e.tm.endPoints.retain(e)
	}
	e.tm.mu.Unlock()
	return e
}

// Put drops a reference. It must be called once for each call of Get, EndPoint and EndPointAt.
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

// maxUnused is the maximum number of end points without references that a TM keeps. If a peer sends another
// message, the TM reuses the end point instead of allocating it again.
const maxUnused = 1024

// endPoints holds the end points of a TM. It keeps some without references for reuse. The TM's mu guards it.
type endPoints struct {
	all            map[Address]*EndPoint
	last           *EndPoint // result of the last acquire
	references     int       // total number of references to all end points
	unused         int       // number of end points without references
	oldest, newest *EndPoint // ends of the list of end points without references
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

// retain adds a reference to e.
func (s *endPoints) retain(e *EndPoint) {
	s.references++
	e.refs++
}

// drop drops a reference. It has no effect if e has no references.
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
