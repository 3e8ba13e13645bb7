package message

import (
	"encoding/binary"
	"fmt"
	"syscall"
)

// A message of a ping test begins with
//
//	 0      8 magic
//	 8      8 number of the slot that the client has sent it from
//	16      8 sequence number within the slot
//	24      8 when it was sent, by the client's clock, in nanoseconds
//
// All fields are little endian. The message is sent back unchanged.
const (
	pingMagic = 0x3067_6e69_706e_6c01 // "lnping0"

	// PingHead is the size of the header of a message of a ping test in bytes, and the minimum size of the
	// message.
	PingHead = 32
)

// PingHeader is the header of a message of a ping test.
type PingHeader struct{ Slot, Sequence, Sent uint64 }

// Put encodes the header into the first PingHead bytes of b, which must be as long.
func (h PingHeader) Put(b []byte) {
	binary.LittleEndian.PutUint64(b, pingMagic)
	binary.LittleEndian.PutUint64(b[8:], h.Slot)
	binary.LittleEndian.PutUint64(b[16:], h.Sequence)
	binary.LittleEndian.PutUint64(b[24:], h.Sent)
}

// ParsePing decodes the header of a message of a ping test. It returns false if b is not such a message.
func ParsePing(b []byte) (h PingHeader, ok bool) {
	if len(b) < PingHead || binary.LittleEndian.Uint64(b) != pingMagic {
		return PingHeader{}, false
	}
	return PingHeader{
		Slot:     binary.LittleEndian.Uint64(b[8:]),
		Sequence: binary.LittleEndian.Uint64(b[16:]),
		Sent:     binary.LittleEndian.Uint64(b[24:]),
	}, true
}

// A message of a bulk test has two descriptors for each transfer: one of the client's passive send
// buffer, and one of its passive receive buffer.
//
//	 0      8 magic
//	 8      8 number of descriptors
//	16        descriptors, each 4 bytes of length and as many bytes
//
// All fields are little endian.
const (
	bulkMagic = 0x306b_6c75_626e_6c01 // "lnbulk0"
	bulkHead  = 16
	bulkItem  = 4
)

// Pair has the two descriptors of one transfer: of the client's passive send buffer and of its passive
// receive buffer.
type Pair struct{ Send, Recv []byte }

// BulkSize returns the length of a message with n pairs of descriptors, if each descriptor has d bytes.
func BulkSize(n, d int) int { return bulkHead + 2*n*(bulkItem+d) }

// AppendBulk appends a message of a bulk test, which contains the descriptors in pairs, to b.
func AppendBulk(b []byte, pairs []Pair) []byte {
	b = binary.LittleEndian.AppendUint64(b, bulkMagic)
	b = binary.LittleEndian.AppendUint64(b, uint64(2*len(pairs)))
	for _, p := range pairs {
		for _, d := range [2][]byte{p.Send, p.Recv} {
			b = binary.LittleEndian.AppendUint32(b, uint32(len(d)))
			b = append(b, d...)
		}
	}
	return b
}

// ParseBulk appends the pairs in message b to pairs. The appended pairs refer to b. It returns EPROTO if
// b is not a message of a bulk test, is truncated or too long, or has an odd number of descriptors.
func ParseBulk(pairs []Pair, b []byte) ([]Pair, error) {
	broken := func(what string) ([]Pair, error) {
		return nil, fmt.Errorf("message with descriptors: %s: %w", what, syscall.EPROTO)
	}
	if len(b) < bulkHead || binary.LittleEndian.Uint64(b) != bulkMagic {
		return broken("the header is invalid")
	}
	count := binary.LittleEndian.Uint64(b[8:])
	if count%2 != 0 {
		return broken("the number of descriptors is odd")
	}
	b = b[bulkHead:]
	next := func() []byte {
		if len(b) < bulkItem {
			return nil
		}
		n := uint64(binary.LittleEndian.Uint32(b))
		if n == 0 || n > uint64(len(b)-bulkItem) {
			return nil
		}
		d := b[bulkItem : bulkItem+n]
		b = b[bulkItem+n:]
		return d
	}
	for range count / 2 {
		p := Pair{Send: next(), Recv: next()}
		if p.Send == nil || p.Recv == nil {
			return broken("a descriptor is truncated")
		}
		pairs = append(pairs, p)
	}
	if len(b) > 0 {
		return broken("bytes follow the last descriptor")
	}
	return pairs, nil
}
