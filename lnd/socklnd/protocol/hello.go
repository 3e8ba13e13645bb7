package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"github.com/lnetd/lnetd/lnet"
)

// Layouts of a HELLO (socklnd 4.1 to 4.3). Integers are in the sender's byte order, which the magic
// shows. V1 is always little-endian. The bytes of a 20-byte NID are never swapped.
//
//	V2, V3                    V4                        V1
//	 0 magic "Eric"            0 magic "Eric"            0 magic 0xeebc0ded
//	 4 version                 4 version                 4 major u16, minor u16
//	 8 src_nid u64             8 src_nid [20]            8 src_nid u64
//	16 dst_nid u64            28 dst_nid [20]           16 0
//	24 src_pid                48 src_pid                20 src_pid
//	28 dst_pid                52 dst_pid                24 type 4
//	32 src_incarnation u64    56 src_incarnation u64    28 4*nips
//	40 dst_incarnation u64    64 dst_incarnation u64    32 incarnation u64
//	48 ctype                  72 ctype                  40 ctype
//	52 nips                   76 0                      44 0 [28]
//	56 ips u32 [nips]         80                        72 ips u32 [nips]
const (
	helloSizeV1 = 72
	helloSizeV2 = 56
	helloSizeV4 = 80

	// MaxHelloIPs is the largest number of addresses in a HELLO.
	MaxHelloIPs = 16

	// MaxHelloSize is the size of the largest HELLO (V1 with all addresses).
	MaxHelloSize = helloSizeV1 + 4*MaxHelloIPs

	largeNIDSize = 20

	// versionV1 is the number in bytes 4 to 8 of a V1 HELLO: major 1, minor 0.
	versionV1 = 1
)

// Hello is the first message that each side sends on a connection (socklnd 4).
type Hello struct {
	// Version determines the layout.
	Version Version
	// Src is the NID of the sender's NI. Dst is the NID of the receiver's NI, which receivers do not verify.
	// Dst may be zero. A V1 HELLO does not contain it.
	Src, Dst lnet.NID
	// SrcPID is the sender's PID. DstPID is 0 if the sender has opened the connection (the active side).
	// Receivers ignore it.
	SrcPID, DstPID lnet.PID
	// SrcIncarnation is the incarnation of the sender's NI. DstIncarnation is 0 if the sender has opened the
	// connection (the active side). Receivers ignore it.
	SrcIncarnation, DstIncarnation uint64
	// Type is the connection's type as the sender sees it. DecodeHello accepts any value.
	Type ConnType
	// IPs are the IPv4 addresses of the sender's bonded interfaces. They are obsolete: receivers ignore them,
	// and this node never sends any (socklnd 4.4). A V4 HELLO has no such list.
	IPs []netip.Addr
}

// MagicError is the error for a HELLO that starts with an unknown magic.
type MagicError struct {
	// Magic holds the four bytes as a little-endian number.
	Magic uint32
}

func (e *MagicError) Error() string {
	return fmt.Sprintf("hello: unknown magic %#x", e.Magic)
}

// UnknownVersionError is the error for a HELLO of an unsupported version. The passive side, which accepts the
// connection, answers such a HELLO by a HELLO of type None (socklnd 5.1).
type UnknownVersionError struct {
	// Version is the received number. After the magic of V1 it is major + minor*65536.
	Version uint32
	// Order is the sender's byte order.
	Order binary.ByteOrder
}

func (e *UnknownVersionError) Error() string {
	return fmt.Sprintf("hello: unknown version %d", e.Version)
}

var (
	errReservedNID = errors.New("reserved bits are set or the NID is zero")
	errWildcardNID = errors.New("is a wildcard")
	errNoNID       = errors.New("not a NID of an interface")
	errNotNID4     = errors.New("16-byte address in a HELLO for 4-byte addresses")
	errManyIPs     = fmt.Errorf("more than %d", MaxHelloIPs)
	errZeroIP      = errors.New("is the zero address")
	errNotIPv4     = errors.New("not an IPv4 address")
	errNoList      = errors.New("a V4 HELLO has no list of addresses")
	errNotHello    = errors.New("not HELLO (4)")
	errNotMultiple = errors.New("not a multiple of 4")
	errTrailing    = errors.New("there are bytes after the end of the message")
)

func helloField(field string, value any, err error) error {
	return &lnet.FieldError{What: "hello", Field: field, Value: value, Err: err}
}

// fixedSize returns the size of a HELLO of version v without addresses.
func fixedSize(v Version) int {
	switch v {
	case V1:
		return helloSizeV1
	case V4:
		return helloSizeV4
	}
	return helloSizeV2
}

// Size returns the number of bytes that Append appends.
func (h *Hello) Size() int { return fixedSize(h.Version) + 4*len(h.IPs) }

// Append appends the encoded HELLO in the given byte order. V1 is always little-endian. If the layout cannot
// carry a value, such as a NID of 20 bytes, Append returns b unchanged and an error.
func (h *Hello) Append(b []byte, order binary.AppendByteOrder) ([]byte, error) {
	if err := h.check(); err != nil {
		return b, err
	}
	switch h.Version {
	case V1:
		order = binary.LittleEndian
		b = h.appendV1(b)
	case V4:
		b = h.appendV4(b, order)
	default:
		b = h.appendV2(b, order)
	}
	for _, ip := range h.IPs {
		a := ip.As4()
		b = order.AppendUint32(b, binary.BigEndian.Uint32(a[:]))
	}
	return b, nil
}

// check returns an error for the first field that the version of h cannot carry.
func (h *Hello) check() error {
	if !h.Version.Valid() {
		return &UnknownVersionError{Version: uint32(h.Version), Order: binary.LittleEndian}
	}
	if h.Src.IsZero() || h.Src.IsAny() {
		return helloField("src_nid", h.Src, errNoNID)
	}
	if !h.Version.LargeNIDs() {
		if _, ok := h.Src.NID4(); !ok {
			return helloField("src_nid", h.Src, errNotNID4)
		}
		if _, ok := nid4(h.Dst); !ok && h.Version != V1 {
			return helloField("dst_nid", h.Dst, errNotNID4)
		}
	}
	return h.checkIPs()
}

func (h *Hello) checkIPs() error {
	if len(h.IPs) > 0 && h.Version == V4 {
		return helloField("nips", len(h.IPs), errNoList)
	}
	if len(h.IPs) > MaxHelloIPs {
		return helloField("nips", len(h.IPs), errManyIPs)
	}
	for _, ip := range h.IPs {
		if !ip.Is4() {
			return helloField("ips", ip, errNotIPv4)
		}
		if ip.IsUnspecified() {
			return helloField("ips", ip, errZeroIP)
		}
	}
	return nil
}

// nid4 returns n as the 64 bits of the wire; the zero NID becomes 0. It returns false if n does not fit.
func nid4(n lnet.NID) (uint64, bool) {
	if n.IsZero() {
		return 0, true
	}
	return n.NID4()
}

func (h *Hello) appendV1(b []byte) []byte {
	src, _ := h.Src.NID4()
	le := binary.LittleEndian
	b = le.AppendUint32(b, lnet.MagicTCP)
	b = le.AppendUint32(b, versionV1)
	b = le.AppendUint64(b, src)
	b = le.AppendUint32(b, 0)
	b = le.AppendUint32(b, uint32(h.SrcPID))
	b = le.AppendUint32(b, uint32(lnet.MsgHello))
	b = le.AppendUint32(b, uint32(4*len(h.IPs)))
	b = le.AppendUint64(b, h.SrcIncarnation)
	b = le.AppendUint32(b, uint32(h.Type))
	return append(b, make([]byte, 28)...)
}

func (h *Hello) appendV2(b []byte, order binary.AppendByteOrder) []byte {
	src, _ := h.Src.NID4()
	dst, _ := nid4(h.Dst)
	b = order.AppendUint32(b, lnet.MagicProto)
	b = order.AppendUint32(b, uint32(h.Version))
	b = order.AppendUint64(b, src)
	b = order.AppendUint64(b, dst)
	return h.appendTail(b, order)
}

func (h *Hello) appendV4(b []byte, order binary.AppendByteOrder) []byte {
	b = order.AppendUint32(b, lnet.MagicProto)
	b = order.AppendUint32(b, uint32(h.Version))
	b = h.Src.AppendLarge(b)
	if h.Dst.IsZero() {
		b = append(b, make([]byte, largeNIDSize)...)
	} else {
		b = h.Dst.AppendLarge(b)
	}
	return h.appendTail(b, order)
}

// appendTail appends the fields after the NIDs in V2 to V4.
func (h *Hello) appendTail(b []byte, order binary.AppendByteOrder) []byte {
	b = order.AppendUint32(b, uint32(h.SrcPID))
	b = order.AppendUint32(b, uint32(h.DstPID))
	b = order.AppendUint64(b, h.SrcIncarnation)
	b = order.AppendUint64(b, h.DstIncarnation)
	b = order.AppendUint32(b, uint32(h.Type))
	return order.AppendUint32(b, uint32(len(h.IPs)))
}

// HelloNeed returns how many bytes of a HELLO the caller must have before it can continue, given the first
// bytes b. It returns first 4 (the magic), then 8 (also the version), then the size of the fixed part, and at
// last the size of the whole HELLO. If the result is at most len(b), b contains the whole HELLO; HelloNeed
// ignores bytes after it. The result is at most MaxHelloSize.
//
// HelloNeed returns a *MagicError, a *UnknownVersionError or a *lnet.FieldError if the HELLO is invalid.
func HelloNeed(b []byte) (int, error) {
	if len(b) < 4 {
		return 4, nil
	}
	order, magic, err := helloOrder(b)
	if err != nil {
		return 0, err
	}
	if len(b) < 8 {
		return 8, nil
	}
	v, err := helloVersion(b, order, magic)
	if err != nil {
		return 0, err
	}
	fixed := fixedSize(v)
	if len(b) < fixed {
		return fixed, nil
	}
	n, err := helloIPs(b, order, v)
	if err != nil {
		return 0, err
	}
	return fixed + 4*n, nil
}

// helloOrder returns the magic at the beginning of b, and the byte order that it shows.
func helloOrder(b []byte) (binary.ByteOrder, uint32, error) {
	magic := binary.LittleEndian.Uint32(b)
	switch magic {
	case lnet.MagicProto, lnet.MagicTCP:
		return binary.LittleEndian, magic, nil
	}
	if binary.BigEndian.Uint32(b) == lnet.MagicProto {
		return binary.BigEndian, lnet.MagicProto, nil
	}
	return nil, 0, &MagicError{Magic: magic}
}

// helloVersion decodes the version, which follows the magic.
func helloVersion(b []byte, order binary.ByteOrder, magic uint32) (Version, error) {
	version := order.Uint32(b[4:])
	if magic == lnet.MagicTCP {
		if version == versionV1 {
			return V1, nil
		}
	} else if v := Version(version); v >= V2 && v <= V4 {
		return v, nil
	}
	return 0, &UnknownVersionError{Version: version, Order: order}
}

// helloIPs decodes the number of addresses. b contains at least the fixed part of the HELLO.
func helloIPs(b []byte, order binary.ByteOrder, v Version) (int, error) {
	var n uint32
	switch v {
	case V4:
		// The field exists in V4, but no list follows and its value is ignored (socklnd 4.2).
		return 0, nil
	case V1:
		if t := order.Uint32(b[24:]); t != uint32(lnet.MsgHello) {
			return 0, helloField("type", t, errNotHello)
		}
		nbytes := order.Uint32(b[28:])
		if nbytes%4 != 0 {
			return 0, helloField("payload_length", nbytes, errNotMultiple)
		}
		n = nbytes / 4
	default:
		n = order.Uint32(b[52:])
	}
	if n > MaxHelloIPs {
		return 0, helloField("nips", n, errManyIPs)
	}
	return int(n), nil
}

// DecodeHello decodes the HELLO b, whose length is the last result of HelloNeed. It also returns the sender's
// byte order, which its frames on the connection have too. It returns the errors of HelloNeed,
// io.ErrUnexpectedEOF if b is too short, and a *lnet.FieldError if b is too long. On an error h is zero.
func DecodeHello(b []byte) (h Hello, order binary.ByteOrder, err error) {
	need, err := HelloNeed(b)
	if err != nil {
		return Hello{}, nil, err
	}
	if len(b) < need {
		return Hello{}, nil, fmt.Errorf("hello: %d of %d bytes: %w", len(b), need, io.ErrUnexpectedEOF)
	}
	if len(b) > need {
		return Hello{}, nil, helloField("length", len(b), errTrailing)
	}
	// HelloNeed has checked the magic, the version and the number of addresses.
	order, magic, _ := helloOrder(b)
	h.Version, _ = helloVersion(b, order, magic)
	switch h.Version {
	case V1:
		err = h.decodeV1(b)
	case V4:
		err = h.decodeV4(b, order)
	default:
		err = h.decodeV2(b, order)
	}
	if err == nil {
		err = h.decodeIPs(b[fixedSize(h.Version):], order)
	}
	if err != nil {
		return Hello{}, nil, err
	}
	return h, order, nil
}

func (h *Hello) decodeV1(b []byte) (err error) {
	le := binary.LittleEndian
	if h.Src, err = sourceNID4(le.Uint64(b[8:])); err != nil {
		return err
	}
	h.SrcPID = lnet.PID(le.Uint32(b[20:]))
	h.SrcIncarnation = le.Uint64(b[32:])
	h.Type = ConnType(le.Uint32(b[40:]))
	return nil
}

func (h *Hello) decodeV2(b []byte, order binary.ByteOrder) (err error) {
	if h.Src, err = sourceNID4(order.Uint64(b[8:])); err != nil {
		return err
	}
	if h.Dst, err = destNID4(order.Uint64(b[16:])); err != nil {
		return err
	}
	h.decodeTail(b[24:], order)
	return nil
}

func (h *Hello) decodeV4(b []byte, order binary.ByteOrder) (err error) {
	if h.Src, err = largeNID("src_nid", b[8:28]); err != nil {
		return err
	}
	if h.Src.IsAny() {
		return helloField("src_nid", h.Src, errWildcardNID)
	}
	if h.Src.IsZero() {
		return helloField("src_nid", 0, errReservedNID)
	}
	if h.Dst, err = largeNID("dst_nid", b[28:48]); err != nil {
		return err
	}
	h.decodeTail(b[48:], order)
	return nil
}

// decodeTail decodes the fields after the NIDs in V2 to V4.
func (h *Hello) decodeTail(b []byte, order binary.ByteOrder) {
	h.SrcPID = lnet.PID(order.Uint32(b))
	h.DstPID = lnet.PID(order.Uint32(b[4:]))
	h.SrcIncarnation = order.Uint64(b[8:])
	h.DstIncarnation = order.Uint64(b[16:])
	h.Type = ConnType(order.Uint32(b[24:]))
}

// decodeIPs decodes the addresses, which fill b.
func (h *Hello) decodeIPs(b []byte, order binary.ByteOrder) error {
	for ; len(b) > 0; b = b[4:] {
		n := order.Uint32(b)
		if n == 0 {
			return helloField("ips", n, errZeroIP)
		}
		var a [4]byte
		binary.BigEndian.PutUint32(a[:], n)
		h.IPs = append(h.IPs, netip.AddrFrom4(a))
	}
	return nil
}

// sourceNID4 returns the NID that v contains. It returns an error unless it is the NID of an NI (socklnd 5.1).
func sourceNID4(v uint64) (lnet.NID, error) {
	n := lnet.NIDFrom4(v)
	if n.IsAny() {
		return n, helloField("src_nid", n, errWildcardNID)
	}
	if back, ok := n.NID4(); v == 0 || !ok || back != v {
		return n, helloField("src_nid", fmt.Sprintf("%#x", v), errReservedNID)
	}
	return n, nil
}

// destNID4 returns the NID that v contains. It also accepts the wildcard and 0, because receivers ignore the
// field.
func destNID4(v uint64) (lnet.NID, error) {
	if v == 0 {
		return lnet.NID{}, nil
	}
	n := lnet.NIDFrom4(v)
	if back, ok := n.NID4(); !ok || back != v {
		return n, helloField("dst_nid", fmt.Sprintf("%#x", v), errReservedNID)
	}
	return n, nil
}

// largeNID decodes a NID of 20 bytes. If its type is 0xff, it is the wildcard, whatever the other bytes are. If
// all bytes are zero, it is the zero NID.
func largeNID(field string, b []byte) (lnet.NID, error) {
	if b[1] == 0xff {
		return lnet.AnyNID, nil
	}
	if [largeNIDSize]byte(b) == ([largeNIDSize]byte{}) {
		return lnet.NID{}, nil
	}
	n, err := lnet.DecodeLarge(b)
	if err != nil {
		return n, helloField(field, fmt.Sprintf("% x", b), err)
	}
	return n, nil
}
