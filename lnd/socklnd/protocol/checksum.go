package protocol

import "hash/crc32"

// ChecksumInit is the value to start a Checksum with.
const ChecksumInit uint32 = 0xffffffff

// Checksum continues the checksum sum over more bytes: the CRC-32 with the
// reflected polynomial 0xEDB88320 and without the final inversion that IEEE
// has (socklnd 9).
func Checksum(sum uint32, b ...[]byte) uint32 {
	for _, p := range b {
		// The library inverts before and after; two more inversions undo
		// both.
		sum = ^crc32.Update(^sum, crc32.IEEETable, p)
	}
	return sum
}

// ChecksumStart is the checksum of a received message before its payload:
// frame holds the FrameSize bytes as they came, header those of the LNet
// header, empty for a NOOP. V2 covers both, the frame with its csum field
// zeroed; V3 and V4 cover the payload alone, so that their NOOPs can only
// carry ChecksumInit.
func ChecksumStart(v Version, frame, header []byte) uint32 {
	if v != V2 {
		return ChecksumInit
	}
	return Checksum(ChecksumInit, frame[:4], zeroSum[:], frame[8:FrameSize], header)
}

var zeroSum [4]byte
