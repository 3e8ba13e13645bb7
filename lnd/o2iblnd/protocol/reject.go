package protocol

import (
	"encoding/binary"
	"fmt"

	"github.com/lnetd/lnetd/lnet"
)

// Reason is why a connection request was rejected (o2iblnd 6).
type Reason uint8

// The reasons.
const (
	RaceLost    Reason = 1 // both sides connect at the same time, and the rejecting side continues
	NoResources Reason = 2 // the rejecting side has too little memory or too few resources of the device
	Fatal       Reason = 3 // the request is invalid, or the NI does not exist
	Uncompat    Reason = 4 // the caller may try again with the version of the reject
	Stale       Reason = 5 // the request has an old incarnation; the reject contains the current one
	TooManyFrag Reason = 6 // the caller may try again with as many fragments as the reject permits
	TooDeep     Reason = 7 // the caller may try again with the queue depth of the reject
	BadService  Reason = 8 // defined, but never sent
	Early       Reason = 9 // the NI does not accept connections yet
)

// String returns a name such as "CONN_STALE", as kernels write it.
func (r Reason) String() string {
	names := [...]string{"CONN_RACE", "NO_RESOURCES", "FATAL", "CONN_UNCOMPAT", "CONN_STALE", "RDMA_FRAGS",
		"MSG_QUEUE_SIZE", "INVALID_SRV_ID", "EARLY"}
	if r >= 1 && int(r) <= len(names) {
		return names[r-1]
	}
	return fmt.Sprintf("reason %d", uint8(r))
}

// Reject is the private data of a CM reject (o2iblnd 6).
//
//	 0         4         6     7         8                 16            20              24
//	+---------+---------+-----+---------+-----------------+------+------+---------------+
//	| magic   | version | why | padding | incarnation (8) | depth| frags| max_msg_size  |
//	+---------+---------+-----+---------+-----------------+------+------+---------------+
type Reject struct {
	Version Version
	Why     Reason
	// Stamp is the incarnation of the rejecting NI. It is 0 if that NI does not exist, or if the reject does
	// not contain it (DecodeReject).
	Stamp uint64
	// Limits are the limits of the rejecting NI. They are zero in the same cases as Stamp.
	Limits Params
}

const (
	rejectSize  = 24
	rejectShort = 7 // up to the reason
)

// magicUnified is the magic of a protocol that was planned for all drivers and never introduced. Rejects may
// have it.
const magicUnified = 0x45726963

// Append appends the encoded reject, which has 24 bytes.
func (r *Reject) Append(b []byte, order binary.AppendByteOrder) []byte {
	b = order.AppendUint32(b, Magic)
	b = order.AppendUint16(b, uint16(r.Version))
	b = append(b, uint8(r.Why), 0)
	b = order.AppendUint64(b, r.Stamp)
	return r.Limits.append(b, order)
}

// DecodeReject decodes the private data of a reject, which may be followed by zeros. If the data is short, or
// its version is older than V2, DecodeReject decodes only the version and the reason. Its errors have the types
// of those of Message.Decode. An error means that the peer does not speak the protocol, or that its CM has sent
// the reject (o2iblnd 3.5, 6).
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
