package protocol

import (
	"errors"
	"fmt"

	"github.com/lnetd/lnetd/lnet"
)

// Self describes one of this node's NIs to the protocol.
type Self struct {
	NID lnet.NID
	// Stamp is the NI's incarnation. It is neither 0 nor all ones, and differs each time the NI starts (o2iblnd
	// 2.2).
	Stamp uint64
	// Depth and Fragments are the largest queue depth and number of fragments that the NI accepts.
	Depth, Fragments int
	// Down is set if the NI does not accept connections yet.
	Down bool
}

// limits returns the limits of the NI, which its rejects contain.
func (s *Self) limits() Params {
	return Params{Depth: uint16(s.Depth), Fragments: uint16(s.Fragments), Size: MaxMessage}
}

// Listener checks the connection requests that arrive at one address. NIs are all NIs with this address.
type Listener struct {
	NIs []Self
	// Privileged requires callers to use ports below 1024.
	Privileged bool
	// V1 is set if version 1 of the protocol is accepted too.
	V1    bool
	Check Checking
}

var (
	errPort    = errors.New("a privileged port, below 1024, is required")
	errNoNI    = errors.New("this node has no NI with this NID")
	errStamp   = errors.New("not the incarnation of this NI")
	errNotReq  = errors.New("expected CONNREQ")
	errDepth   = errors.New("more than this node allows")
	errNoDepth = errors.New("must be at least 1")
	errFrags   = errors.New("more than this node allows")
	errNoFrags = errors.New("must be at least 1")
	errSize    = fmt.Errorf("must be %d", MaxMessage)
)

const privilegedPorts = 1024

// Judge decodes the private data of a connection request into m and checks it. The order of the checks
// determines the reason of a reject (o2iblnd 3.6 rows 1 to 10). port is the source port of the caller. If the
// request is valid, Judge returns the requested NI, as an index in NIs. Otherwise it returns an error, and in r
// the reject to send.
//
// Judge does not check whether there are resources (NoRoom), nor what this node knows of the peer
// (Peering.Accept).
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

// unknownV1 is the value that kernels send for an unknown incarnation when they fall back to V1
// (o2iblnd 2.2, 6).
const unknownV1 = ^uint64(0)

// knows reports whether the request contains this node's incarnation, stamp, or says that the caller does not
// know it.
func knows(m *Message, stamp uint64) bool {
	return m.DstStamp == 0 || m.DstStamp == stamp || m.Version == V1 && m.DstStamp == unknownV1
}

// find returns the index of the NI with the given NID. If there is no such NI, it returns -1 and the reason for
// the reject.
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

// params checks the parameters that the request m offers. It returns an error and the reason for the reject if
// self cannot accept them.
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

// NoRoom returns the reject for a request that is valid, but for which this node has no resources (o2iblnd 3.6
// row 11).
func (s *Self) NoRoom(m *Message) Reject { return s.reject(m, NoResources) }

func (s *Self) reject(m *Message, why Reason) Reject {
	return Reject{Version: m.Version, Why: why, Stamp: s.Stamp, Limits: s.limits()}
}

// Agree stores in ack the CONNACK that accepts the request m, and returns the parameters of the connection.
// depth is the queue depth that the device supports; the connection uses it, but at most the depth that the
// caller has requested (o2iblnd 3.6).
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
