package lnet

import "math/bits"

const (
	goldenRatio32 = 0x61C88647
	goldenRatio64 = 0x61C8864680B583EB
)

// CPT returns which CPU partition handles messages of n, as an index from 0 to
// candidates-1 (lnet-wire 2.8). candidates is the number of partitions that may be chosen,
// and total the number of partitions of the machine. The hash is that of a 2.17 kernel, as
// "lnetctl cpt-of-nid" shows it. Other nodes do not depend on it.
func (n NID) CPT(candidates, total int) int {
	if candidates <= 1 {
		return 0
	}
	// nbits is the smallest number with 1<<nbits >= total.
	nbits := bits.Len(uint(max(total, 1) - 1))
	nid4, ok := n.NID4()
	switch {
	case !ok:
		return n.cptLarge(uint32(candidates), nbits)
	case n.Net().Type() == TypeKFI:
		c := nid4 * goldenRatio64 >> (64 - nbits)
		if c >= uint64(candidates) {
			c = (nid4 + c + c>>1) % uint64(candidates)
		}
		return int(c)
	}
	sum := 0
	for ; nid4 != 0; nid4 >>= 8 {
		sum += int(nid4 & 0xff)
	}
	return sum % candidates
}

func (n NID) cptLarge(candidates uint32, nbits int) int {
	var h uint32
	a := n.addr16()
	for i := 0; i < len(a); i += 4 {
		// The word as a little-endian processor loads it.
		w := uint32(a[i]) | uint32(a[i+1])<<8 | uint32(a[i+2])<<16 | uint32(a[i+3])<<24
		h = (w ^ h) * goldenRatio32
	}
	v := (uint32(n.Net()) ^ h) * goldenRatio32 >> (32 - nbits)
	if v < candidates {
		return int(v)
	}
	return int((h + v + v>>1) % candidates)
}
