package transport

import (
	"fmt"
	"syscall"
)

// EndPoint is an address that a TM sends to, or has heard of (transport 3.6). There is
// one for each address in a TM. It is counted: it stays the TM's while anybody holds a
// reference, which costs no resource of the network, but keeps the TM from being closed.
type EndPoint struct {
	tm      *TransferMachine
	address Address
	// The rest is guarded by TransferMachine.mu.
	refs         int
	older, newer *EndPoint // in endPoints.unused, while refs is 0
}

// EndPoint makes an end point of an address, or takes another reference to the one there
// is; Put drops it. EINVAL: it is malformed, or has no number; or the TM is not started.
func (tm *TransferMachine) EndPoint(address string) (*EndPoint, error) {
	a, err := ParseAddress(address)
	if err != nil {
		return nil, err
	}
	return tm.EndPointAt(a)
}

// EndPointAt is EndPoint of an address that was parsed, or came from elsewhere.
func (tm *TransferMachine) EndPointAt(a Address) (*EndPoint, error) {
	if a.NID.IsZero() || a.TMID < 1 || a.TMID > MaxTMID {
		return nil, fmt.Errorf("transport: end point %q: %w", a, syscall.EINVAL)
	}
	tm.mu.Lock()
	defer tm.mu.Unlock()
	if tm.state != StateStarted {
		return nil, fmt.Errorf("transport: end point %v: the TM is %v: %w", a, tm.state, syscall.EINVAL)
	}
	return tm.endPoints.hold(tm, a), nil
}

// Get takes another reference; the caller has one, or is in a callback that was given it.
func (e *EndPoint) Get() *EndPoint {
	e.tm.mu.Lock()
	if e.refs > 0 {
		e.tm.endPoints.retain(e)
	}
	e.tm.mu.Unlock()
	return e
}

// Put drops a reference. It must be called once for each of Get and EndPoint.
func (e *EndPoint) Put() {
	e.tm.mu.Lock()
	if e != e.tm.self || e.refs > 1 {
		e.tm.endPoints.drop(e)
	}
	e.tm.mu.Unlock()
}

// Address is where it is.
func (e *EndPoint) Address() Address { return e.address }

// String is the canonical address.
func (e *EndPoint) String() string { return e.address.String() }

// maxUnused is how many end points a TM keeps that nobody refers to, so that the next
// message of a peer finds the one of the last.
const maxUnused = 1024

// endPoints are those of a TM; its mu guards them. Those that nobody refers to are no
// end points to a program; they are there to be used again.
type endPoints struct {
	all            map[Address]*EndPoint
	last           *EndPoint // that was looked for
	held           int       // references to all of them
	unused         int
	oldest, newest *EndPoint // of the unused ones
}

// hold takes a reference to the end point of an address.
func (s *endPoints) hold(tm *TransferMachine, a Address) *EndPoint {
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
		s.reuse(e)
	}
	s.last = e
	s.retain(e)
	return e
}

// retain takes another reference to an end point.
func (s *endPoints) retain(e *EndPoint) {
	s.held++
	e.refs++
}

// drop gives a reference back. One too many does nothing.
func (s *endPoints) drop(e *EndPoint) {
	if e.refs == 0 {
		return
	}
	s.held--
	e.refs--
	if e.refs > 0 {
		return
	}
	if s.unused == maxUnused {
		oldest := s.oldest
		s.reuse(oldest)
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

// reuse takes an end point out of the unused ones.
func (s *endPoints) reuse(e *EndPoint) {
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
