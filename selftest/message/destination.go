package message

import (
	"encoding/binary"

	"github.com/lnetd/lnetd/lnet"
)

// The list of a client's destinations (selftest 2.3.3) consists of blocks of 4096 bytes. Each has up to
// 341 entries; a full block has 4 unused bytes at the end.
//
//	0       8     12
//	+-------+-----+
//	| NID   | PID | ...
//	+-------+-----+
const (
	DestinationSize      = 12
	DestinationBlock     = 4096
	DestinationsPerBlock = DestinationBlock / DestinationSize
)

// Destination is a process to which a client sends test requests.
type Destination struct {
	NID NID4
	PID lnet.PID
}

// DestinationsSize returns the encoded size of n destinations in bytes, including the unused bytes of
// full blocks.
func DestinationsSize(n int) int {
	return n/DestinationsPerBlock*DestinationBlock + n%DestinationsPerBlock*DestinationSize
}

// AppendDestinations appends the encoded list of destinations to b, in byte order o.
func AppendDestinations(b []byte, list []Destination, o Order) []byte {
	for k, d := range list {
		if k > 0 && k%DestinationsPerBlock == 0 {
			b = append(b, make([]byte, DestinationBlock-DestinationsPerBlock*DestinationSize)...)
		}
		var e [DestinationSize]byte
		byteOrder(o).PutUint64(e[:], uint64(d.NID))
		byteOrder(o).PutUint32(e[8:], uint32(d.PID))
		b = append(b, e[:]...)
	}
	return b
}

// DecodeDestination decodes entry k, counted from 0, of an encoded list in byte order o. If the list ends
// before the PID of the entry, the PID is 12345, because a list of more than 341 entries is transferred
// without its last bytes (selftest 2.3.3). If more is missing, DecodeDestination returns false.
func DecodeDestination(b []byte, k int, o Order) (Destination, bool) {
	off := DestinationsSize(k)
	if len(b) < off+8 {
		return Destination{}, false
	}
	d := Destination{NID: NID4(byteOrder(o).Uint64(b[off:])), PID: lnet.PIDLustre}
	if len(b) >= off+DestinationSize {
		d.PID = lnet.PID(byteOrder(o).Uint32(b[off+8:]))
	}
	return d, true
}

func byteOrder(o Order) binary.ByteOrder {
	if o == BigEndian {
		return binary.BigEndian
	}
	return binary.LittleEndian
}
