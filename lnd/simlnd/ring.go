package simlnd

import "math/bits"

// ring is a queue of bytes that grows by doubling.
type ring struct {
	b    []byte // its length is 0 or a power of two
	head int
	n    int
}

const ringMin = 1 << 10

// append appends a copy of b.
func (r *ring) append(b []byte) {
	if len(b) == 0 {
		return
	}
	if r.n+len(b) > len(r.b) {
		r.grow(r.n + len(b))
	}
	at := (r.head + r.n) & (len(r.b) - 1)
	k := copy(r.b[at:], b)
	copy(r.b, b[k:])
	r.n += len(b)
}

// take moves the first len(b) bytes of the ring to b. The ring must contain that many.
func (r *ring) take(b []byte) {
	if len(b) == 0 {
		return
	}
	k := copy(b, r.b[r.head:])
	copy(b[k:], r.b)
	r.discard(len(b))
}

// discard removes the first n bytes.
func (r *ring) discard(n int) {
	if r.n -= n; r.n == 0 {
		r.head = 0
		return
	}
	r.head = (r.head + n) & (len(r.b) - 1)
}

// trim removes the last n bytes.
func (r *ring) trim(n int) { r.n -= n }

// flip flips the bits of mask in the byte with the index at.
func (r *ring) flip(at int, mask byte) { r.b[(r.head+at)&(len(r.b)-1)] ^= mask }

// grow makes room for n bytes in total.
func (r *ring) grow(n int) {
	b := make([]byte, max(ringMin, 1<<bits.Len(uint(n-1))))
	k := copy(b, r.b[r.head:min(r.head+r.n, len(r.b))])
	copy(b[k:], r.b[:r.n-k])
	r.b, r.head = b, 0
}
