package protocol

import (
	"syscall"
	"time"

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

// Same tells whether o is of the same life and version of the peer. When a connection
// is established, those of the peer that are not end (o2iblnd 12.3).
func (s *Session) Same(o *Session) bool {
	return s.Version == o.Version && s.PeerStamp == o.PeerStamp
}

// NewStamp is the incarnation of an NI that starts now: microseconds of the wall clock.
// last is that of its life before, 0 if it is not known; clocks are set back, and no
// stamp may come twice (o2iblnd 2.2).
func NewStamp(wall time.Time, last uint64) uint64 {
	return max(uint64(max(wall.UnixMicro(), 1)), last+1)
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
