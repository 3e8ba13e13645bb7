package protocol

import (
	"encoding/binary"
	"math/bits"
)

// Variant says how a checksum takes bytes of 0x80 and more (o2iblnd 7, trap 1).
type Variant uint8

const (
	// NoChecksum: none is sent.
	NoChecksum Variant = iota
	// Unsigned is that of kernels since 6.2, and of other processors than x86.
	Unsigned
	// Signed is that of older kernels on x86.
	Signed
)

// Checking says what becomes of checksums that come.
type Checking uint8

const (
	// Check verifies those that are there, in either variant.
	Check Checking = iota
	// DontCheck lets everything pass: peers send wrong ones (o2iblnd 7, trap 2).
	DontCheck
)

// checksumAt is where the checksum stands in a message.
const checksumAt = 12

// Checksum is the checksum of a message, whose own field counts as zero
// (o2iblnd 7). It is never 0.
func Checksum(message []byte, v Variant) uint32 {
	var sum uint32
	for i, c := range message {
		if i >= checksumAt && i < checksumAt+4 {
			c = 0
		}
		add := uint32(c)
		if v == Signed {
			add = uint32(int32(int8(c)))
		}
		sum = bits.RotateLeft32(sum, 1) + add
	}
	if sum == 0 {
		return 1
	}
	return sum
}

// Seal puts the checksum of a whole message, payload included, into it.
func Seal(message []byte, order binary.ByteOrder, v Variant) {
	var sum uint32
	if v != NoChecksum {
		sum = Checksum(message, v)
	}
	order.PutUint32(message[checksumAt:], sum)
}
