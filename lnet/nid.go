package lnet

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

// LargeNIDSize is the size of a NID with room for a 16-byte address, in bytes.
//
// Layout of a NID on the wire (lnet-wire 2.3). It is a byte string with big-endian fields,
// whatever the byte order of the message around it:
//
//	 0        1        2                 4                            20
//	+--------+--------+--------+--------+----------- ... ------------+
//	|nid_size|nid_type| nid_num         | nid_addr, left-aligned     |
//	+--------+--------+--------+--------+----------- ... ------------+
//
// nid_size is the number of significant bytes minus 8: 0 for a 4-byte address, 12 for a
// 16-byte address. The bytes after the significant ones are zero.
//
// A NID with a 4-byte address can also be encoded as a 64-bit number, the nid4 (lnet-wire
// 2.2). It equals the first 8 bytes above, read as a big-endian number. The byte order of
// an encoded nid4 is that of the message that contains it:
//
//	 63      56 55      48 47              32 31                         0
//	+----------+----------+------------------+----------------------------+
//	| 0        | net type | net number       | address                    |
//	+----------+----------+------------------+----------------------------+
const LargeNIDSize = 20

const (
	nidSize4  = 0  // nid_size of a 4-byte address
	nidSize16 = 12 // nid_size of a 16-byte address

	nid4Size = 8 // bytes of a nid4
)

// NID identifies one interface of one node by a net and an address on that net. It is a
// small value without pointers that can be copied, compared with == and used as a map key.
// The zero NID is not a valid address.
//
// The fields are the 20 bytes of the wire layout, read as big-endian numbers, so comparing
// the fields compares the bytes. Every NID has exactly one representation.
type NID struct {
	head uint64 // nid_size, nid_type, nid_num and address bytes 0 to 3
	mid  uint64 // address bytes 4 to 11
	tail uint64 // address bytes 12 to 15
}

// AnyNID is the wildcard, which stands for every NID. All bytes of its encodings are 0xff,
// 20 bytes or 8 bytes as a nid4 (lnet-wire 2.4).
var AnyNID = NID{head: nid4Any, mid: ^uint64(0), tail: 0xffffffff}

// LoopbackNID is 0@lo, the NID by which every node addresses itself. No message to another
// node has it as source or destination.
var LoopbackNID = NID{head: uint64(LoNet) << 32}

// nid4Any is the wildcard as a nid4.
const nid4Any = ^uint64(0)

// parseNID4 is like NIDFrom4, but also reports whether v is valid: either v is the
// wildcard, or it has no reserved bits and its net type is not 0xff.
func parseNID4(v uint64) (n NID, ok bool) {
	return NIDFrom4(v), v>>48 < uint64(typeAny) || v == nid4Any
}

// hexNID4 is an invalid nid4, which an error prints in hexadecimal.
type hexNID4 uint64

func (v hexNID4) String() string { return fmt.Sprintf("%#016x", uint64(v)) }

// NIDFrom4 returns the NID for the nid4 v. It ignores the reserved bits 63 to 56, which a
// NID with a 4-byte address cannot represent (lnet-wire 2.4). To detect reserved bits,
// compare v with NID4 of the result.
func NIDFrom4(v uint64) NID {
	if NetType(v>>48) == typeAny {
		return AnyNID
	}
	return NID{head: v &^ (0xff << 56)}
}

// NID4 returns n as a nid4. If n is a large NID, which has no nid4, it returns 0 and
// false. For the zero NID it returns 0 and true.
func (n NID) NID4() (v uint64, ok bool) {
	if n.IsLarge() {
		return 0, false
	}
	return n.head, true
}

// NIDFromIP returns the NID on the net with the IP address a. If a is an IPv6 address,
// including an IPv4-mapped one, the result is a large NID, without the zone of a. If a is
// not valid, the result is the zero NID.
func NIDFromIP(net Net, a netip.Addr) NID {
	switch {
	case net.Type() == typeAny:
		return AnyNID
	case a.Is4():
		w := a.As4()
		return NIDFromNumber(net, binary.BigEndian.Uint32(w[:]))
	case a.Is6():
		w := a.As16()
		return NID{
			head: nidSize16<<56 | uint64(net&0xffffff)<<32 | uint64(binary.BigEndian.Uint32(w[0:])),
			mid:  binary.BigEndian.Uint64(w[4:]),
			tail: uint64(binary.BigEndian.Uint32(w[12:])),
		}
	}
	return NID{}
}

// NIDFromNumber returns the NID on the net with addr as its 4-byte address.
func NIDFromNumber(net Net, addr uint32) NID {
	return NIDFrom4(uint64(net&0xffffff)<<32 | uint64(addr))
}

// size returns nid_size.
func (n NID) size() uint8 { return uint8(n.head >> 56) }

// Net returns the net of n, or NetAny for the wildcard.
func (n NID) Net() Net {
	if n.IsAny() {
		return NetAny
	}
	return Net(n.head>>32) & 0xffffff
}

// IP returns the address of n if addresses on its net are IP addresses. Otherwise it
// returns the zero Addr, which is not valid.
func (n NID) IP() netip.Addr {
	if n.IsAny() || !n.Net().Type().IPAddressed() {
		return netip.Addr{}
	}
	if !n.IsLarge() {
		return netip.AddrFrom4([4]byte{byte(n.head >> 24), byte(n.head >> 16), byte(n.head >> 8), byte(n.head)})
	}
	return netip.AddrFrom16(n.addr16())
}

// addr16 returns nid_addr.
func (n NID) addr16() (a [16]byte) {
	binary.BigEndian.PutUint32(a[0:], uint32(n.head))
	binary.BigEndian.PutUint64(a[4:], n.mid)
	binary.BigEndian.PutUint32(a[12:], uint32(n.tail))
	return a
}

// Number returns the first 4 bytes of the address as a number. If n is not large, they are
// the whole address.
func (n NID) Number() uint32 { return uint32(n.head) }

// IsZero reports whether n is the zero NID.
func (n NID) IsZero() bool { return n == NID{} }

// IsAny reports whether n is the wildcard.
func (n NID) IsAny() bool { return n.head == nid4Any }

// IsLarge reports whether n has a 16-byte address. Such a NID has no nid4 and does not fit
// into a nid4 header. The wildcard is not large: it can be encoded in both forms.
func (n NID) IsLarge() bool { return n.head>>56 == nidSize16 }

// IsLoopback reports whether n is 0@lo.
func (n NID) IsLoopback() bool { return n == LoopbackNID }

// Compare compares the 20-byte wire forms of n and o. It returns -1 if n sorts before o, 0
// if they are equal, and 1 otherwise.
func (n NID) Compare(o NID) int {
	if c := cmp.Compare(n.head, o.head); c != 0 {
		return c
	}
	if c := cmp.Compare(n.mid, o.mid); c != 0 {
		return c
	}
	return cmp.Compare(n.tail, o.tail)
}

// AppendLarge appends the 20-byte encoding of n. For the zero NID, all bytes are zero.
func (n NID) AppendLarge(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, n.head)
	b = binary.BigEndian.AppendUint64(b, n.mid)
	return binary.BigEndian.AppendUint32(b, uint32(n.tail))
}

// putLarge writes the 20-byte encoding of n to b.
func (n NID) putLarge(b *[LargeNIDSize]byte) {
	binary.BigEndian.PutUint64(b[0:8], n.head)
	binary.BigEndian.PutUint64(b[8:16], n.mid)
	binary.BigEndian.PutUint32(b[16:20], uint32(n.tail))
}

// getLarge decodes the 20-byte encoding of a NID. If DecodeLarge rejects the encoding,
// getLarge returns false, and a NID with the invalid content for largeError.
func getLarge(b *[LargeNIDSize]byte) (NID, bool) {
	n := NID{
		head: binary.BigEndian.Uint64(b[0:8]),
		mid:  binary.BigEndian.Uint64(b[8:16]),
		tail: uint64(binary.BigEndian.Uint32(b[16:20])),
	}
	if NetType(n.head>>48) == typeAny {
		return AnyNID, true
	}
	switch n.size() {
	case nidSize16:
		return n, true
	case nidSize4:
		return n, n.mid|n.tail == 0
	}
	return n, false
}

var (
	errNIDSize     = errors.New("neither 0 (4-byte address) nor 12 (16-byte address)")
	errNIDPadding  = errors.New("bytes after a 4-byte address are not zero")
	errNIDReserved = errors.New("reserved bits are set")
)

// DecodeLarge decodes the 20-byte encoding of a NID from the start of b. If the net type
// is 0xff, it returns AnyNID. It returns a *TruncatedError if b is too short. It returns a
// *FieldError if nid_size is neither 0 nor 12, or if a 4-byte address is followed by bytes
// that are not zero, so that no two valid encodings stand for the same address.
func DecodeLarge(b []byte) (NID, error) {
	if len(b) < LargeNIDSize {
		return NID{}, &TruncatedError{What: "NID", Need: LargeNIDSize, Have: len(b)}
	}
	n, ok := getLarge((*[LargeNIDSize]byte)(b))
	if !ok {
		return NID{}, n.largeError("NID", "")
	}
	return n, nil
}

// largeError returns the error for a NID that getLarge rejected. what and field say where
// the NID was found.
func (n NID) largeError(what, field string) error {
	if field != "" {
		field += "."
	}
	if n.size() != nidSize4 {
		return &FieldError{What: what, Field: field + "nid_size", Value: n.size(), Err: errNIDSize}
	}
	return &FieldError{What: what, Field: field + "nid_addr", Value: n.addr16(), Err: errNIDPadding}
}
