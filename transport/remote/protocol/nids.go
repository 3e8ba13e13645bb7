package protocol

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"github.com/lnetd/lnetd/lnet"
)

// Layout of the body of the reply to NIDS_GET (transport 9.2); the request has none.
//
//	0 count u32       0 to 817
//	4 NID [20]        count times
const (
	nidsHead = 4
	// MaxNIDs is how many NIDs one reply holds.
	MaxNIDs = (maxBody - nidsHead) / lnet.LargeNIDSize
)

// NIDsGet asks for the local NIDs. Its body is empty.
type NIDsGet struct{}

// Opcode is OpNIDsGet.
func (*NIDsGet) Opcode() Opcode { return OpNIDsGet }

// Append appends nothing.
func (*NIDsGet) Append(b []byte) []byte { return b }

// Decode refuses any byte.
func (*NIDsGet) Decode(b []byte) error { return exactly("NIDs request", b, 0) }

// NIDsReply tells them.
type NIDsReply struct {
	// NIDs are the local ones, loopback included, at most MaxNIDs.
	NIDs []lnet.NID
}

// Append appends the body.
func (r *NIDsReply) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(r.NIDs)))
	for _, nid := range r.NIDs {
		b = nid.AppendLarge(b)
	}
	return b
}

// Decode reads the body.
func (r *NIDsReply) Decode(b []byte) error {
	n, err := decodeCount("NIDs reply", b, nidsHead, lnet.LargeNIDSize, MaxNIDs)
	if err != nil {
		return err
	}
	nids := make([]lnet.NID, 0, n)
	for b = b[nidsHead:]; len(b) > 0; b = b[lnet.LargeNIDSize:] {
		nid, err := decodeNID("NIDs reply", fmt.Sprintf("NID %d", len(nids)), b)
		if err != nil {
			return err
		}
		nids = append(nids, nid)
	}
	r.NIDs = nids
	return nil
}

// decodeCount reads the count that a list's body begins with, and tells whether so many
// items of that size follow a head of that size, and nothing else; most is what there may
// be.
func decodeCount(what string, b []byte, head, size, most int) (int, error) {
	if len(b) < head {
		return 0, fieldError(what, "body", len(b), fmt.Errorf("less than %d bytes: %w", head, syscall.EINVAL))
	}
	count := binary.LittleEndian.Uint32(b)
	if count > uint32(most) {
		return 0, outside(what, "count", uint64(count), 0, uint64(most))
	}
	if err := exactly(what, b, head+int(count)*size); err != nil {
		return 0, err
	}
	return int(count), nil
}
