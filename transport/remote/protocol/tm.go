package protocol

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"syscall"

	"github.com/lnetd/lnetd/lnet"
)

// Layouts of the bodies of TM_START and its reply, and of TM_STOP (transport 9.2). The reply
// to TM_STOP is Counters.
//
//	TM_START                              reply
//	 0 NID [20]                            0 handle u32       not 0xffffffff
//	20 PID u32                             4 TM id u32        1 to 4095
//	24 portal u32      1 to 63             8 CQ entries u32   power of two, 2 to 16384
//	28 TM id u32       1 to 4095, or       12 SQ entries u32  4 x CQ entries
//	                   4096: any free      16 credits u32     1 to CQ entries
//	32 CQ entries u32  1 to 16384         20
//	36 flags u32       0                  with MATCH_BITS:
//	40                                    20 u32             0
//	                                      24 match bits u64
//	TM_STOP                               32
//	 0 handle u32
//	 4
const (
	tmStartSize      = 40
	tmStartReplySize = 20
	matchBitsSize    = 12
	handleSize       = 4

	maxTMID = 4095
	// DynamicTMID, as TMStart.TMID, requests any free number.
	DynamicTMID = maxTMID + 1
	// MaxCompletions and MinCompletions are the limits of the number of entries of a completion ring.
	MaxCompletions = 16384
	MinCompletions = 2
	// SubmissionsPerCompletion is the number of submission entries for each completion entry. It ensures that
	// the submission ring is never full. For each buffer with a reserved completion entry, up to three
	// submissions may be unread: the cancellation of the buffer's previous operation, the current operation,
	// and its cancellation. The next power of two is 4.
	SubmissionsPerCompletion = 4
	// NoHandle is a number that no TM has as its handle. In a StatsGet it means all TMs of the connection.
	NoHandle = 0xffffffff
)

var (
	errPower       = fmt.Errorf("not a power of two within %d to %d: %w", MinCompletions, MaxCompletions, syscall.EINVAL)
	errSubmissions = fmt.Errorf("must be %d times the completion entries: %w", SubmissionsPerCompletion, syscall.EINVAL)
	errMatchBits   = fmt.Errorf("not the number of the TM followed by a counter: %w", syscall.EINVAL)
	errNoHandle    = fmt.Errorf("not the handle of a TM: %w", syscall.EINVAL)
)

// TMStart starts a transfer machine. lnetd sends the reply when the start has succeeded or failed. The
// request fails with ENOENT if the NID or the PID does not belong to this host, EADDRINUSE if the address is
// in use, EADDRNOTAVAIL if no TM number is free, EACCES if lnetd's rules do not permit the address, and
// EDQUOT if a quota is used up.
type TMStart struct {
	NID lnet.NID
	PID lnet.PID
	// Portal is 1 to 63.
	Portal uint32
	// TMID is 1 to 4095, or DynamicTMID.
	TMID uint32
	// Completions is the minimum number of entries of the completion ring, 1 to MaxCompletions.
	// TMStartReply.Credits is the number of entries that the client can use for operations.
	Completions uint32
}

// Opcode returns OpTMStart.
func (*TMStart) Opcode() Opcode { return OpTMStart }

// Append implements Body. It appends the encoded body to b.
func (s *TMStart) Append(b []byte) []byte {
	b = s.NID.AppendLarge(b)
	b = binary.LittleEndian.AppendUint32(b, uint32(s.PID))
	b = binary.LittleEndian.AppendUint32(b, s.Portal)
	b = binary.LittleEndian.AppendUint32(b, s.TMID)
	b = binary.LittleEndian.AppendUint32(b, s.Completions)
	return binary.LittleEndian.AppendUint32(b, 0)
}

// Decode implements Body. It decodes b, which is the whole body.
func (s *TMStart) Decode(b []byte) error {
	if err := checkLength("TM", b, tmStartSize); err != nil {
		return err
	}
	nid, err := decodeNID("TM", "NID", b)
	if err != nil {
		return err
	}
	v := TMStart{
		NID:         nid,
		PID:         lnet.PID(binary.LittleEndian.Uint32(b[20:])),
		Portal:      binary.LittleEndian.Uint32(b[24:]),
		TMID:        binary.LittleEndian.Uint32(b[28:]),
		Completions: binary.LittleEndian.Uint32(b[32:]),
	}
	switch {
	case v.Portal == lnet.ReservedPortal || v.Portal >= lnet.Portals:
		return errOutsideRange("TM", "portal", uint64(v.Portal), 1, lnet.Portals-1)
	case v.TMID == 0 || v.TMID > DynamicTMID:
		return errOutsideRange("TM", "TM id", uint64(v.TMID), 1, DynamicTMID)
	case v.Completions == 0 || v.Completions > MaxCompletions:
		return errOutsideRange("TM", "CQ entries", uint64(v.Completions), 1, MaxCompletions)
	}
	if flags := binary.LittleEndian.Uint32(b[36:]); flags != 0 {
		return fieldError("TM", "flags", flags, errZero)
	}
	*s = v
	return nil
}

// Granted returns the number of entries of the completion ring if a client requests the given number, 1 to
// MaxCompletions: the next power of two, at least MinCompletions.
func Granted(completions uint32) uint32 {
	return max(MinCompletions, uint32(1)<<bits.Len32(completions-1))
}

// Credits returns how many of the entries of a completion ring lnetd uses for operations: all except an
// eighth of them, and except 8 if an eighth is more. The remaining entries are for completions of the TM
// itself, which lnetd discards if no such entry is free (transport 9.5). Clients use Credits to estimate how
// many entries to request; the value in the reply to TM_START is authoritative.
func Credits(completions uint32) uint32 { return completions - min(8, completions/8) }

// TMStartReply is the reply to TMStart. File descriptors accompany it; see Opcode.ReplyFDs.
type TMStartReply struct {
	// Handle identifies the TM on this connection.
	Handle uint32
	// TMID is the number of the TM, 1 to 4095.
	TMID uint32
	// Completions is the number of entries of the completion ring, a power of two. The submission ring has
	// SubmissionsPerCompletion times as many entries.
	Completions uint32
	// Credits is the number of entries for completions of operations, 1 to Completions.
	Credits uint32
	// MatchBits consists of the number of the TM and a counter, 1 to 2^52-1. The TM's passive buffers use the
	// match bits that follow (transport 6.4). It is 0 without FeatMatchBits.
	MatchBits uint64
}

// Append implements Body. It appends the encoded body to b.
func (r *TMStartReply) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, r.Handle)
	b = binary.LittleEndian.AppendUint32(b, r.TMID)
	b = binary.LittleEndian.AppendUint32(b, r.Completions)
	b = binary.LittleEndian.AppendUint32(b, SubmissionsPerCompletion*r.Completions)
	b = binary.LittleEndian.AppendUint32(b, r.Credits)
	if r.MatchBits == 0 {
		return b
	}
	b = binary.LittleEndian.AppendUint32(b, 0)
	return binary.LittleEndian.AppendUint64(b, r.MatchBits)
}

// Decode implements Body. It decodes b, which is the whole body.
func (r *TMStartReply) Decode(b []byte) error {
	size := tmStartReplySize
	if len(b) > size {
		size += matchBitsSize
	}
	if err := checkLength("TM reply", b, size); err != nil {
		return err
	}
	v := TMStartReply{
		Handle:      binary.LittleEndian.Uint32(b),
		TMID:        binary.LittleEndian.Uint32(b[4:]),
		Completions: binary.LittleEndian.Uint32(b[8:]),
		Credits:     binary.LittleEndian.Uint32(b[16:]),
	}
	submissions := binary.LittleEndian.Uint32(b[12:])
	switch {
	case v.Handle == NoHandle:
		return fieldError("TM reply", "handle", v.Handle, errNoHandle)
	case v.TMID == 0 || v.TMID > maxTMID:
		return errOutsideRange("TM reply", "TM id", uint64(v.TMID), 1, maxTMID)
	case v.Completions < MinCompletions || v.Completions > MaxCompletions || bits.OnesCount32(v.Completions) != 1:
		return fieldError("TM reply", "CQ entries", v.Completions, errPower)
	case submissions != SubmissionsPerCompletion*v.Completions:
		return fieldError("TM reply", "SQ entries", submissions, errSubmissions)
	case v.Credits == 0 || v.Credits > v.Completions:
		return errOutsideRange("TM reply", "credits", uint64(v.Credits), 1, uint64(v.Completions))
	}
	if size > tmStartReplySize {
		v.MatchBits = binary.LittleEndian.Uint64(b[24:])
		if zero := binary.LittleEndian.Uint32(b[20:]); zero != 0 {
			return fieldError("TM reply", "padding", zero, errZero)
		}
		if v.MatchBits>>52 != uint64(v.TMID) || v.MatchBits<<12 == 0 {
			return fieldError("TM reply", "match bits", v.MatchBits, errMatchBits)
		}
	}
	*r = v
	return nil
}

// TMStop stops a transfer machine and releases its address. The request fails with EBUSY while an operation
// is in progress, including operations that lnetd has not read from the ring yet. The reply is Counters with
// the final values.
type TMStop struct {
	Handle uint32
}

// Opcode is OpTMStop.
func (*TMStop) Opcode() Opcode { return OpTMStop }

// Append implements Body. It appends the encoded body to b.
func (s *TMStop) Append(b []byte) []byte { return binary.LittleEndian.AppendUint32(b, s.Handle) }

// Decode implements Body. It decodes b, which is the whole body.
func (s *TMStop) Decode(b []byte) error {
	if err := checkLength("TM to stop", b, handleSize); err != nil {
		return err
	}
	handle := binary.LittleEndian.Uint32(b)
	if handle == NoHandle {
		return fieldError("TM to stop", "handle", handle, errNoHandle)
	}
	s.Handle = handle
	return nil
}
