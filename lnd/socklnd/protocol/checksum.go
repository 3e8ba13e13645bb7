package protocol

import "hash/crc32"

// ChecksumInit is the initial value of a Checksum.
const ChecksumInit uint32 = 0xffffffff

// Checksum extends the checksum sum by more bytes. It is the CRC-32 with the reflected polynomial
// 0xEDB88320, but without the final inversion of the IEEE variant (socklnd 9).
func Checksum(sum uint32, b ...[]byte) uint32 {
	for _, p := range b {
		// crc32.Update inverts before and after. Inverting twice more undoes that.
		sum = ^crc32.Update(^sum, crc32.IEEETable, p)
	}
	return sum
}

// ChecksumStart returns the checksum of a received message before its payload. frame holds
// FrameSize bytes as received. header holds the bytes of the LNet header, and is empty for a NOOP.
// In V2 the checksum covers both, with the csum field of the frame set to zero. In V3 and V4 it
// covers only the payload, so their NOOPs can only carry ChecksumInit.
func ChecksumStart(v Version, frame, header []byte) uint32 {
	if v != V2 {
		return ChecksumInit
	}
	return Checksum(ChecksumInit, frame[:4], zeroSum[:], frame[8:FrameSize], header)
}

var zeroSum [4]byte
