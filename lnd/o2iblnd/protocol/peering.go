package protocol

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Peering is what a side remembers of a peer from one attempt to connect to the
// next, on either side (o2iblnd 6, 12.3, 12.4). The zero value remembers nothing.
type Peering struct {
	// Version and Stamp are those of the last contact; 0: there was none.
	Version Version
	Stamp   uint64
	// V1: that version is spoken too, if the peer speaks no other.
	V1 bool
	// The most that the peer accepts; 0: as much as we do.
	depth, fragments int

	lives     [maxLives]uint64 // incarnations that were met, the last one first
	met       int
	restarted bool

	redials int // in a row
}

// maxLives is how many lives of a peer are told apart.
const maxLives = 4

var errOther = errors.New("not the one of this connection")

// Restarted tells, once, that the peer was met in a life that is neither its first
// nor one that was met before. Incarnations are not ordered: clocks are set back.
func (p *Peering) Restarted() bool {
	restarted := p.restarted
	p.restarted = false
	return restarted
}

func (p *Peering) meet(stamp uint64) {
	k := p.met
	for i, s := range p.lives[:p.met] {
		if s == stamp {
			k = i
			break
		}
	}
	if k == p.met {
		p.restarted = p.restarted || p.met > 0
		p.met = min(p.met+1, maxLives)
		k = p.met - 1
	}
	copy(p.lives[1:k+1], p.lives[:k])
	p.lives[0] = stamp
}

// Accept decides on a caller whom Listener.Judge has let pass, and records it
// (o2iblnd 3.6 rows 12 and 13, 12.3). connected: there are connections with the
// peer, made or in the making. With ok false the answer is the reject, and all of
// them are to be closed: they are of another life or version.
//
// A race is never lost: both connections are of use, while rejects for the
// race go on for long between versions that order NIDs differently (o2iblnd 12.2, 18 row 11).
func (p *Peering) Accept(m *Message, self *Self, connected bool) (r Reject, ok bool) {
	known := p.Version != 0 && p.Stamp != 0
	other := known && (p.Version != m.Version || p.Stamp != m.SrcStamp)
	p.Version, p.Stamp = m.Version, m.SrcStamp
	p.meet(m.SrcStamp)
	if connected && other {
		return self.reject(m, Stale), false
	}
	return Reject{}, true
}

// Request makes the next CONNREQ to a peer in m.
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

// Connected judges the CONNACK, in m, that answers a request (o2iblnd 3.7). The
// error costs the connection, which is made by then.
func (p *Peering) Connected(request, m *Message) (Session, error) {
	if err := answers(request, m); err != nil {
		return Session{}, &Failure{Health: LocalError, Errno: syscall.ECONNABORTED, Err: err}
	}
	p.Version, p.Stamp = m.Version, m.SrcStamp
	p.meet(m.SrcStamp)
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

// Rejection is how an attempt was rejected.
type Rejection struct {
	// Request is what was rejected.
	Request *Message
	// Status is the CM's, and Data the private data that came along.
	Status int
	Data   []byte
	// Waiting: messages wait for the peer. Calling: the peer is connecting to us.
	Waiting, Calling bool
}

// Decision is what follows an attempt that was rejected.
type Decision struct {
	// Redial: dial again, at At; not before that, and not at all if there is a
	// connection by then.
	Redial bool
	At     time.Time
	// Failure, without Redial: what waits for the peer has failed. Nil: nothing
	// waits, or it waits for the peer's own call.
	Failure *Failure
	// Why is the reason; 0: the reject had none.
	Why Reason
}

// Status of CM rejects (o2iblnd 6).
const (
	cmBadService = 8
	cmStale      = 10
	cmConsumer   = 28
)

// racePause is how long the peer whom a race was lost to has for its own call
// (o2iblnd 12.2).
const racePause = time.Second

// Redials in a row: so many at once, then one a second (o2iblnd 12.4).
const (
	maxRedials  = 10
	redialPause = time.Second
)

// Rejected decides what follows a rejected attempt (o2iblnd 6, 12.4), and records
// what the reject has told.
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
	d := p.rejected(now, &r, &reject)
	d.Why = reject.Why
	return d
}

func (p *Peering) rejected(now time.Time, r *Rejection, reject *Reject) Decision {
	offer := &r.Request.Params
	why := reject.Why
	if why == Fatal && reject.Version != r.Request.Version {
		// One that is older, or one of us, who speak no V1 any more.
		why = Uncompat
	}
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

// redial dials again if somebody needs it.
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

// refused ends a row of attempts.
func (p *Peering) refused(errno syscall.Errno, err error) Decision {
	p.Failed()
	return Decision{Failure: Unconnected(errno, err)}
}

// Failed notes that a row of attempts has ended without a connection: the next one
// is the first of its own, and offers all that we have.
func (p *Peering) Failed() { p.redials, p.depth, p.fragments = 0, 0, 0 }
