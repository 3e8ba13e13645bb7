package recording

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// A classic pcap file has a header of 24 bytes, and then packets, each with a header of 16 bytes. All
// numbers are in the byte order of the machine that wrote the file.
//
//	file header              packet header
//	 0 magic                  0 seconds
//	 4 version u16, u16       4 microseconds or nanoseconds
//	 8 zone, sigfigs          8 bytes in the file
//	16 snaplen               12 bytes on the wire
//	20 link type
const (
	fileHeaderSize   = 24
	packetHeaderSize = 16

	magicMicroseconds = 0xa1b2c3d4
	magicNanoseconds  = 0xa1b23c4d

	// maxPacket is larger than any IP packet. If a packet is longer, the file is damaged.
	maxPacket = 1 << 18
)

// linkType is the type of the link-layer header with which each packet begins.
type linkType uint32

const (
	linkEthernet linkType = 1
	linkRawIP    linkType = 101
	linkCooked   linkType = 113 // Linux "cooked" capture
	linkCooked2  linkType = 276
)

// packet is one recorded packet.
type packet struct {
	at   time.Time
	data []byte
}

var errCut = errors.New("the packet was cut by the recorder")

// packetReader reads the packets of a pcap file.
type packetReader struct {
	r     io.Reader
	order binary.ByteOrder
	unit  time.Duration // unit of the fraction of a second in times
	link  linkType
}

// newPacketReader returns a reader after it has read the file header. The file may be compressed with
// gzip.
func newPacketReader(r io.Reader) (*packetReader, error) {
	br := bufio.NewReader(r)
	if start, err := br.Peek(2); err == nil && start[0] == 0x1f && start[1] == 0x8b {
		z, err := gzip.NewReader(br)
		if err != nil {
			return nil, err
		}
		br = bufio.NewReader(z)
	}
	var h [fileHeaderSize]byte
	if _, err := io.ReadFull(br, h[:]); err != nil {
		return nil, fmt.Errorf("pcap header: %w", err)
	}
	p := &packetReader{r: br, order: binary.LittleEndian, unit: time.Microsecond}
	if h[0] == 0xa1 {
		p.order = binary.BigEndian
	}
	switch magic := p.order.Uint32(h[:]); magic {
	case magicMicroseconds:
	case magicNanoseconds:
		p.unit = time.Nanosecond
	default:
		return nil, fmt.Errorf("pcap header: magic %#x", magic)
	}
	p.link = linkType(p.order.Uint32(h[20:]))
	return p, nil
}

// next returns the next packet. It returns io.EOF after the last one, and an error if the recorder did
// not record the whole packet.
func (p *packetReader) next() (packet, error) {
	var h [packetHeaderSize]byte
	if _, err := io.ReadFull(p.r, h[:]); err != nil {
		return packet{}, err
	}
	kept, whole := p.order.Uint32(h[8:]), p.order.Uint32(h[12:])
	if kept > maxPacket {
		return packet{}, fmt.Errorf("pcap: packet of %d bytes", kept)
	}
	if kept != whole {
		return packet{}, fmt.Errorf("pcap: %d bytes of %d: %w", kept, whole, errCut)
	}
	data := make([]byte, kept)
	if _, err := io.ReadFull(p.r, data); err != nil {
		return packet{}, io.ErrUnexpectedEOF
	}
	fraction := time.Duration(p.order.Uint32(h[4:])) * p.unit
	at := time.Unix(int64(p.order.Uint32(h[:])), int64(fraction)).UTC()
	return packet{at: at, data: data}, nil
}
