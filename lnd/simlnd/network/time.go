package network

import (
	"math/rand/v2"
	"time"
)

// Now returns the time since the network was created. It may be called without the lock.
func (n *Network[L]) Now() time.Duration { return time.Since(n.start) }

// Wall is a wall clock that never returns the same time twice, so that no two lives of an interface have
// the same incarnation.
func (n *Network[L]) Wall() time.Time {
	n.lastWall = max(n.lastWall+int64(time.Microsecond), time.Now().UnixNano())
	return time.Unix(0, n.lastWall)
}

// Attempt counts an attempt to connect on a way, and returns its number, from 1.
func (n *Network[L]) Attempt(w Way) uint64 {
	n.attempts[w]++
	return n.attempts[w]
}

// Attempts returns the number of attempts to connect on a way.
func (n *Network[L]) Attempts(w Way) uint64 { return n.attempts[w] }

// Random returns random numbers that depend on the network's seed, the way and a number.
func (n *Network[L]) Random(w Way, number uint64) *rand.Rand {
	from, to := w.From.As16(), w.To.As16()
	return rand.New(rand.NewPCG(n.seed, Mix(Mix(number, from[:]), to[:])))
}

// Mix mixes bytes into a seed.
func Mix(seed uint64, b []byte) uint64 {
	for _, c := range b {
		seed = (seed ^ uint64(c)) * 0x9e3779b97f4a7c15
		seed ^= seed >> 29
	}
	return seed
}

// Seed returns a seed, other than 0, that depends on the network's seed and a host's name.
func (n *Network[L]) Seed(h *Host) uint64 { return Mix(n.seed, []byte(h.Name)) | 1 }
