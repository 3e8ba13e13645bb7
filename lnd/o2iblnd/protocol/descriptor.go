package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/lnetd/lnetd/lnet"
)

// Cookie names a request of its sender's; for everybody else it is 8 opaque bytes,
// sent back bit by bit. It is read and written as a little-endian number whatever
// the order of its message, so that this holds (o2iblnd 4, 5.9).
type Cookie uint64

// Descriptor says where the sink of an RDMA is (o2iblnd 5.5).
//
//	 0          4          8 + 12i        12 + 12i
//	+----------+----------+--------------+------------------+
//	| key      | nfrags   | frag[i].nob  | frag[i].addr (8) |
//	+----------+----------+--------------+------------------+
type Descriptor struct {
	// Key is the rkey of all fragments.
	Key uint32
	// Fragments are 1 to MaxFragments pieces, filled in order.
	Fragments []Fragment
}

// Fragment is a piece of a sink. Its address means something to its owner alone.
type Fragment struct {
	Addr   uint64
	Length uint32
}

// Length is the sum of the fragments, in bytes.
func (d *Descriptor) Length() (sum int) {
	for i := range d.Fragments {
		sum += int(d.Fragments[i].Length)
	}
	return sum
}

// Sure is how many of the n bytes that a GET_DONE reports are there in any case:
// all of them if they fill the sink, else those of the fragments that are full. A
// kernel may have dropped the end (o2iblnd 18, row 1).
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

// copyFrom makes d a copy of o, in d's own memory.
func (d *Descriptor) copyFrom(o *Descriptor) {
	d.Key = o.Key
	d.Fragments = append(d.Fragments[:0], o.Fragments...)
}

var (
	errFragments     = fmt.Errorf("not 1 to %d", MaxFragments)
	errManyFragments = errors.New("none, or more than the peer takes")
	errTotal         = fmt.Errorf("not 1 to %d bytes in all", lnet.MTU)
)

// sendable tells whether d may be sent to a peer that writes so many fragments: no
// peer gets more than MaxOffered (o2iblnd 18, row 4).
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

// decode reads a descriptor, all of whose fragments must lie in b. The memory of
// d.Fragments is used again.
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
