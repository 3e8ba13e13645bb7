package lnet

import "encoding/binary"

// Magic numbers. Everything that nodes send begins with one, except messages with an LNet
// header (lnet-wire 6). All but MagicTCP are written in the sender's byte order, so that
// the receiver can determine that order.
const (
	// MagicAcceptor starts an AcceptorRequest.
	MagicAcceptor = 0xacce7100
	// MagicProto ("Eric") starts a socklnd HELLO of version 2 or later. If it is sent to an
	// acceptor, it asks which protocols the acceptor supports.
	MagicProto = 0x45726963
	// MagicTCP starts a socklnd HELLO of version 1, which is always little-endian.
	MagicTCP = 0xeebc0ded
	// MagicPing ("ping") starts a PingInfo.
	MagicPing = 0x70696e67
	// MagicIB starts a message of o2iblnd.
	MagicIB = 0x0be91b91
	// MagicGNI starts a message of gnilnd.
	MagicGNI = 0xb00fbabe
	// MagicKFI starts a message of kfilnd.
	MagicKFI = 0xdeadbeef
	// MagicEFA starts a message of efalnd.
	MagicEFA = 0x2be092be
)

// MagicOrder returns the byte order in which the first four bytes of b are magic. It
// returns false if b starts with another number or is shorter than four bytes.
func MagicOrder(b []byte, magic uint32) (binary.ByteOrder, bool) {
	if len(b) < 4 {
		return nil, false
	}
	switch magic {
	case binary.LittleEndian.Uint32(b):
		return binary.LittleEndian, true
	case binary.BigEndian.Uint32(b):
		return binary.BigEndian, true
	}
	return nil, false
}
