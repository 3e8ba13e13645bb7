package lndtest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// guarded is memory in pieces, surrounded by guard bytes: before, between and after the pieces, and in the
// parts of the first and last piece that do not belong to the memory. A write to a guard byte is found by
// checkGuards.
type guarded struct {
	backing  []byte // the pieces with the guard bytes between them
	segments []memory.Segment
	length   int
}

const (
	gap       = 8 // guard bytes between two pieces
	margin    = 5 // guard bytes in the first and in the last piece
	guardByte = 0xa5
)

// newGuarded returns memory of the given length in the given number of pieces. The pieces have different sizes.
// Some are empty if there are more pieces than bytes.
func newGuarded(length, pieces int) *guarded {
	total := margin + length + margin
	g := &guarded{
		backing: bytes.Repeat([]byte{guardByte}, gap+total+pieces*gap),
		length:  length,
	}
	at, left := gap, total
	for k := range pieces {
		n := left
		if more := pieces - 1 - k; more > 0 {
			// The size of the piece is between half and one and a half times an even share.
			share := left / (more + 1)
			n = share/2 + (k*7+3)%(share+1)
			if k == 0 {
				n = max(n, margin)
			}
			n = min(n, left-min(left, margin))
		}
		g.segments = append(g.segments, memory.Segment{Bytes: g.backing[at : at+n]})
		at += n + gap
		left -= n
	}
	return g
}

// memory returns the memory as a vector for a message or a placement.
func (g *guarded) memory() memory.Vector {
	return memory.Vector{Segments: g.segments, Offset: margin, Length: g.length}
}

// fill stores the pattern of the message id in the memory.
func (g *guarded) fill(id uint64) { g.memory().CopyFrom(pattern(id, g.length)) }

// checkPattern returns an error unless the memory contains the beginning of the pattern of the message id.
func (g *guarded) checkPattern(id uint64) error {
	at, want := 0, pattern(id, g.length)
	for _, got := range g.memory().AppendBuffers(nil) {
		if !bytes.Equal(got, want[at:at+len(got)]) {
			for k := range got {
				if got[k] != want[at+k] {
					return fmt.Errorf("payload of %d bytes is wrong from byte %d on: %#x, want %#x", g.length, at+k, got[k], want[at+k])
				}
			}
		}
		at += len(got)
	}
	if at != g.length {
		return fmt.Errorf("memory of %d bytes, want %d", at, g.length)
	}
	return nil
}

// checkGuards returns an error if a guard byte was changed. It overwrites the memory.
func (g *guarded) checkGuards() error {
	for _, b := range g.memory().AppendBuffers(nil) {
		copy(b, bytes.Repeat([]byte{guardByte}, len(b)))
	}
	if n := len(g.backing) - bytes.Count(g.backing, []byte{guardByte}); n > 0 {
		return fmt.Errorf("%d bytes outside the placement were written", n)
	}
	return nil
}

// pattern returns the payload of the message id, of n bytes. Each byte depends on the message and on the
// position. The caller must not change it.
func pattern(id uint64, n int) []byte {
	at := id * 4099 % patterns
	return table()[at : at+uint64(n)]
}

// patterns is the number of different payloads. It is a prime.
const patterns = 1<<20 - 3

// table returns random bytes, of which each payload is a part.
var table = sync.OnceValue(func() []byte {
	b := make([]byte, patterns+lnet.MTU)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // never fails
	return b
})
