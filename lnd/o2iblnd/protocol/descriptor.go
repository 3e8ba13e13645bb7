package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/lnetd/lnetd/lnet"
)

// Cookie identifies a request to the side that has sent it. The other side does not interpret it and sends it
// back unchanged. It is always encoded as a little-endian number, whatever the byte order of the message, so
// that the bytes stay the same (o2iblnd 4, 5.9).
type Cookie uint64

// Descriptor describes the sink of a transfer: memory that the peer may write into by RDMA (o2iblnd 5.5).
//
//	 0          4          8 + 12i        12 + 12i
//	+----------+----------+--------------+------------------+
//	| key      | nfrags   | frag[i].nob  | frag[i].addr (8) |
//	+----------+----------+--------------+------------------+
type Descriptor struct {
	// Key is the rkey, which is the same for all fragments.
	Key uint32
	// Fragments are 1 to MaxFragments pieces of memory, which the peer fills in order.
	Fragments []Fragment
}

// Fragment is a piece of the sink. Addr is an address on the device of the side that owns the memory.
type Fragment struct {
	Addr   uint64
	Length uint32
}

// Length returns the sum of the fragments' lengths, in bytes.
func (d *Descriptor) Length() (sum int) {
	for i := range d.Fragments {
		sum += int(d.Fragments[i].Length)
	}
	return sum
}

// Sure returns how many of n bytes are certainly in d, the sink of a GET, after a GET_DONE has reported n
// bytes. If n fills the whole sink, all of them are. Otherwise only the fragments that are filled completely
// are certain, because a kernel may have left out the rest (o2iblnd 18, row 1).
func (d *Descriptor) Sure(n int) int {
	if n >= d.Length() {
		return n
	}
	full := 0
	for i := range d.Fragments {
		next := full + int(d.Fragments[i].Length)
		if next > n {
			break
		}
		full = next
	}
	return full
}

// copyFrom makes d a copy of o. It reuses the memory of d.Fragments.
func (d *Descriptor) copyFrom(o *Descriptor) {
	d.Key = o.Key
	d.Fragments = append(d.Fragments[:0], o.Fragments...)
}

var (
	errFragments     = fmt.Errorf("not within 1 to %d", MaxFragments)
	errManyFragments = errors.New("not within 1 to the limit of the peer")
	errTotal         = fmt.Errorf("not within 1 to %d bytes", lnet.MTU)
)

// sendable returns an error if d must not be sent to a peer. fragments is the number of fragments that the peer
// can write. No more than MaxOffered are sent in any case (o2iblnd 18, row 4).
func (d *Descriptor) sendable(fragments int) error {
	if n := len(d.Fragments); n < 1 || n > min(fragments, MaxOffered) {
		return &lnet.FieldError{What: "descriptor", Field: "nfrags", Value: n, Err: errManyFragments}
	}
	if n := d.Length(); n < 1 || n > lnet.MTU {
		return &lnet.FieldError{What: "descriptor", Field: "nob", Value: n, Err: errTotal}
	}
	return nil
}

func (d *Descriptor) append(b []byte, order binary.AppendByteOrder) []byte {
	b = order.AppendUint32(b, d.Key)
	b = order.AppendUint32(b, uint32(len(d.Fragments)))
	for i := range d.Fragments {
		b = order.AppendUint32(b, d.Fragments[i].Length)
		b = order.AppendUint64(b, d.Fragments[i].Addr)
	}
	return b
}

// decode decodes a descriptor at the beginning of b. It returns an error if b does not contain all fragments.
// It reuses the memory of d.Fragments.
func (d *Descriptor) decode(b []byte, order binary.ByteOrder) error {
	d.Key = order.Uint32(b)
	n := order.Uint32(b[4:])
	if n < 1 || n > MaxFragments {
		return &lnet.FieldError{What: "descriptor", Field: "nfrags", Value: n, Err: errFragments}
	}
	if need := descriptorSize + int(n)*fragmentSize; need > len(b) {
		return &lnet.TruncatedError{What: "descriptor", Need: need, Have: len(b)}
	}
	d.Fragments = d.Fragments[:0]
	for b = b[descriptorSize:]; n > 0; n-- {
		d.Fragments = append(d.Fragments, Fragment{Length: order.Uint32(b), Addr: order.Uint64(b[4:])})
		b = b[fragmentSize:]
	}
	return nil
}
