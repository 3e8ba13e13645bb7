package recording

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

// segment is a TCP segment.
type segment struct {
	from, to           netip.AddrPort
	seq                uint32
	syn, ack, fin, rst bool
	payload            []byte
}

const (
	etherIPv4 = 0x0800
	etherIPv6 = 0x86dd
	etherVLAN = 0x8100

	protocolTCP = 6

	flagFIN = 0x01
	flagSYN = 0x02
	flagRST = 0x04
	flagACK = 0x10
)

var (
	errShort    = errors.New("too short")
	errFragment = errors.New("IP fragments are not put together")
)

// parseSegment parses the TCP segment in a packet. ok is false if the packet is not TCP.
func parseSegment(link linkType, b []byte) (s segment, ok bool, err error) {
	etherType, b, err := parseLink(link, b)
	if err != nil {
		return s, false, err
	}
	switch etherType {
	case etherIPv4:
		return parseIPv4(b)
	case etherIPv6:
		return parseIPv6(b)
	}
	return s, false, nil
}

// parseLink parses the link-layer header and VLAN tags. It returns the EtherType and the rest of the
// packet.
func parseLink(link linkType, b []byte) (etherType uint16, rest []byte, err error) {
	var typeAt, size int
	switch link {
	case linkEthernet:
		typeAt, size = 12, 14
	case linkCooked:
		typeAt, size = 14, 16
	case linkCooked2:
		typeAt, size = 0, 20
	case linkRawIP:
		if len(b) > 0 && b[0]>>4 == 6 {
			return etherIPv6, b, nil
		}
		return etherIPv4, b, nil
	default:
		return 0, nil, fmt.Errorf("link type %d is not known", link)
	}
	if len(b) < size {
		return 0, nil, fmt.Errorf("link header: %w", errShort)
	}
	etherType, b = binary.BigEndian.Uint16(b[typeAt:]), b[size:]
	for etherType == etherVLAN && len(b) >= 4 {
		etherType, b = binary.BigEndian.Uint16(b[2:]), b[4:]
	}
	return etherType, b, nil
}

func parseIPv4(b []byte) (s segment, ok bool, err error) {
	if len(b) < 20 {
		return s, false, fmt.Errorf("IPv4 header: %w", errShort)
	}
	header, total := int(b[0]&15)*4, int(binary.BigEndian.Uint16(b[2:]))
	if b[9] != protocolTCP {
		return s, false, nil
	}
	if binary.BigEndian.Uint16(b[6:])&0x3fff != 0 {
		return s, false, errFragment
	}
	from, to := netip.AddrFrom4([4]byte(b[12:])), netip.AddrFrom4([4]byte(b[16:]))
	return parseTCP(from, to, b, header, total)
}

func parseIPv6(b []byte) (s segment, ok bool, err error) {
	if len(b) < 40 {
		return s, false, fmt.Errorf("IPv6 header: %w", errShort)
	}
	// A packet with IPv6 extension headers is not parsed, because LNet nodes send none.
	if b[6] != protocolTCP {
		return s, false, nil
	}
	total := int(binary.BigEndian.Uint16(b[4:]))
	if total > 0 {
		total += 40
	}
	from, to := netip.AddrFrom16([16]byte(b[8:])), netip.AddrFrom16([16]byte(b[24:]))
	return parseTCP(from, to, b, 40, total)
}

// parseTCP parses the segment after an IP header of ipHeader bytes. total is the packet's length without
// padding, or 0 if segmentation offload has made the packet too long for the length field of its header.
func parseTCP(from, to netip.Addr, b []byte, ipHeader, total int) (s segment, ok bool, err error) {
	if total == 0 {
		total = len(b)
	}
	if ipHeader < 20 || total > len(b) || total < ipHeader+20 {
		return s, false, fmt.Errorf("TCP header: %w", errShort)
	}
	b = b[ipHeader:total]
	size := int(b[12]>>4) * 4
	if size < 20 || size > len(b) {
		return s, false, fmt.Errorf("TCP header: %w", errShort)
	}
	flags := b[13]
	return segment{
		from:    netip.AddrPortFrom(from, binary.BigEndian.Uint16(b)),
		to:      netip.AddrPortFrom(to, binary.BigEndian.Uint16(b[2:])),
		seq:     binary.BigEndian.Uint32(b[4:]),
		syn:     flags&flagSYN != 0,
		ack:     flags&flagACK != 0,
		fin:     flags&flagFIN != 0,
		rst:     flags&flagRST != 0,
		payload: b[size:],
	}, true, nil
}
