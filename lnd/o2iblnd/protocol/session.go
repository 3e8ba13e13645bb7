package protocol

import (
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Session contains the parameters on which both sides of a connection have agreed.
type Session struct {
	Version              Version
	Self, Peer           lnet.NID
	SelfStamp, PeerStamp uint64
	// Depth is the queue depth, and Fragments the maximum number of RDMA WRITEs of a transfer.
	Depth, Fragments int
}

// Same reports whether s and o are of the same version and the same incarnation of the peer. When a connection
// is established, all others of which this is not true are closed (o2iblnd 12.3).
func (s *Session) Same(o *Session) bool {
	return s.Version == o.Version && s.PeerStamp == o.PeerStamp
}

// NewStamp returns the incarnation of an NI that starts now. It is the wall clock in microseconds, but at least
// last+1, since an incarnation must not be used twice and a clock may be set back. last is the incarnation that
// was used last, or 0 if it is unknown (o2iblnd 2.2).
func NewStamp(wall time.Time, last uint64) uint64 {
	return max(uint64(max(wall.UnixMicro(), 1)), last+1)
}

// belongs returns an error unless the NIDs and incarnations in the message are those of the session (o2iblnd
// 2.2).
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
