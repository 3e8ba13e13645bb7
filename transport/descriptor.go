package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"

	"github.com/lnetd/lnetd/lnet"
)

// Descriptor announces a passive buffer to the peer who moves its data (transport 6.6):
// opaque bytes that any message may carry. Of TMs with 4-byte NIDs it has DescriptorSize
// bytes, as Motr's; of those with large NIDs it has LargeDescriptorSize. It stays with
// the buffer until the next Add, which writes over it: bytes.Clone keeps it for longer.
//
// All numbers are little endian, but the large NID, which is lnet.NID.AppendLarge's:
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
// The checksum is the exclusive or of the words of 64 bits before it.
type Descriptor []byte

// How long a Descriptor is, in bytes, of a TM with a 4-byte NID, and of one with a large.
const (
	DescriptorSize      = 48
	LargeDescriptorSize = 64
)

const (
	// largeMagic is "LTMD", and begins a descriptor with a large NID.
	largeMagic   = 0x444d544c
	largeVersion = 1

	checksumSize = 8
)

// Passive is a passive buffer, as a Descriptor tells of it.
type Passive struct {
	// Address is where its TM is, MatchBits are those that it waits for.
	Address   Address
	MatchBits MatchBits
	// Queue is PassiveBulkRecv or PassiveBulkSend.
	Queue QueueType
	// Size is, with PassiveBulkRecv, how many bytes the buffer holds, with PassiveBulkSend
	// how many are to be fetched: 1 to lnet.MTU.
	Size int
}

// AppendDescriptor appends the descriptor of p, whose fields must be valid, to b.
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

// checksum is the exclusive or of all words of b.
func checksum(b []byte) uint64 {
	var sum uint64
	for ; len(b) >= 8; b = b[8:] {
		sum ^= binary.LittleEndian.Uint64(b)
	}
	return sum
}

// rawPassive is a descriptor as it stands; largeNID is what AppendLarge makes, if there
// is one.
type rawPassive struct {
	matchBits                MatchBits
	nid4                     uint64
	largeNID                 []byte
	pid, portal, tmid, queue uint32
	size                     uint64
}

var (
	errDescriptorLength   = fmt.Errorf("not %d or %d bytes: %w", DescriptorSize, LargeDescriptorSize, syscall.EINVAL)
	errDescriptorChecksum = fmt.Errorf("checksum does not match: %w", syscall.EINVAL)
	errDescriptorMagic    = fmt.Errorf("magic or version is unknown: %w", syscall.EINVAL)
	errDescriptorQueue    = fmt.Errorf("neither 2 (passive receive) nor 3 (passive send): %w", syscall.EINVAL)
	errDescriptorPairing  = fmt.Errorf("data go the other way: %w", syscall.EPERM)
	errDescriptorActive   = fmt.Errorf("is no queue of active bulk: %w", syscall.EINVAL)
	errDescriptorTooLong  = fmt.Errorf("more than the buffer holds: %w", syscall.EFBIG)
	errDescriptorTooShort = fmt.Errorf("less than is to be sent: %w", syscall.EFBIG)
	errDescriptorCounter  = fmt.Errorf("counter 0 is none of a passive buffer: %w", syscall.EINVAL)
	errDescriptorTMID     = fmt.Errorf("not that of the match bits: %w", syscall.EINVAL)
	errDescriptorNoTMID   = fmt.Errorf("not 1 to 4095: %w", syscall.EINVAL)
	errDescriptorEmpty    = fmt.Errorf("0 bytes: %w", syscall.EINVAL)
	errDescriptorMTU      = fmt.Errorf("more than %d bytes: %w", lnet.MTU, syscall.EFBIG)
	errDescriptorPID      = fmt.Errorf("not %d: %w", lnet.PIDLustre, syscall.EINVAL)
	errDescriptorPortal   = fmt.Errorf("not 1 to %d: %w", lnet.Portals-1, syscall.EINVAL)
	errDescriptorNID      = errors.New("no NID that a TM has in this layout")
)

// descriptorError says what is wrong with a field of a descriptor.
func descriptorError(field string, value any, err error) error {
	return &lnet.FieldError{What: "transport: descriptor", Field: field, Value: value, Err: err}
}

// Decode tells what d announces. EINVAL: d is damaged, or what it says cannot be; EFBIG:
// it announces more than lnet.MTU.
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

// transfer is what an operation on an active queue has to know: what d announces, and how
// many bytes to move. Room is how many bytes the active buffer holds, length how many it is
// to send. The checks, and their order, are those of transport 6.6: EINVAL, EPERM, EFBIG.
func (d Descriptor) transfer(active QueueType, room, length int) (p Passive, n int, err error) {
	raw, err := d.read()
	if err != nil {
		return Passive{}, 0, err
	}
	if err := raw.suits(active, room, length); err != nil {
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

// suits checks that the active side may, and can, do what it is about to.
func (r *rawPassive) suits(active QueueType, room, length int) error {
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

// read takes d apart, by its layout, and checks what concerns the layout alone.
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

// passive checks what is left, once the queue type is known to be one.
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
	case r.pid != uint32(lnet.PIDLustre):
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

// nid is the NID, which has one layout alone: that of its length.
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
