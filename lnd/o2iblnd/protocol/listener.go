package protocol

import (
	"errors"
	"fmt"

	"github.com/lnetd/lnetd/lnet"
)

// Self is one of our NIs.
type Self struct {
	NID lnet.NID
	// Stamp is its incarnation: neither 0 nor all ones, and another one each time
	// that it starts (o2iblnd 2.2).
	Stamp uint64
	// Depth and Fragments are the most that it accepts.
	Depth, Fragments int
	// Down: it does not take callers yet.
	Down bool
}

// limits is what a reject tells of s.
func (s *Self) limits() Params {
	return Params{Depth: uint16(s.Depth), Fragments: uint16(s.Fragments), Size: MaxMessage}
}

// Listener judges callers of an interface, which is shared by all NIs on it.
type Listener struct {
	NIs []Self
	// Privileged: callers come from ports below 1024.
	Privileged bool
	// V1: that version is spoken too.
	V1    bool
	Check Checking
}

// ErrRejected says that a caller was turned away.
var ErrRejected = errors.New("rejected")

var (
	errPort    = errors.New("not below 1024")
	errNoNI    = errors.New("no NI here")
	errStamp   = errors.New("is not ours")
	errNotReq  = errors.New("no CONNREQ")
	errDepth   = errors.New("not as deep as that")
	errNoDepth = errors.New("no credits at all")
	errFrags   = errors.New("not as many")
	errNoFrags = errors.New("none at all")
	errSize    = fmt.Errorf("not %d", MaxMessage)
)

const privilegedPorts = 1024

// Judge reads the private data of a caller from a port into m and checks it, in the
// order that decides on the reason (o2iblnd 3.6 rows 1 to 10). It returns the NI that
// is wanted, an index in NIs. An error says what is wrong; the reject then is the
// answer. Resources, and what is known of the peer, come behind: see NoRoom and
// Peering.Accept.
func (l *Listener) Judge(port uint16, data []byte, m *Message) (ni int, r Reject, err error) {
	r = Reject{Version: V2, Why: Fatal, Limits: Params{Size: MaxMessage}}
	if l.Privileged && port >= privilegedPorts {
		return 0, r, m.fieldError("source port", port, errPort)
	}
	if _, err := m.Decode(data, l.Check); err != nil {
		return 0, r, err
	}
	if m.Version == V1 && !l.V1 {
		return 0, r, &lnet.VersionError{What: "message", Version: uint32(m.Version)}
	}
	if ni, r.Why = l.find(m.Dst); ni < 0 {
		return 0, r, m.fieldError("dstnid", m.Dst, errNoNI)
	}
	self := &l.NIs[ni]
	r.Stamp, r.Limits = self.Stamp, self.limits()
	if !knows(m, self.Stamp) {
		r.Why = Stale
		return 0, r, m.fieldError("dststamp", m.DstStamp, errStamp)
	}
	r.Version, r.Why = m.Version, Fatal
	if m.Type != ConnReq {
		return 0, r, m.fieldError("type", m.Type, errNotReq)
	}
	why, err := l.params(self, m)
	if err != nil {
		r.Why = why
		return 0, r, err
	}
	return ni, Reject{}, nil
}

// unknownV1 is what kernels that fall back to V1 say of an incarnation that they do
// not know (o2iblnd 2.2, 6).
const unknownV1 = ^uint64(0)

// knows tells whether what a caller says of our incarnation may stand.
func knows(m *Message, stamp uint64) bool {
	return m.DstStamp == 0 || m.DstStamp == stamp || m.Version == V1 && m.DstStamp == unknownV1
}

// find returns the NI with a NID, or -1 and why there is none.
func (l *Listener) find(nid lnet.NID) (ni int, why Reason) {
	why = Fatal
	if len(l.NIs) == 0 {
		return -1, Early
	}
	for i := range l.NIs {
		switch {
		case l.NIs[i].Down:
			why = Early
		case l.NIs[i].NID == nid:
			return i, 0
		}
	}
	return -1, why
}

// params checks what a caller offers.
func (l *Listener) params(self *Self, m *Message) (Reason, error) {
	depth, tooDeep, tooMany := self.Depth, TooDeep, TooManyFrag
	if m.Version == V1 {
		depth, tooDeep, tooMany = V1Depth, Fatal, Fatal
	}
	p := &m.Params
	switch {
	case p.Depth == 0:
		return Fatal, m.fieldError("queue_depth", p.Depth, errNoDepth)
	case int(p.Depth) > depth:
		return tooDeep, m.fieldError("queue_depth", p.Depth, errDepth)
	case p.Fragments == 0:
		return Fatal, m.fieldError("max_frags", p.Fragments, errNoFrags)
	case int(p.Fragments) > self.Fragments:
		return tooMany, m.fieldError("max_frags", p.Fragments, errFrags)
	case p.Size > MaxMessage:
		return Fatal, m.fieldError("max_msg_size", p.Size, errSize)
	}
	return 0, nil
}

// NoRoom is the answer to a caller whom Judge has let pass, and for whom there are no
// resources (o2iblnd 3.6 row 11).
func (s *Self) NoRoom(m *Message) Reject { return s.reject(m, NoResources) }

func (s *Self) reject(m *Message, why Reason) Reject {
	return Reject{Version: m.Version, Why: why, Stamp: s.Stamp, Limits: s.limits()}
}

// Agree makes the CONNACK for a caller in ack, and the session that it begins. depth
// is what the device can do, at most what the caller has asked for (o2iblnd 3.6).
func (s *Self) Agree(m *Message, depth int, ack *Message) Session {
	depth = min(depth, int(m.Params.Depth))
	*ack = Message{
		Version: m.Version, Type: ConnAck, Src: s.NID, SrcStamp: s.Stamp, Dst: m.Src, DstStamp: m.SrcStamp,
		Params: Params{Depth: uint16(depth), Fragments: m.Params.Fragments, Size: MaxMessage},
	}
	return Session{
		Version: m.Version, Self: s.NID, SelfStamp: s.Stamp, Peer: m.Src, PeerStamp: m.SrcStamp,
		Depth: depth, Fragments: int(m.Params.Fragments),
	}
}
