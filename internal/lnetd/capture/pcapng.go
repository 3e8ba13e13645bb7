package capture

import (
	"encoding/binary"
	"strings"
	"time"

	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
	"github.com/lnetd/lnetd/node"
)

// Blocks of pcapng. Each begins with its type and its length, and ends with its length again; all in the byte order of
// the section, which is little-endian here.
const (
	blockSection    = 0x0a0d0d0a
	blockInterface  = 1
	blockStatistics = 5
	blockPacket     = 6

	blockHead = 8 // type and length
	blockTail = 4 // the length again
	byteOrder = 0x1a2b3c4d

	linkUpperPDU = 252    // LINKTYPE_WIRESHARK_UPPER_PDU
	nanoseconds  = "\x09" // if_tsresol: units of 10^-9 s
)

// Options of blocks: number, length, value, padding to 4 bytes.
const (
	optEnd             = 0
	optComment         = 1
	optApplication     = 4 // of a section
	optInterfaceName   = 2
	optResolution      = 9
	optPacketFlags     = 2
	optPacketDropCount = 4
	optReceived        = 4 // of statistics
	optDropped         = 5

	flagInbound  = 1
	flagOutbound = 2
)

// Tags before the data of an upper PDU: number, length, value; in big-endian order.
const (
	tagEnd         = 0
	tagTable       = 14 // name of a table of dissectors
	tagTableNumber = 32
	tagIPv4Source  = 20
	tagIPv4Dest    = 21
	tagIPv6Source  = 22
	tagIPv6Dest    = 23

	table     = "tcp.port"
	tablePort = 988
)

var (
	le = binary.LittleEndian
	be = binary.BigEndian
)

// beginBlock appends the head of a block and returns where the block begins, for endBlock.
func beginBlock(b []byte, kind uint32) (_ []byte, at int) {
	at = len(b)
	b = le.AppendUint32(b, kind)
	return le.AppendUint32(b, 0), at
}

func endBlock(b []byte, at int) []byte {
	length := uint32(len(b) - at + blockTail)
	le.PutUint32(b[at+4:], length)
	return le.AppendUint32(b, length)
}

func pad(b []byte) []byte {
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

// appendOption appends an option. The length of b must be a multiple of 4.
func appendOption(b []byte, kind uint16, value string) []byte {
	b = le.AppendUint16(b, kind)
	b = le.AppendUint16(b, uint16(len(value)))
	return pad(append(b, value...))
}

func appendNumber(b []byte, kind uint16, value uint64) []byte {
	b = le.AppendUint16(b, kind)
	b = le.AppendUint16(b, 8)
	return le.AppendUint64(b, value)
}

// appendSection appends the block with which a file begins.
func appendSection(b []byte, application string) []byte {
	b, at := beginBlock(b, blockSection)
	b = le.AppendUint32(b, byteOrder)
	b = le.AppendUint16(b, 1) // version 1.0
	b = le.AppendUint16(b, 0)
	b = le.AppendUint64(b, 1<<64-1) // the length of the section is unknown
	b = appendOption(b, optApplication, application)
	return endBlock(appendOption(b, optEnd, ""), at)
}

// appendInterface appends the description of an interface. Interfaces are numbered in this order, from 0.
func appendInterface(b []byte, name string) []byte {
	b, at := beginBlock(b, blockInterface)
	b = le.AppendUint16(b, linkUpperPDU)
	b = le.AppendUint16(b, 0)
	b = le.AppendUint32(b, 0) // no limit on the length of packets
	b = appendOption(b, optInterfaceName, name)
	b = appendOption(b, optResolution, nanoseconds)
	return endBlock(appendOption(b, optEnd, ""), at)
}

// appendStatistics appends the numbers of messages that were selected and that were left out.
func appendStatistics(b []byte, at time.Time, received, dropped uint64) []byte {
	b, begin := beginBlock(b, blockStatistics)
	b = le.AppendUint32(b, 0) // interface
	b = appendTime(b, at)
	b = appendNumber(b, optReceived, received)
	b = appendNumber(b, optDropped, dropped)
	return endBlock(appendOption(b, optEnd, ""), begin)
}

func appendTime(b []byte, at time.Time) []byte {
	ns := uint64(at.UnixNano())
	b = le.AppendUint32(b, uint32(ns>>32))
	return le.AppendUint32(b, uint32(ns))
}

// packet is a message to append.
type packet struct {
	*node.Captured
	at      time.Time
	ni      uint32 // number of the interface
	payload int    // maximum number of bytes of the payload
	lost    uint64 // messages that were left out before this one
}

// packetMax is the maximum length of the block of a packet without its payload and its comment.
const packetMax = 512

// appendPacket appends the block of a message. It returns false, and b, if the payload cannot be read.
func appendPacket(b []byte, p *packet) ([]byte, bool) {
	before := b
	b, at := beginBlock(b, blockPacket)
	b = le.AppendUint32(b, p.ni)
	b = appendTime(b, p.at)
	lengths := len(b)
	b = le.AppendUint64(b, 0) // the two lengths
	data := len(b)
	b = appendTags(b, &p.Header)
	b = appendFrame(b, &p.Header)
	heads := len(b) - data
	n := min(p.payload, p.Payload.Length, int(p.Header.PayloadLength))
	b, ok := appendPayload(b, p.Payload, n)
	if !ok {
		return before, false
	}
	le.PutUint32(b[lengths:], uint32(heads+n))
	le.PutUint32(b[lengths+4:], uint32(heads)+p.Header.PayloadLength)
	b = pad(b)
	if text := comment(p.Captured); text != "" {
		b = appendOption(b, optComment, text)
	}
	if flags := direction(p.Captured); flags != 0 {
		b = appendOption(b, optPacketFlags, string([]byte{flags, 0, 0, 0}))
	}
	if p.lost > 0 {
		b = appendNumber(b, optPacketDropCount, p.lost)
	}
	return endBlock(appendOption(b, optEnd, ""), at), true
}

// appendTags appends the tags of an upper PDU: how to decode it, and IP addresses if the NIDs have them.
func appendTags(b []byte, h *lnet.Header) []byte {
	b = appendTag(b, tagTable, []byte(table)...)
	b = appendTag(b, tagTableNumber, 0, 0, tablePort>>8, tablePort&0xff)
	src, dest := h.Src.IP(), h.Dest.IP()
	switch {
	case src.Is4() && dest.Is4():
		from, to := src.As4(), dest.As4()
		b = appendTag(appendTag(b, tagIPv4Source, from[:]...), tagIPv4Dest, to[:]...)
	case src.Is6() && dest.Is6():
		from, to := src.As16(), dest.As16()
		b = appendTag(appendTag(b, tagIPv6Source, from[:]...), tagIPv6Dest, to[:]...)
	}
	return appendTag(b, tagEnd)
}

// appendTag appends a tag. The length of the value must be a multiple of 4.
func appendTag(b []byte, kind uint16, value ...byte) []byte {
	b = be.AppendUint16(b, kind)
	b = be.AppendUint16(b, uint16(len(value)))
	return append(b, value...)
}

// appendFrame appends the message without its payload, as socklnd would send it.
func appendFrame(b []byte, h *lnet.Header) []byte {
	f := protocol.Frame{Type: protocol.FrameLNet}
	b = f.Append(b, le)
	if h.Dest.IsLarge() || h.Src.IsLarge() {
		return h.AppendNID16(b)
	}
	b, _ = h.AppendNID4(b) // fails only for large NIDs
	return b
}

// appendPayload appends the first n bytes of v, which may be memory of another process. It returns false if they cannot
// be read.
func appendPayload(b []byte, v memory.Vector, n int) ([]byte, bool) {
	if n == 0 {
		return b, true
	}
	into := b[len(b) : len(b)+n]
	fault := memory.Guard(func() { v.Slice(0, n).CopyTo(into) })
	return b[:len(b)+n], fault == nil
}

func direction(m *node.Captured) byte {
	switch m.Event {
	case node.CaptureReceived:
		return flagInbound
	case node.CaptureSent, node.CaptureFailed:
		return flagOutbound
	}
	return 0
}

// commentMax is the maximum length of a comment.
const commentMax = 300

// comment returns what is special about a message, or an empty text.
func comment(m *node.Captured) (text string) {
	switch {
	case m.Event == node.CaptureDropped:
		text = "dropped: " + m.Reason.String()
	case m.Event == node.CaptureFailed:
		text = "not sent: " + m.Err.Error()
	case m.Forwarded && m.Event == node.CaptureSent:
		text = "forwarded"
	case m.Forwarded:
		text = "to be forwarded"
	}
	next, by, of := m.Header.Dest, "next hop ", m.Neighbour
	if m.Event == node.CaptureReceived {
		next, by = m.Header.Src, "arrived from "
	}
	if m.Event <= node.CaptureReceived && !of.IsZero() && of != next {
		if text != "" {
			text += ", "
		}
		text += by + of.String()
	}
	return strings.ToValidUTF8(text[:min(len(text), commentMax)], "")
}
