package protocol

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Peering is what one side remembers of a peer between attempts to connect, by either side (o2iblnd
// 6, 12.3, 12.4). The zero value remembers nothing.
type Peering struct {
	// Version and Stamp are those of the last contact. They are 0 before the first one.
	Version Version
	Stamp   uint64
	// V1 is set if that version is used with a peer that supports no other.
	V1 bool
	// Maximums that the peer accepts; 0: the same as ours.
	depth, fragments int

	redials int // in a row
}

var errOther = errors.New("not the one of this connection")

// Accept decides on a caller that Listener.Judge has accepted, and records it (o2iblnd 3.6 rows 12
// and 13, 12.3). connected means that there are connections with the peer, or attempts to connect.
// If ok is false, the caller is answered with the reject r, and all of these connections must be
// closed, because they belong to another life or version.
//
// Accept never rejects because of a race. Both connections are useful, and between versions that
// order NIDs differently such rejects would repeat for a long time (o2iblnd 12.2, 18 row 11).
func (p *Peering) Accept(m *Message, self *Self, connected bool) (r Reject, ok bool) {
	known := p.Version != 0 && p.Stamp != 0
	other := known && (p.Version != m.Version || p.Stamp != m.SrcStamp)
	p.Version, p.Stamp = m.Version, m.SrcStamp
	if connected && other {
		return self.reject(m, Stale), false
	}
	return Reject{}, true
}

// Request stores the next CONNREQ to a peer in m.
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

// Connected checks the CONNACK m that answers a request (o2iblnd 3.7). On an error the connection,
// which is already established, must be closed.
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

func answers(request, m *Message) error {
	switch offer, got := &request.Params, &m.Params; {
	case m.Type != ConnAck:
		return m.fieldError("type", m.Type, errors.New("no CONNACK"))
	case m.Version != request.Version:
		return m.fieldError("version", m.Version, fmt.Errorf("does not answer %v", request.Version))
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

// Rejection describes how an attempt was rejected.
type Rejection struct {
	// Request is the rejected request.
	Request *Message
	// Status is the status of the CM, and Data the private data of the reject.
	Status int
	Data   []byte
	// Waiting is set if messages wait for the peer, and Calling if the peer is connecting to us.
	Waiting, Calling bool
}

// Decision is what to do after a rejected attempt.
type Decision struct {
	// Redial asks for another attempt at the time At. Make none if there is a connection by then.
	Redial bool
	At     time.Time
	// Failure is set, without Redial, if the messages that wait for the peer have failed. It is nil
	// if no messages wait, or if they wait for the connection that the peer opens.
	Failure *Failure
	// Why is the reason of the reject, or 0 if the reject has no reason.
	Why Reason
}

// Status values of CM rejects (o2iblnd 6).
const (
	cmBadService = 8
	cmStale      = 10
	cmConsumer   = 28
)

// racePause is how long to wait, after a lost race, for the connection that the peer opens (o2iblnd
// 12.2).
const racePause = time.Second

// The first maxRedials redials in a row follow at once, the next ones after redialPause (o2iblnd
// 12.4).
const (
	maxRedials  = 10
	redialPause = time.Second
)

// Rejected decides what to do after a rejected attempt (o2iblnd 6, 12.4), and records what the
// reject says about the peer.
func (p *Peering) Rejected(now time.Time, r Rejection) Decision {
	switch r.Status {
	case cmConsumer:
	case cmBadService:
		return p.refused(syscall.EHOSTUNREACH, errors.New("nobody listens"))
	case cmStale:
		p.Stamp = 0
		return p.redial(now, &r, Stale, false)
	default:
		return p.refused(syscall.ECONNREFUSED, fmt.Errorf("rejected by the CM with status %d", r.Status))
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

func (p *Peering) rejected(now time.Time, r *Rejection, reject *Reject, why Reason) Decision {
	offer := &r.Request.Params
	switch limits := &reject.Limits; why {
	case RaceLost, Stale:
	case Uncompat:
		if reject.Version == V1 && !p.V1 || reject.Version == r.Request.Version {
			return p.refused(syscall.ECONNREFUSED, fmt.Errorf("%v: the peer wants version %v", reject.Why, reject.Version))
		}
	case TooManyFrag:
		if limits.Fragments == 0 || limits.Fragments >= offer.Fragments {
			return p.refused(syscall.ECONNREFUSED, fmt.Errorf("%v: %d are too many, the peer's limit is %d", why, offer.Fragments, limits.Fragments))
		}
		p.fragments = int(limits.Fragments)
	case TooDeep:
		if limits.Depth < MinDepth || limits.Depth >= offer.Depth {
			return p.refused(syscall.ECONNREFUSED, fmt.Errorf("%v: %d are too many, the peer's limit is %d", why, offer.Depth, limits.Depth))
		}
		p.depth = int(limits.Depth)
	default:
		return p.refused(syscall.ECONNREFUSED, fmt.Errorf("%v", why))
	}
	changed := reject.Version != r.Request.Version
	p.Version, p.Stamp = reject.Version, reject.Stamp
	return p.redial(now, r, why, changed)
}

// redial asks for another attempt if messages wait for it, or if the peer's version has changed.
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

// refused ends a series of attempts.
func (p *Peering) refused(errno syscall.Errno, err error) Decision {
	p.Failed()
	return Decision{Failure: Unconnected(errno, err)}
}

// Failed ends a series of attempts without a connection. The next attempt starts a new series and
// offers our own maximums.
func (p *Peering) Failed() { p.redials, p.depth, p.fragments = 0, 0, 0 }
