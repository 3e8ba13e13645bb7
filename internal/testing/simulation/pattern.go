package simulation

import "encoding/binary"

// stream is the number of an endless byte pattern. Each number has another pattern. The first 8 bytes of
// the pattern are the number, so that the checker can identify data in the wrong place.
type stream uint64

func (s stream) word(k uint64) uint64 {
	if k == 0 {
		return uint64(s)
	}
	x := (uint64(s) + k*0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9
	return x ^ x>>29
}

// fill fills b with the part of the stream that begins at offset off.
func (s stream) fill(b []byte, off int) {
	k := uint64(off) / 8
	if skip := off % 8; skip != 0 {
		var w [8]byte
		binary.LittleEndian.PutUint64(w[:], s.word(k))
		b = b[copy(b, w[skip:]):]
		k++
	}
	for ; len(b) >= 8; k++ {
		binary.LittleEndian.PutUint64(b, s.word(k))
		b = b[8:]
	}
	if len(b) > 0 {
		var w [8]byte
		binary.LittleEndian.PutUint64(w[:], s.word(k))
		copy(b, w[:])
	}
}

// differs compares b with the part of the stream that begins at offset off. It returns the index of the
// first byte of b that differs, or -1.
func (s stream) differs(b []byte, off int) int {
	at := 0
	if skip := off % 8; skip != 0 {
		n := min(8-skip, len(b))
		if k := s.differsWithin(b[:n], off); k >= 0 {
			return k
		}
		at = n
	}
	for ; at+8 <= len(b); at += 8 {
		if binary.LittleEndian.Uint64(b[at:]) != s.word(uint64(off+at)/8) {
			return at + s.differsWithin(b[at:at+8], off+at)
		}
	}
	if k := s.differsWithin(b[at:], off+at); k >= 0 {
		return at + k
	}
	return -1
}

// differsWithin is like differs, but all of b must lie within one 8-byte word of the stream.
func (s stream) differsWithin(b []byte, off int) int {
	var w [8]byte
	binary.LittleEndian.PutUint64(w[:], s.word(uint64(off)/8))
	for k := range b {
		if b[k] != w[off%8+k] {
			return k
		}
	}
	return -1
}
