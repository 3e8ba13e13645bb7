package message

import (
	"encoding/binary"

	"github.com/lnetd/lnetd/lnet"
)

// The list of a client's destinations (selftest 2.3.3): blocks of 4096 bytes
// with up to 341 entries each, and 4 spare bytes in a full one.
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

// Destination is a process that a client sends test requests to.
type Destination struct {
	NID NID4
	PID lnet.PID
}

// DestinationsSize is the number of bytes that n destinations take. Where they
// need more than one block it is more than 12 each.
func DestinationsSize(n int) int {
	return n/DestinationsPerBlock*DestinationBlock + n%DestinationsPerBlock*DestinationSize
}

// AppendDestinations appends an encoded list of destinations.
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

// DecodeDestination reads the k-th entry, from 0, of an encoded list. An entry
// that lacks no more than its PID, as the last one of a list over 341 may, is
// one of PID 12345; false if more is missing.
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
