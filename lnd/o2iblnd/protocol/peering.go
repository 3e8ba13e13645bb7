package protocol

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Peering is what a node remembers of a peer between connections and attempts to connect, of either side
// (o2iblnd 6, 12.3, 12.4). The zero value means that the peer is unknown.
type Peering struct {
	// Version and Stamp are the peer's version and incarnation at the last contact. They are 0 before the first
	// contact.
	Version Version
	Stamp   uint64
	// V1 is set if version 1 may be used with a peer that supports no other.
	V1 bool
	// Maximums that the peer has announced in a reject; 0 if it has announced none.
	depth, fragments int

	redials int // number of redials since the last connection or failure
}

var errOther = errors.New("does not match the request")

// Accept decides on a connection request m that Listener.Judge has accepted, and records the caller's version
// and incarnation (o2iblnd 3.6 rows 12 and 13, 12.3). connected means that connections to the peer, or attempts
// to make one, exist. If these belong to another incarnation or version than m, Accept returns ok false. The
// caller of Accept must then answer with the reject r and close all of these connections.
//
// Accept never rejects because both sides are connecting at the same time (a race). Both connections are
// useful. Between versions that order NIDs differently, such rejects would repeat for a long time (o2iblnd
// 12.2, 18 row 11).
func (p *Peering) Accept(m *Message, self *Self, connected bool) (r Reject, ok bool) {
	known := p.Version != 0 && p.Stamp != 0
	other := known && (p.Version != m.Version || p.Stamp != m.SrcStamp)
	p.Version, p.Stamp = m.Version, m.SrcStamp
	if connected && other {
		return self.reject(m, Stale), false
	}
	return Reject{}, true
}

// Request stores the next CONNREQ to the peer with the NID to in m.
func (p *Peering) Request(self *Self, to lnet.NID, m *Message) {
	v := V2
	if p.Version == V1 && p.V1 {
		v = V1
	}
	depth, fragments := self.Depth, min(self.Fragments, MaxOffered)
	if p.depth > 0 {
		depth = min(depth, p.depth)
	}
	if p.fragments > 0 {
		fragments = min(fragments, p.fragments)
	}
	if v == V1 {
		depth = V1Depth
	}
	*m = Message{
		Version: v, Type: ConnReq, Src: self.NID, SrcStamp: self.Stamp, Dst: to, DstStamp: p.Stamp,
		Params: Params{Depth: uint16(depth), Fragments: uint16(fragments), Size: MaxMessage},
	}
}

// Connected checks the CONNACK m that answers request, and records the peer's version and incarnation (o2iblnd
// 3.7). It returns the parameters of the connection. After an error the connection, which is already
// established, must be closed.
func (p *Peering) Connected(request, m *Message) (Session, error) {
	if err := answers(request, m); err != nil {
		return Session{}, &Failure{Health: LocalError, Errno: syscall.ECONNABORTED, Err: err}
	}
	p.Version, p.Stamp = m.Version, m.SrcStamp
	p.redials = 0
	return Session{
		Version: m.Version, Self: m.Dst, SelfStamp: m.DstStamp, Peer: m.Src, PeerStamp: m.SrcStamp,
		Depth: int(m.Params.Depth), Fragments: int(m.Params.Fragments),
	}, nil
}

// answers returns an error if m is not a valid answer to request.
func answers(request, m *Message) error {
	switch offer, got := &request.Params, &m.Params; {
	case m.Type != ConnAck:
		return m.fieldError("type", m.Type, errors.New("expected CONNACK"))
	case m.Version != request.Version:
		return m.fieldError("version", m.Version, fmt.Errorf("the request has %v", request.Version))
	case got.Depth > offer.Depth:
		return m.fieldError("queue_depth", got.Depth, errDepth)
	case got.Depth == 0:
		return m.fieldError("queue_depth", got.Depth, errNoDepth)
	case got.Fragments > offer.Fragments:
		return m.fieldError("max_frags", got.Fragments, errFrags)
	case got.Fragments == 0:
		return m.fieldError("max_frags", got.Fragments, errNoFrags)
	case got.Size > MaxMessage:
		return m.fieldError("max_msg_size", got.Size, errSize)
	case m.Src != request.Dst:
		return m.fieldError("srcnid", m.Src, errOther)
	case m.Dst != request.Src:
		return m.fieldError("dstnid", m.Dst, errOther)
	case m.DstStamp != request.SrcStamp:
		return m.fieldError("dststamp", m.DstStamp, errOther)
	}
	return nil
}

// Rejection describes how an attempt of this node to connect was rejected.
type Rejection struct {
	// Request is the rejected request.
	Request *Message
	// Status is the status that the CM reports, and Data the private data of the reject.
	Status int
	Data   []byte
	// Waiting is set if messages wait for a connection to the peer, and Calling if the peer is connecting to
	// this node.
	Waiting, Calling bool
}

// Decision is what to do after an attempt to connect was rejected.
type Decision struct {
	// Redial asks for another attempt at the time At. The attempt is not needed if the peer has a connection by
	// then.
	Redial bool
	At     time.Time
	// Failure is set, without Redial, if no other attempt is to be made; messages that wait for the peer fail
	// with it. If neither Failure nor Redial is set, no messages wait, or they wait for a connection that the
	// peer is opening.
	Failure *Failure
	// Why is the reason that the reject contains, or 0 if it contains none.
	Why Reason
}

// Status values of CM rejects (o2iblnd 6).
const (
	cmBadService = 8
	cmStale      = 10
	cmConsumer   = 28
)

// racePause is the pause before another attempt after RaceLost. The connection that the peer is opening usually
// makes that attempt unnecessary (o2iblnd 12.2).
const racePause = time.Second

// The first maxRedials redials in a row follow without a pause, later ones after redialPause (o2iblnd 12.4).
const (
	maxRedials  = 10
	redialPause = time.Second
)

// Rejected decides what to do after an attempt to connect was rejected (o2iblnd 6, 12.4). It records what the
// reject says about the peer, so that the next Request takes it into account.
func (p *Peering) Rejected(now time.Time, r Rejection) Decision {
	switch r.Status {
	case cmConsumer:
	case cmBadService:
		return p.refused(syscall.EHOSTUNREACH, errors.New("no o2iblnd listens at the peer's address and port"))
	case cmStale:
		p.Stamp = 0
		return p.redial(now, &r, Stale, false)
	default:
		return p.refused(syscall.ECONNREFUSED, fmt.Errorf("the connection manager rejected the request with status %d", r.Status))
	}
	reject, err := DecodeReject(r.Data)
	if err != nil {
		return p.refused(syscall.ECONNREFUSED, err)
	}
	why := reject.Why
	if why == Fatal && reject.Version != r.Request.Version {
		// The peer is older than V2, or an lnetd that does not accept V1.
		why = Uncompat
	}
	d := p.rejected(now, &r, &reject, why)
	d.Why = why
	return d
}

// rejected is the part of Rejected for a reject from the peer's driver, with the reason why.
func (p *Peering) rejected(now time.Time, r *Rejection, reject *Reject, why Reason) Decision {
	offer := &r.Request.Params
	switch limits := &reject.Limits; why {
	case RaceLost, Stale:
	case Uncompat:
		if reject.Version == V1 && !p.V1 || reject.Version == r.Request.Version {
			return p.refused(syscall.ECONNREFUSED, fmt.Errorf("the peer rejected the request (%v): it requires version %v", reject.Why, reject.Version))
		}
	case TooManyFrag:
		if limits.Fragments == 0 || limits.Fragments >= offer.Fragments {
			return p.refused(syscall.ECONNREFUSED, fmt.Errorf("the peer rejected the request (%v): %d fragments, its limit is %d", why, offer.Fragments, limits.Fragments))
		}
		p.fragments = int(limits.Fragments)
	case TooDeep:
		if limits.Depth < MinDepth || limits.Depth >= offer.Depth {
			return p.refused(syscall.ECONNREFUSED, fmt.Errorf("the peer rejected the request (%v): %d credits, its limit is %d", why, offer.Depth, limits.Depth))
		}
		p.depth = int(limits.Depth)
	default:
		return p.refused(syscall.ECONNREFUSED, fmt.Errorf("the peer rejected the request (%v)", why))
	}
	changed := reject.Version != r.Request.Version
	p.Version, p.Stamp = reject.Version, reject.Stamp
	return p.redial(now, r, why, changed)
}

// redial asks for another attempt, if messages wait for a connection or changed is set: the reject asks for
// another version. It asks for none if the peer is connecting to this node.
func (p *Peering) redial(now time.Time, r *Rejection, why Reason, changed bool) Decision {
	d := Decision{At: now, Why: why}
	if r.Calling || !r.Waiting && !changed {
		return d
	}
	d.Redial = true
	p.redials++
	switch {
	case why == RaceLost:
		d.At = now.Add(racePause)
	case p.redials > maxRedials:
		d.At = now.Add(redialPause)
	}
	return d
}

// refused ends a series of attempts with a failure.
func (p *Peering) refused(errno syscall.Errno, err error) Decision {
	p.Failed()
	return Decision{Failure: Unconnected(errno, err)}
}

// Failed records that a series of attempts has ended without a connection. The next attempt begins a new series
// and offers this node's maximums again.
func (p *Peering) Failed() { p.redials, p.depth, p.fragments = 0, 0, 0 }
