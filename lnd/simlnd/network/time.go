package network

import (
	"math/rand/v2"
	"time"
)

// Now returns the time since the network was created. It may be called without the lock.
func (n *Network[L]) Now() time.Duration { return time.Since(n.start) }

// Wall is a wall clock that never returns the same time twice, so that an interface has another incarnation
// each time it is opened.
func (n *Network[L]) Wall() time.Time {
	n.lastWall = max(n.lastWall+int64(time.Microsecond), time.Now().UnixNano())
	return time.Unix(0, n.lastWall)
}

// Attempt counts an attempt to connect on the way w, and returns its number. The first has the number 1.
func (n *Network[L]) Attempt(w Way) uint64 {
	n.attempts[w]++
	return n.attempts[w]
}

// Attempts returns the number of attempts to connect on the way w so far.
func (n *Network[L]) Attempts(w Way) uint64 { return n.attempts[w] }

// Random returns a generator of random numbers that depends only on the network's seed, the way and the number.
func (n *Network[L]) Random(w Way, number uint64) *rand.Rand {
	from, to := w.From.As16(), w.To.As16()
	return rand.New(rand.NewPCG(n.seed, Mix(Mix(number, from[:]), to[:])))
}

// Mix returns a seed that depends on seed and the bytes b.
func Mix(seed uint64, b []byte) uint64 {
	for _, c := range b {
		seed = (seed ^ uint64(c)) * 0x9e3779b97f4a7c15
		seed ^= seed >> 29
	}
	return seed
}

// Seed returns a seed that depends on the network's seed and the host's name. It is never 0.
func (n *Network[L]) Seed(h *Host) uint64 { return Mix(n.seed, []byte(h.Name)) | 1 }
