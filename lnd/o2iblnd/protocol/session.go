package protocol

import (
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Session holds the parameters on which both sides of a connection have agreed.
type Session struct {
	Version              Version
	Self, Peer           lnet.NID
	SelfStamp, PeerStamp uint64
	// Depth is the queue depth, and Fragments the maximum number of RDMA WRITEs of a transfer.
	Depth, Fragments int
}

// Same reports whether o belongs to the same life and version of the peer. When a connection is
// established, connections with the peer for which this is false are closed (o2iblnd 12.3).
func (s *Session) Same(o *Session) bool {
	return s.Version == o.Version && s.PeerStamp == o.PeerStamp
}

// NewStamp returns the incarnation of an NI that starts now: microseconds of the wall clock. last
// is the incarnation of its previous life, or 0 if it is unknown. Clocks may be set back, but a
// stamp must not be used twice (o2iblnd 2.2).
func NewStamp(wall time.Time, last uint64) uint64 {
	return max(uint64(max(wall.UnixMicro(), 1)), last+1)
}

// belongs returns an error unless the message matches the session exactly (o2iblnd 2.2).
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
