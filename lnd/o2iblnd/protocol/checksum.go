package protocol

import (
	"encoding/binary"
	"math/bits"
)

// Variant determines how a checksum adds bytes of 0x80 and above (o2iblnd 7, trap 1).
type Variant uint8

const (
	// NoChecksum sends no checksum.
	NoChecksum Variant = iota
	// Unsigned is used by kernels since 6.2, and on processors other than x86.
	Unsigned
	// Signed is used by older kernels on x86.
	Signed
)

// Checking determines what happens to received checksums.
type Checking uint8

const (
	// Check verifies a checksum if the message has one. Either variant is valid.
	Check Checking = iota
	// DontCheck accepts all checksums, because peers send wrong ones (o2iblnd 7, trap 2).
	DontCheck
)

// checksumAt is the offset of the checksum in a message.
const checksumAt = 12

// Checksum returns the checksum of a message, with its checksum field counted as zero (o2iblnd 7).
// It is never 0.
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

// Seal stores the checksum of a complete message, including its payload, in the message.
func Seal(message []byte, order binary.ByteOrder, v Variant) {
	var sum uint32
	if v != NoChecksum {
		sum = Checksum(message, v)
	}
	order.PutUint32(message[checksumAt:], sum)
}
