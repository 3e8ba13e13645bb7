package lnet

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

// LargeNIDSize is the size of a NID with room for a 16-byte address, in
// bytes.
//
// Layout of a NID on the wire (lnet-wire 2.3); a byte string whose fields are
// big-endian and never swapped, whatever the message around it:
//
//	 0        1        2                 4                            20
//	+--------+--------+--------+--------+----------- ... ------------+
//	|nid_size|nid_type| nid_num         | nid_addr, left-aligned     |
//	+--------+--------+--------+--------+----------- ... ------------+
//
// nid_size is the number of significant bytes minus 8: 0 for an address of 4
// bytes, 12 for one of 16. The bytes after the significant ones are zero.
//
// A NID with an address of 4 bytes also has a form of 64 bits, the nid4
// (lnet-wire 2.2), which equals the first 8 bytes above read as a big-endian
// number. Each message says in which byte order it carries a nid4:
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

// NID identifies one interface of one node: a net and an address in it. It is
// a small value without pointers: compare it with ==, use it as a map key,
// copy it freely. The zero NID is no NID at all.
//
// Its words are the 20 bytes of the wire layout read as big-endian numbers,
// so that comparing the words compares the bytes. Every NID has one
// representation only.
type NID struct {
	head uint64 // nid_size, nid_type, nid_num and address bytes 0 to 3
	mid  uint64 // address bytes 4 to 11
	tail uint64 // address bytes 12 to 15
}

// AnyNID is the wildcard: 20 bytes 0xff, or 8 as a nid4 (lnet-wire 2.4).
var AnyNID = NID{head: nid4Any, mid: ^uint64(0), tail: 0xffffffff}

// LoopbackNID is 0@lo, by which every node knows itself. It never travels as
// source or destination of a message.
var LoopbackNID = NID{head: uint64(LoNet) << 32}

// nid4Any is the wildcard as a nid4.
const nid4Any = ^uint64(0)

// parseNID4 is NIDFrom4; ok says that it has kept v whole: v is the wildcard, or has
// neither a reserved bit set nor the type of the wildcard.
func parseNID4(v uint64) (n NID, ok bool) {
	return NIDFrom4(v), v>>48 < uint64(typeAny) || v == nid4Any
}

// hexNID4 shows, in an error, a nid4 that is not valid.
type hexNID4 uint64

func (v hexNID4) String() string { return fmt.Sprintf("%#016x", uint64(v)) }

// NIDFrom4 is the NID of a nid4. As a NID of 4 address bytes cannot hold the
// reserved bits 63 to 56, they are dropped (lnet-wire 2.4); who needs to know
// compares v with what NID4 returns.
func NIDFrom4(v uint64) NID {
	if NetType(v>>48) == typeAny {
		return AnyNID
	}
	return NID{head: v &^ (0xff << 56)}
}

// NID4 is n as a nid4. It reports false, and no number, for a large NID,
// since cutting off its address would name another node. The zero NID is 0.
func (n NID) NID4() (v uint64, ok bool) {
	if n.IsLarge() {
		return 0, false
	}
	return n.head, true
}

// NIDFromIP is the NID of an IP address. An IPv6 address, be it an IPv4-mapped
// one, gives a large NID; its zone is dropped. It is the zero NID if a is not
// valid.
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

// NIDFromNumber is the NID with that number as its 4-byte address.
func NIDFromNumber(net Net, addr uint32) NID {
	return NIDFrom4(uint64(net&0xffffff)<<32 | uint64(addr))
}

// size is nid_size.
func (n NID) size() uint8 { return uint8(n.head >> 56) }

// Net is the net that n belongs to, NetAny for the wildcard.
func (n NID) Net() Net {
	if n.IsAny() {
		return NetAny
	}
	return Net(n.head>>32) & 0xffffff
}

// IP is the address of a NID whose net has IP addresses. It is not valid for
// any other NID.
func (n NID) IP() netip.Addr {
	if n.IsAny() || !n.Net().Type().IPAddressed() {
		return netip.Addr{}
	}
	if !n.IsLarge() {
		return netip.AddrFrom4([4]byte{byte(n.head >> 24), byte(n.head >> 16), byte(n.head >> 8), byte(n.head)})
	}
	return netip.AddrFrom16(n.addr16())
}

// addr16 is nid_addr.
func (n NID) addr16() (a [16]byte) {
	binary.BigEndian.PutUint32(a[0:], uint32(n.head))
	binary.BigEndian.PutUint64(a[4:], n.mid)
	binary.BigEndian.PutUint32(a[12:], uint32(n.tail))
	return a
}

// Number is the first 4 bytes of the address as a number; all of it unless
// IsLarge.
func (n NID) Number() uint32 { return uint32(n.head) }

// IsZero tells whether n is no NID at all.
func (n NID) IsZero() bool { return n == NID{} }

// IsAny tells whether n is the wildcard.
func (n NID) IsAny() bool { return n.head == nid4Any }

// IsLarge tells whether the address of n has 16 bytes, so that it has no
// nid4 and does not fit into a nid4 header. The wildcard has both forms.
func (n NID) IsLarge() bool { return n.head>>56 == nidSize16 }

// IsLoopback tells whether n is 0@lo.
func (n NID) IsLoopback() bool { return n == LoopbackNID }

// Compare orders NIDs by the 20 bytes of their wire form: -1 if n comes
// before o, 0 if they are equal, 1 if it comes after.
func (n NID) Compare(o NID) int {
	if c := cmp.Compare(n.head, o.head); c != 0 {
		return c
	}
	if c := cmp.Compare(n.mid, o.mid); c != 0 {
		return c
	}
	return cmp.Compare(n.tail, o.tail)
}

// AppendLarge appends the 20 bytes of n. The zero NID is 20 zeros.
func (n NID) AppendLarge(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, n.head)
	b = binary.BigEndian.AppendUint64(b, n.mid)
	return binary.BigEndian.AppendUint32(b, uint32(n.tail))
}

// putLarge writes the 20 bytes of n.
func (n NID) putLarge(b *[LargeNIDSize]byte) {
	binary.BigEndian.PutUint64(b[0:8], n.head)
	binary.BigEndian.PutUint64(b[8:16], n.mid)
	binary.BigEndian.PutUint32(b[16:20], uint32(n.tail))
}

// getLarge reads 20 bytes. It reports false for what DecodeLarge refuses, with
// the words as they stand.
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

// DecodeLarge reads the 20 bytes of a NID from the start of b. A net type of
// 0xff makes it AnyNID. A nid_size that no sender uses, and bytes that a short
// address leaves unused but that are not zero, are a *FieldError: two byte
// strings would else be one NID. A short b is a *TruncatedError.
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

// largeError says why getLarge refused the words of n, which stand in the
// given field of what.
func (n NID) largeError(what, field string) error {
	if field != "" {
		field += "."
	}
	if n.size() != nidSize4 {
		return &FieldError{What: what, Field: field + "nid_size", Value: n.size(), Err: errNIDSize}
	}
	return &FieldError{What: what, Field: field + "nid_addr", Value: n.addr16(), Err: errNIDPadding}
}
