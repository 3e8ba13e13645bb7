package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"

	"github.com/lnetd/lnetd/lnet"
)

// Descriptor identifies a passive buffer for the peer that moves its data (transport 6.6). Programs need not
// know its content, and may send it in any message. It has DescriptorSize bytes for TMs at 4-byte NIDs, as in
// Motr, and LargeDescriptorSize bytes for TMs at large NIDs. The next Add of the buffer overwrites it; use
// bytes.Clone to keep it longer.
//
// All numbers are little endian, except the large NID, which has the format of lnet.NID.AppendLarge:
//
//	 0           8        16    20      24    28     32       40
//	+-----------+--------+-----+-------+-----+------+--------+----------+
//	|match bits |NID     |PID  |portal |TMID |queue |size    |checksum  |
//	+-----------+--------+-----+-------+-----+------+--------+----------+
//
//	 0      4         8           16                      36    40      44     48       56
//	+------+---------+-----------+------------ ... ------+-----+-------+------+--------+----------+
//	|magic |version  |match bits |NID, 20 bytes          |PID  |portal |queue |size    |checksum  |
//	+------+---------+-----------+------------ ... ------+-----+-------+------+--------+----------+
//
// The checksum is the exclusive or of the 64-bit words before it.
type Descriptor []byte

// Length of a Descriptor in bytes, for TMs with a 4-byte NID and with a large NID.
const (
	DescriptorSize      = 48
	LargeDescriptorSize = 64
)

const (
	// largeMagic is "LTMD", the start of a descriptor with a large NID.
	largeMagic   = 0x444d544c
	largeVersion = 1

	checksumSize = 8
)

// Passive is the decoded content of a Descriptor. It describes a passive buffer.
type Passive struct {
	// Address is the address of the buffer's TM. MatchBits select the buffer on that TM's portal.
	Address   Address
	MatchBits MatchBits
	// Queue is PassiveBulkRecv or PassiveBulkSend.
	Queue QueueType
	// Size is the capacity of the buffer (PassiveBulkRecv) or the number of bytes to be read from it
	// (PassiveBulkSend), 1 to lnet.MTU.
	Size int
}

// AppendDescriptor appends the descriptor of p to b. The fields of p must be valid.
func (p *Passive) AppendDescriptor(b []byte) []byte {
	start := len(b)
	le := binary.LittleEndian
	nid4, ok := p.Address.NID.NID4()
	if ok {
		b = le.AppendUint64(b, uint64(p.MatchBits))
		b = le.AppendUint64(b, nid4)
	} else {
		b = le.AppendUint32(b, largeMagic)
		b = le.AppendUint32(b, largeVersion)
		b = le.AppendUint64(b, uint64(p.MatchBits))
		b = p.Address.NID.AppendLarge(b)
	}
	b = le.AppendUint32(b, uint32(p.Address.PID))
	b = le.AppendUint32(b, p.Address.Portal)
	if ok {
		b = le.AppendUint32(b, uint32(p.Address.TMID))
	}
	b = le.AppendUint32(b, uint32(p.Queue))
	b = le.AppendUint64(b, uint64(p.Size))
	return le.AppendUint64(b, checksum(b[start:]))
}

// checksum returns the exclusive or of all 64-bit words of b.
func checksum(b []byte) uint64 {
	var sum uint64
	for ; len(b) >= 8; b = b[8:] {
		sum ^= binary.LittleEndian.Uint64(b)
	}
	return sum
}

// rawPassive holds the fields of a descriptor before validation. In a descriptor with a large NID, largeNID
// is the encoded NID and nid4 is 0. Otherwise largeNID is nil.
type rawPassive struct {
	matchBits                MatchBits
	nid4                     uint64
	largeNID                 []byte
	pid, portal, tmid, queue uint32
	size                     uint64
}

var (
	errDescriptorLength   = fmt.Errorf("neither %d nor %d bytes: %w", DescriptorSize, LargeDescriptorSize, syscall.EINVAL)
	errDescriptorChecksum = fmt.Errorf("checksum does not match: %w", syscall.EINVAL)
	errDescriptorMagic    = fmt.Errorf("magic or version is unknown: %w", syscall.EINVAL)
	errDescriptorQueue    = fmt.Errorf("neither 2 (passive receive) nor 3 (passive send): %w", syscall.EINVAL)
	errDescriptorPairing  = fmt.Errorf("the passive buffer is for the other direction: %w", syscall.EPERM)
	errDescriptorActive   = fmt.Errorf("not a queue for active bulk transfers: %w", syscall.EINVAL)
	errDescriptorTooLong  = fmt.Errorf("more than the active buffer can receive: %w", syscall.EFBIG)
	errDescriptorTooShort = fmt.Errorf("less than the active buffer sends: %w", syscall.EFBIG)
	errDescriptorCounter  = fmt.Errorf("their counter is 0: %w", syscall.EINVAL)
	errDescriptorTMID     = fmt.Errorf("differs from the number in the match bits: %w", syscall.EINVAL)
	errDescriptorNoTMID   = fmt.Errorf("not within 1 to 4095: %w", syscall.EINVAL)
	errDescriptorEmpty    = fmt.Errorf("must not be 0: %w", syscall.EINVAL)
	errDescriptorMTU      = fmt.Errorf("more than %d bytes: %w", lnet.MTU, syscall.EFBIG)
	errDescriptorPID      = fmt.Errorf("must be %d or that of an application: %w", lnet.PIDLustre, syscall.EINVAL)
	errDescriptorPortal   = fmt.Errorf("not within 1 to %d: %w", lnet.Portals-1, syscall.EINVAL)
	errDescriptorNID      = errors.New("not a NID that a TM can have in this layout")
)

// descriptorError returns an error about one field of a descriptor.
func descriptorError(field string, value any, err error) error {
	return &lnet.FieldError{What: "transport: descriptor", Field: field, Value: value, Err: err}
}

// Decode returns the description of the passive buffer in d. It returns EINVAL if d is damaged or a field is
// invalid, and EFBIG if the size exceeds lnet.MTU.
func (d Descriptor) Decode() (Passive, error) {
	raw, err := d.read()
	if err != nil {
		return Passive{}, err
	}
	if q := raw.queue; q != uint32(PassiveBulkRecv) && q != uint32(PassiveBulkSend) {
		return Passive{}, descriptorError("queue type", q, errDescriptorQueue)
	}
	return raw.passive()
}

// transfer decodes d for an operation on an active queue. It returns the passive buffer and the number of
// bytes to move. room is the capacity of the active buffer, and length is the number of bytes that it sends.
// The checks and their order (EINVAL, EPERM, EFBIG) follow transport 6.6.
func (d Descriptor) transfer(active QueueType, room, length int) (p Passive, n int, err error) {
	raw, err := d.read()
	if err != nil {
		return Passive{}, 0, err
	}
	if err := raw.checkTransfer(active, room, length); err != nil {
		return Passive{}, 0, err
	}
	if p, err = raw.passive(); err != nil {
		return Passive{}, 0, err
	}
	if active == ActiveBulkRecv {
		return p, p.Size, nil
	}
	return p, length, nil
}

// checkTransfer returns an error if the descriptor is for the other direction, or if its size does not fit
// room or length; see transfer.
func (r *rawPassive) checkTransfer(active QueueType, room, length int) error {
	pair := PassiveBulkSend
	switch active {
	case ActiveBulkRecv:
	case ActiveBulkSend:
		pair = PassiveBulkRecv
	default:
		return descriptorError("", active, errDescriptorActive)
	}
	switch q := r.queue; {
	case q == uint32(pair):
	case q == uint32(PassiveBulkRecv), q == uint32(PassiveBulkSend):
		return descriptorError("queue type", QueueType(q), errDescriptorPairing)
	default:
		return descriptorError("queue type", q, errDescriptorQueue)
	}
	switch {
	case active == ActiveBulkRecv && r.size > uint64(room):
		return descriptorError("size", r.size, errDescriptorTooLong)
	case active == ActiveBulkSend && uint64(length) > r.size:
		return descriptorError("size", r.size, errDescriptorTooShort)
	}
	return nil
}

// read splits d into its fields. It checks the length, checksum, magic and version, but not the other fields.
func (d Descriptor) read() (r rawPassive, err error) {
	if len(d) != DescriptorSize && len(d) != LargeDescriptorSize {
		return r, descriptorError("length", len(d), errDescriptorLength)
	}
	le := binary.LittleEndian
	words := d[:len(d)-checksumSize]
	if checksum(words) != le.Uint64(d[len(words):]) {
		return r, descriptorError("", nil, errDescriptorChecksum)
	}
	if len(d) == DescriptorSize {
		r.matchBits, r.nid4 = MatchBits(le.Uint64(d)), le.Uint64(d[8:])
		r.pid, r.portal, r.tmid, r.queue = le.Uint32(d[16:]), le.Uint32(d[20:]), le.Uint32(d[24:]), le.Uint32(d[28:])
		r.size = le.Uint64(d[32:])
		return r, nil
	}
	if le.Uint32(d) != largeMagic || le.Uint32(d[4:]) != largeVersion {
		return r, descriptorError("", nil, errDescriptorMagic)
	}
	r.matchBits, r.largeNID = MatchBits(le.Uint64(d[8:])), d[16:16+lnet.LargeNIDSize]
	r.pid, r.portal, r.queue = le.Uint32(d[36:]), le.Uint32(d[40:]), le.Uint32(d[44:])
	r.size = le.Uint64(d[48:])
	r.tmid = uint32(r.matchBits.TMID())
	return r, nil
}

// passive validates the fields that read does not check, except the queue type, which the caller has
// validated.
func (r *rawPassive) passive() (Passive, error) {
	switch {
	case r.matchBits.Counter() == 0:
		return Passive{}, descriptorError("match bits", uint64(r.matchBits), errDescriptorCounter)
	case r.tmid != uint32(r.matchBits.TMID()):
		return Passive{}, descriptorError("TM id", r.tmid, errDescriptorTMID)
	case r.tmid == 0:
		return Passive{}, descriptorError("TM id", r.tmid, errDescriptorNoTMID)
	case r.size == 0:
		return Passive{}, descriptorError("size", r.size, errDescriptorEmpty)
	case r.size > lnet.MTU:
		return Passive{}, descriptorError("size", r.size, errDescriptorMTU)
	case lnet.PID(r.pid) != lnet.PIDLustre && !lnet.PID(r.pid).IsApplication():
		return Passive{}, descriptorError("PID", r.pid, errDescriptorPID)
	case !validPortal(uint64(r.portal)):
		return Passive{}, descriptorError("portal", r.portal, errDescriptorPortal)
	}
	nid, err := r.nid()
	if err != nil {
		return Passive{}, descriptorError("NID", nil, fmt.Errorf("%w: %w", err, syscall.EINVAL))
	}
	return Passive{
		Address:   Address{NID: nid, PID: lnet.PID(r.pid), Portal: r.portal, TMID: uint16(r.tmid)},
		MatchBits: r.matchBits, Queue: QueueType(r.queue), Size: int(r.size),
	}, nil
}

// nid decodes the NID. The length of the descriptor determines its format.
func (r *rawPassive) nid() (lnet.NID, error) {
	if r.largeNID != nil {
		nid, err := lnet.DecodeLarge(r.largeNID)
		if err == nil && !nid.IsLarge() {
			err = errDescriptorNID
		}
		return nid, err
	}
	nid := lnet.NIDFrom4(r.nid4)
	if v, _ := nid.NID4(); v != r.nid4 || nid.IsAny() || nid.IsZero() {
		return nid, errDescriptorNID
	}
	return nid, nil
}
