package protocol

import (
	"syscall"

	"github.com/lnetd/lnetd/lnet"
)

// Session is what both sides of a connection have agreed upon.
type Session struct {
	Version              Version
	Self, Peer           lnet.NID
	SelfStamp, PeerStamp uint64
	// Depth is the queue depth, and Fragments the most RDMA WRITEs of a transfer.
	Depth, Fragments int
}

// belongs tells whether a message is of the session, exactly (o2iblnd 2.2).
func (s *Session) belongs(m *Message) error {
	var field string
	var value any
	switch {
	case m.Src != s.Peer:
		field, value = "srcnid", m.Src
	case m.Dst != s.Self:
		field, value = "dstnid", m.Dst
	case m.SrcStamp != s.PeerStamp:
		field, value = "srcstamp", m.SrcStamp
	case m.DstStamp != s.SelfStamp:
		field, value = "dststamp", m.DstStamp
	default:
		return nil
	}
	return &Failure{Health: RemoteError, Errno: syscall.ESTALE, Err: m.fieldError(field, value, errOther)}
}
