package protocol

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"github.com/lnetd/lnetd/lnet"
)

// Layout of the body of the reply to NIDS_GET (transport 9.2). The request has no body.
//
//	0 count u32       0 to 817
//	4 NID [20]        count times
const (
	nidsHead = 4
	// MaxNIDs is the maximum number of NIDs in one reply.
	MaxNIDs = (maxBody - nidsHead) / lnet.LargeNIDSize
)

// NIDsGet requests the NIDs of lnetd's node. Its body is empty.
type NIDsGet struct{}

// Opcode returns OpNIDsGet.
func (*NIDsGet) Opcode() Opcode { return OpNIDsGet }

// Append appends nothing.
func (*NIDsGet) Append(b []byte) []byte { return b }

// Decode returns an error if b is not empty.
func (*NIDsGet) Decode(b []byte) error { return checkLength("NIDs request", b, 0) }

// NIDsReply is the reply to NIDsGet.
type NIDsReply struct {
	// NIDs are the NIDs of lnetd's node, including loopback. There are at most MaxNIDs.
	NIDs []lnet.NID
}

// Append implements Body. It appends the encoded body to b.
func (r *NIDsReply) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(r.NIDs)))
	for _, nid := range r.NIDs {
		b = nid.AppendLarge(b)
	}
	return b
}

// Decode implements Body. It decodes b, which is the whole body.
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

// decodeCount decodes and returns the count at the start of a list. b must consist of a head of head bytes,
// which begins with the count, and of this number of items of size bytes. decodeCount returns an error if the
// length of b differs, or if the count exceeds most.
func decodeCount(what string, b []byte, head, size, most int) (int, error) {
	if len(b) < head {
		return 0, fieldError(what, "body", len(b), fmt.Errorf("must be at least %d bytes: %w", head, syscall.EINVAL))
	}
	count := binary.LittleEndian.Uint32(b)
	if count > uint32(most) {
		return 0, errOutsideRange(what, "count", uint64(count), 0, uint64(most))
	}
	if err := checkLength(what, b, head+int(count)*size); err != nil {
		return 0, err
	}
	return int(count), nil
}
