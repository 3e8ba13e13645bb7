package protocol

import (
	"encoding/binary"
	"fmt"

	"github.com/lnetd/lnetd/lnet"
)

// Reason is why a connection was rejected (o2iblnd 6).
type Reason uint8

// The reasons.
const (
	RaceLost    Reason = 1 // both sides dial
	NoResources Reason = 2
	Fatal       Reason = 3
	Uncompat    Reason = 4 // use the rejecter's version
	Stale       Reason = 5 // other incarnation, the reject has it
	TooManyFrag Reason = 6 // offer fewer fragments
	TooDeep     Reason = 7 // offer a smaller queue
	BadService  Reason = 8 // nobody sends it
	Early       Reason = 9 // not up yet
)

// String is "CONN_STALE", as kernels spell it.
func (r Reason) String() string {
	names := [...]string{"CONN_RACE", "NO_RESOURCES", "FATAL", "CONN_UNCOMPAT", "CONN_STALE", "RDMA_FRAGS",
		"MSG_QUEUE_SIZE", "INVALID_SRV_ID", "EARLY"}
	if r >= 1 && int(r) <= len(names) {
		return names[r-1]
	}
	return fmt.Sprintf("reason %d", uint8(r))
}

// Reject is the CM private data of a reject (o2iblnd 6).
//
//	 0         4         6     7         8                 16            20              24
//	+---------+---------+-----+---------+-----------------+------+------+---------------+
//	| magic   | version | why | padding | incarnation (8) | depth| frags| max_msg_size  |
//	+---------+---------+-----+---------+-----------------+------+------+---------------+
type Reject struct {
	Version Version
	Why     Reason
	// Stamp is the rejecter's incarnation; 0 if there is no such NI, or if the
	// reject has an old form.
	Stamp uint64
	// Limits are the rejecter's; zero likewise.
	Limits Params
}

const (
	rejectSize  = 24
	rejectShort = 7 // up to the reason
)

// magicUnified is that of a protocol for all drivers that never came.
const magicUnified = 0x45726963

// Append appends the 24 bytes of r.
func (r *Reject) Append(b []byte, order binary.AppendByteOrder) []byte {
	b = order.AppendUint32(b, Magic)
	b = order.AppendUint16(b, uint16(r.Version))
	b = append(b, uint8(r.Why), 0)
	b = order.AppendUint64(b, r.Stamp)
	return r.Limits.append(b, order)
}

// DecodeReject reads the private data of a reject, with any zeros behind it. Of the
// forms that are older than V2, and of short ones, only version and reason count. The
// errors are those of Message.Decode: whoever rejects does not speak the protocol,
// or it was its CM that did (o2iblnd 3.5, 6).
func DecodeReject(b []byte) (Reject, error) {
	if len(b) < rejectShort {
		return Reject{}, &lnet.TruncatedError{What: "reject", Need: rejectShort, Have: len(b)}
	}
	var order binary.ByteOrder
	switch magic := binary.LittleEndian.Uint32(b); {
	case magic == Magic, magic == magicUnified:
		order = binary.LittleEndian
	case binary.BigEndian.Uint32(b) == Magic, binary.BigEndian.Uint32(b) == magicUnified:
		order = binary.BigEndian
	default:
		return Reject{}, &lnet.MagicError{What: "reject", Magic: magic}
	}
	r := Reject{Version: Version(order.Uint16(b[4:])), Why: Reason(b[6])}
	if !r.Version.Known() {
		return Reject{}, &lnet.VersionError{What: "reject", Version: uint32(r.Version)}
	}
	if len(b) >= rejectSize && r.Version > V1 {
		r.Stamp = order.Uint64(b[8:])
		r.Limits = Params{Depth: order.Uint16(b[16:]), Fragments: order.Uint16(b[18:]), Size: order.Uint32(b[20:])}
	}
	return r, nil
}
