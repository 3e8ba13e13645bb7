package soak

import "math/rand/v2"

// kind is a kind of operation.
type kind uint8

const (
	plainPut kind = iota // a PUT without ACK
	ackedPut
	fetch // GET
	kinds
)

func (k kind) String() string { return [...]string{"PUT", "PUT+ACK", "GET"}[k] }

// plan describes a message. It depends only on the sender's seed and the sequence number, so that the
// receiver can compute it too.
type plan struct {
	kind   kind
	size   int // bytes of payload, 0 to 1 MiB
	offset int // offset of the payload in the pattern
}

const maxSize = 1 << 20

// planOf returns the plan of message seq of a sender with the given seed.
func planOf(seed, seq uint64) plan {
	h := mix(seed + seq*0x9e3779b97f4a7c15)
	p := plan{offset: int(h >> 44)} // 20 bits
	switch k := h & 0xff; {
	case k < 64:
		p.kind = plainPut
	case k < 192:
		p.kind = ackedPut
	default:
		p.kind = fetch
	}
	limit := maxSize
	switch k := h >> 8 & 0xff; {
	case k < 100:
		limit = 128
	case k < 190:
		limit = 4096
	case k < 243:
		limit = 64 << 10
	case k == 255: // the maximum size
		p.size = maxSize
		return p
	}
	p.size = int(mix(h) % uint64(limit+1))
	return p
}

// mix returns a hash of x (the last step of SplitMix64).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// newPattern returns the bytes from which all payloads are taken. They are the same in both processes,
// and payloads at different offsets differ.
func newPattern() []byte {
	b := make([]byte, 2*maxSize)
	var seed [32]byte
	copy(seed[:], "lnetd soak")
	_, _ = rand.NewChaCha8(seed).Read(b) // never fails
	return b
}

// payload returns the payload of the message, which is a part of the pattern.
func (p plan) payload(pattern []byte) []byte { return pattern[p.offset:][:p.size:p.size] }
