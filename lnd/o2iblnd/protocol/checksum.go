package protocol

import (
	"encoding/binary"
	"math/bits"
)

// Variant determines which checksums are sent: none, or one of two that differ in how they add bytes of 0x80
// and above (o2iblnd 7, trap 1).
type Variant uint8

const (
	// NoChecksum means that no checksum is sent.
	NoChecksum Variant = iota
	// Unsigned adds bytes as unsigned numbers, as kernels since 6.2 do, and older ones on processors other than x86.
	Unsigned
	// Signed adds bytes as signed numbers, as kernels before 6.2 on x86 do.
	Signed
)

// Checking determines whether the checksums of received messages are verified.
type Checking uint8

const (
	// Check accepts a message without a checksum, or with a correct one of either variant.
	Check Checking = iota
	// DontCheck ignores checksums. It is for peers that send wrong ones (o2iblnd 7, trap 2).
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
