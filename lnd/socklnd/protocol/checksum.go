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

// zeroSum stands for the csum field of a frame, which the checksum covers as zero.
var zeroSum [4]byte
