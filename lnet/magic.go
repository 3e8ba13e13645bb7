package lnet

import "encoding/binary"

// Magics are the first four bytes of what nodes send outside of LNet's own
// headers (lnet-wire 6). Except for MagicTCP they are written in the sender's
// byte order, so that the receiver finds that order out.
const (
	// MagicAcceptor starts an AcceptorRequest.
	MagicAcceptor = 0xacce7100
	// MagicProto ("Eric") starts a socklnd HELLO of version 2 and later. At
	// the acceptor it asks which protocol is spoken.
	MagicProto = 0x45726963
	// MagicTCP starts a socklnd HELLO of version 1, which is always
	// little-endian.
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

// MagicOrder tells in which byte order b starts with magic. It reports false
// if b starts with something else or is shorter than the four bytes.
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
