package tshark

import (
	"encoding/binary"

	"github.com/lnetd/lnetd/internal/testing/recording"
)

// lnetPort is the TCP port by which tshark recognizes LNet.
const lnetPort = 988

// segmentSize is the maximum payload of the TCP segments in bytes. It is an unusual number, so that
// large messages end at various places in a segment.
const segmentSize = 1447

// capture is a pcap file that is being written. Its Ethernet, IPv4 and TCP headers are synthetic.
type capture struct {
	file []byte
	// streamOf[n] is the number of the stream that packet n+1 belongs to.
	streamOf []int
}

func newCapture() *capture {
	le := binary.LittleEndian
	var b []byte
	b = le.AppendUint32(b, 0xa1b2c3d4) // classic pcap, microseconds
	b = le.AppendUint16(b, 2)
	b = le.AppendUint16(b, 4)
	b = le.AppendUint64(b, 0)
	b = le.AppendUint32(b, 1<<18) // maximum length of a packet
	b = le.AppendUint32(b, 1)     // Ethernet
	return &capture{file: b}
}

// sender writes the TCP segments of one stream.
type sender struct {
	to     *capture
	stream int
	seq    uint32
}

// open writes the SYN of a stream, and returns a sender for the rest of the stream.
func (c *capture) open(stream int) *sender {
	s := &sender{to: c, stream: stream, seq: 1000}
	s.segment(0x02, nil)
	s.seq++
	return s
}

// send writes b as the payload of one or more segments.
func (s *sender) send(b []byte) {
	for len(b) > 0 {
		n := min(len(b), segmentSize)
		s.segment(0x18, b[:n])
		s.seq += uint32(n)
		b = b[n:]
	}
}

func (s *sender) segment(flags byte, payload []byte) {
	be := binary.BigEndian
	length := 20 + 20 + len(payload)
	var p []byte
	p = append(p, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00) // Ethernet

	p = append(p, 0x45, 0) // IPv4
	p = be.AppendUint16(p, uint16(length))
	p = append(p, 0, 0, 0x40, 0, 64, 6, 0, 0)
	p = append(p, 10, 0, byte(s.stream>>8), byte(s.stream), 10, 255, 255, 254)

	p = be.AppendUint16(p, 1023) // TCP
	p = be.AppendUint16(p, lnetPort)
	p = be.AppendUint32(p, s.seq)
	p = be.AppendUint32(p, 1)
	p = append(p, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0)
	p = append(p, payload...)

	s.to.packet(s.stream, p)
}

// packet adds an Ethernet packet of a stream.
func (c *capture) packet(stream int, p []byte) {
	le := binary.LittleEndian
	c.file = le.AppendUint32(c.file, 1)
	c.file = le.AppendUint32(c.file, uint32(len(c.streamOf)))
	c.file = le.AppendUint32(c.file, uint32(len(p)))
	c.file = le.AppendUint32(c.file, uint32(len(p)))
	c.file = append(c.file, p...)
	c.streamOf = append(c.streamOf, stream)
}

// add writes those units of a stream that tshark can decode (see faults.go). Each message starts a new
// segment. Otherwise a segment could end within the first bytes of a message, after which tshark may no
// longer find message boundaries in the stream.
func (c *capture) add(stream int, units []recording.Unit) {
	s := c.open(stream)
	for i := range units {
		if isDecodable(&units[i]) {
			s.send(units[i].Raw)
		}
	}
}
