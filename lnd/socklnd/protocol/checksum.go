package protocol

import "hash/crc32"

// ChecksumInit is the initial value of a Checksum.
const ChecksumInit uint32 = 0xffffffff

// Checksum returns the checksum of the bytes so far and of b. sum is the checksum of the bytes so far, or
// ChecksumInit. It is the CRC-32 with the reflected polynomial 0xEDB88320, but without the final inversion of
// the IEEE variant (socklnd 9).
func Checksum(sum uint32, b ...[]byte) uint32 {
	for _, p := range b {
		// crc32.Update inverts its argument and its result. Two more inversions undo that.
		sum = ^crc32.Update(^sum, crc32.IEEETable, p)
	}
	return sum
}

// ChecksumStart returns the checksum of the part of a received message that precedes its payload. frame is the
// received frame, of FrameSize bytes. header is the received LNet header, or empty for a NOOP. In V2 the
// checksum covers both, with the csum field of the frame set to zero. In V3 and V4 it covers only the payload,
// so ChecksumStart returns ChecksumInit; a NOOP of these versions can carry only this value.
func ChecksumStart(v Version, frame, header []byte) uint32 {
	if v != V2 {
		return ChecksumInit
	}
	return Checksum(ChecksumInit, frame[:4], zeroSum[:], frame[8:FrameSize], header)
}

var zeroSum [4]byte
