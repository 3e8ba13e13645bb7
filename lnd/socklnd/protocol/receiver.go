package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/lnetd/lnetd/lnet"
)

// Receiver decodes what arrives on an established connection, without I/O (socklnd 13). The caller reads from
// the stream into Buffers, reports the number of bytes with Filled, and calls Next until it returns NeedBytes.
//
// Payload is read from the stream directly into the memory that the caller passes to Place. The same read
// continues with the beginning of the next message. Payload that is read together with its header goes into the
// Receiver's buffer and has to be copied. Therefore the size of the last payload determines how far a read may
// go beyond the current message. After a small payload, a read may fill the buffer. After a large payload, a
// read ends with the next header, so that the payload after this header is not copied.
//
// Only one goroutine at a time may use a Receiver. After an error it must not be used again.
type Receiver struct {
	version Version
	order   binary.ByteOrder
	state   receiverState

	frame  Frame
	header *lnet.Header

	// buf[r:w] contains bytes of the stream that have not been consumed. buf is the array small, or a large
	// buffer from a pool while much data arrives at once.
	buf   []byte
	r, w  int
	large *[largeBuffer]byte // the array of buf if it is a large buffer, otherwise nil
	full  bool               // the last read filled the small buffer

	// exact forbids reading past the next header, because the last payload was large.
	exact bool

	wanted [][]byte // destination of the wanted payload
	done   int      // number of leading elements of wanted that are full
	filled int      // bytes of wanted[done] that are full
	left   int      // wanted bytes that are still missing
	slop   int      // payload bytes after the wanted ones, which are to be discarded
	sum    uint32   // checksum of the message so far, if the frame has a checksum
	iov    [][]byte // result of Buffers
	copied uint64   // payload bytes that were copied from buf

	small [smallBuffer]byte
}

const (
	// mostCopied is the size in bytes up to which a payload counts as small. Copying a small payload costs less
	// than another read.
	mostCopied = 4096
	// smallBuffer is the size of an idle connection's buffer: room for a payload of mostCopied bytes and the
	// headers of any version. It limits how much of a large payload can be read together with its header and
	// must be copied.
	smallBuffer = mostCopied + 512
	// largeBuffer is the size of the buffer of a connection on which much data arrives.
	largeBuffer = 64 << 10
)

type receiverState uint8

const (
	receiveFrame   receiverState = iota // next is a Frame
	receiveHeader                       // next is an LNet header
	receivePlace                        // Place must be called
	receivePayload                      // next is wanted payload
	receiveSlop                         // next is payload that is to be discarded
)

// Event is the result of Receiver.Next.
type Event uint8

const (
	// NeedBytes means that more bytes of the stream are needed.
	NeedBytes Event = iota
	// GotNoop means that Frame returns a NOOP.
	GotNoop
	// GotAck means that Frame returns an LNET frame that acknowledges a cookie. The LNet message itself is
	// still to be read. The acknowledgement takes effect before that.
	GotAck
	// GotHeader means that the frame and the LNet header have been decoded. Place must be called before the
	// next call of Next.
	GotHeader
	// GotPayload means that the wanted part of the payload has been stored. Later calls of Next discard the
	// rest.
	GotPayload
)

var largeBuffers = sync.Pool{New: func() any { return new([largeBuffer]byte) }}

// NewReceiver returns a Receiver for a connection of version v. order is the byte order of the frames that the
// peer sends. The Receiver decodes each LNet header into h.
func NewReceiver(v Version, order binary.ByteOrder, h *lnet.Header) *Receiver {
	m := &Receiver{version: v, order: order, header: h}
	m.buf = m.small[:]
	m.start()
	return m
}

// start prepares for the next message.
func (m *Receiver) start() {
	m.state = receiveFrame
	if !m.version.Framed() {
		m.frame = Frame{Type: FrameLNet}
		m.state = receiveHeader
	}
}

// Frame returns the frame of the current message. On a V1 connection its cookies and checksum are
// zero.
func (m *Receiver) Frame() Frame { return m.frame }

// Partial reports whether a message has arrived in part and is not complete. While it is true, the receive
// timeout runs (socklnd 14).
func (m *Receiver) Partial() bool {
	return m.w > m.r || m.state > receiveHeader || m.state == receiveHeader && m.version.Framed()
}

// Buffers returns the memory into which the caller reads the next bytes of the stream, one buffer after the
// other. The caller may fill any number of bytes from the beginning, and then calls Filled. The slice is valid
// until then.
func (m *Receiver) Buffers() [][]byte {
	if m.r == m.w {
		m.r, m.w = 0, 0
	}
	m.resize()
	m.iov = m.iov[:0]
	switch m.state {
	case receivePayload:
		if m.left > 0 {
			m.iov = append(m.iov, m.wanted[m.done][m.filled:])
			m.iov = append(m.iov, m.wanted[m.done+1:]...)
		}
		if m.slop == 0 {
			m.iov = append(m.iov, m.tail(m.version.Overhead()))
		}
	case receiveSlop:
		b := m.buf
		if n := m.slop + m.version.Overhead(); m.exact && n < len(b) {
			b = b[:n]
		}
		m.iov = append(m.iov, b)
	case receiveFrame:
		m.iov = append(m.iov, m.tail(m.version.Overhead()-(m.w-m.r)))
	case receiveHeader:
		m.iov = append(m.iov, m.tail(m.version.HeaderSize()-(m.w-m.r)))
	case receivePlace:
		panic("socklnd: Buffers before Place")
	}
	return m.iov
}

// tail returns the free space after the buffered bytes, which is at least need bytes. If reading beyond the
// next header is forbidden, it returns exactly need bytes.
func (m *Receiver) tail(need int) []byte {
	if len(m.buf)-m.w < need {
		m.w = copy(m.buf, m.buf[m.r:m.w])
		m.r = 0
	}
	if m.exact {
		return m.buf[m.w : m.w+need]
	}
	return m.buf[m.w:]
}

// Filled reports that the caller has stored n bytes in Buffers.
func (m *Receiver) Filled(n int) {
	switch m.state {
	case receivePayload:
		direct := min(n, m.left)
		m.advance(direct)
		m.w += n - direct
	case receiveSlop:
		m.r, m.w = 0, n
	default:
		m.w += n
	}
	m.full = m.w == smallBuffer && m.large == nil
}

// resize adapts the buffer to the traffic. It switches to a large buffer after a read has filled the small one,
// unless the current payload is large: such a payload is read directly into its destination and needs no
// buffer. It releases the large buffer during a large payload.
func (m *Receiver) resize() {
	direct := m.exact && m.state == receivePayload
	switch {
	case m.full && !direct:
		m.grow()
	case direct && m.large != nil && m.r == m.w:
		m.release()
	}
	m.full = false
}

// grow switches to a large buffer.
func (m *Receiver) grow() {
	m.large = largeBuffers.Get().(*[largeBuffer]byte)
	m.w = copy(m.large[:], m.buf[m.r:m.w])
	m.r = 0
	m.buf = m.large[:]
}

// Large reports whether the Receiver has a large buffer.
func (m *Receiver) Large() bool { return m.large != nil }

// Rest releases the large buffer if it is empty. The caller calls it between two reads when the connection is
// idle.
func (m *Receiver) Rest() {
	if m.large != nil && m.r == m.w {
		m.release()
	}
}

// Close releases the memory of the Receiver, which must not be used afterwards.
func (m *Receiver) Close() {
	m.forget()
	if m.large != nil {
		m.release()
	}
}

// release returns the large buffer to the pool and switches to the small one.
func (m *Receiver) release() {
	largeBuffers.Put(m.large)
	m.large = nil
	m.buf = m.small[:]
	m.r, m.w = 0, 0
}

// forget drops the references to the payload's memory.
func (m *Receiver) forget() {
	clear(m.wanted)
	clear(m.iov[:cap(m.iov)])
	m.wanted = m.wanted[:0]
}

// advance counts n more bytes of the wanted payload as stored.
func (m *Receiver) advance(n int) {
	m.left -= n
	m.filled += n
	for m.done < len(m.wanted) && m.filled >= len(m.wanted[m.done]) {
		m.filled -= len(m.wanted[m.done])
		m.done++
	}
}

// take consumes n buffered bytes and returns them.
func (m *Receiver) take(n int) []byte {
	b := m.buf[m.r : m.r+n]
	m.r += n
	return b
}

// Next consumes buffered bytes up to the next event, which it returns. It returns an error if the peer has
// violated the protocol.
func (m *Receiver) Next() (Event, error) {
	for {
		switch m.state {
		case receiveFrame:
			if m.w-m.r < FrameSize {
				return NeedBytes, nil
			}
			raw := m.take(FrameSize)
			if err := m.frame.Decode(raw, m.order); err != nil {
				return NeedBytes, err
			}
			if m.frame.Type == FrameNoop {
				return GotNoop, m.checkNoop(raw)
			}
			m.state = receiveHeader
			if m.frame.Checksum != 0 {
				m.sum = m.sumFrame(raw)
			}
			if m.frame.Ack != 0 {
				return GotAck, nil
			}
		case receiveHeader:
			n := m.version.HeaderSize()
			if m.w-m.r < n {
				return NeedBytes, nil
			}
			raw := m.take(n)
			if err := m.version.DecodeHeader(raw, m.header); err != nil {
				return NeedBytes, err
			}
			if m.frame.Checksum != 0 && m.version == V2 {
				m.sum = Checksum(m.sum, raw)
			}
			m.state = receivePlace
			return GotHeader, nil
		case receivePlace:
			return NeedBytes, errors.New("no placement")
		case receivePayload:
			m.takePayload()
			if m.left > 0 {
				return NeedBytes, nil
			}
			if err := m.checkPayload(); err != nil {
				return NeedBytes, err
			}
			m.state = receiveSlop
			m.forget()
			return GotPayload, nil
		case receiveSlop:
			n := min(m.slop, m.w-m.r)
			m.take(n)
			m.slop -= n
			if m.slop > 0 {
				return NeedBytes, nil
			}
			m.start()
		}
	}
}

// Place specifies where to store the payload of the current message: its first bytes go into bufs, and the rest
// is discarded. bufs must not be larger than the payload. Place does not keep the slice bufs.
func (m *Receiver) Place(bufs [][]byte) error {
	if m.state != receivePlace {
		return errors.New("placement without a message")
	}
	total := int(m.header.PayloadLength)
	left := 0
	for _, b := range bufs {
		left += len(b)
	}
	if left > total {
		return fmt.Errorf("placement of %d bytes for a payload of %d", left, total)
	}
	m.wanted = append(m.wanted[:0], bufs...)
	m.done, m.filled, m.left = 0, 0, left
	m.slop = total - left
	m.exact = total > mostCopied
	m.state = receivePayload
	return nil
}

// takePayload copies payload bytes that were read together with the header.
func (m *Receiver) takePayload() {
	for m.left > 0 && m.r < m.w {
		n := copy(m.wanted[m.done][m.filled:], m.buf[m.r:m.w])
		m.r += n
		m.copied += uint64(n)
		m.advance(n)
	}
}

// Storing reports whether Next may write to the memory that was passed to Place.
func (m *Receiver) Storing() bool { return m.state == receivePayload && m.left > 0 }

// Copied returns the number of payload bytes that were copied because they were read together with
// a header.
func (m *Receiver) Copied() uint64 { return m.copied }

// Abandon discards the rest of the current payload. The caller uses it after Next or a read has found that the
// memory passed to Place can no longer be accessed. It returns false if no payload is being received.
func (m *Receiver) Abandon() bool {
	if m.state != receivePayload {
		return false
	}
	m.slop += m.left
	m.left = 0
	m.state = receiveSlop
	m.forget()
	return true
}

// sumFrame returns the checksum of a received frame, with which the checksum of a message begins (socklnd 9).
// In V2 it covers the frame with its checksum field set to 0. In V3 and V4 the checksum does not cover the
// frame.
func (m *Receiver) sumFrame(raw []byte) uint32 {
	if m.version != V2 {
		return ChecksumInit
	}
	return Checksum(ChecksumInit, raw[:4], zeroSum[:], raw[8:])
}

// checkNoop verifies the checksum of a NOOP, if it has one.
func (m *Receiver) checkNoop(raw []byte) error {
	if m.frame.Checksum == 0 {
		return nil
	}
	if sum := m.sumFrame(raw); sum != m.frame.Checksum {
		return &ChecksumError{Got: m.frame.Checksum, Want: sum}
	}
	return nil
}

// checkPayload verifies the checksum of a message with its payload. It does nothing if the frame has no
// checksum, or if a part of the payload is discarded.
func (m *Receiver) checkPayload() error {
	if m.frame.Checksum == 0 || m.slop != 0 {
		return nil
	}
	if sum := Checksum(m.sum, m.wanted...); sum != m.frame.Checksum {
		return &ChecksumError{Got: m.frame.Checksum, Want: sum}
	}
	return nil
}

// ChecksumError is the error for a checksum that does not match (socklnd 9).
type ChecksumError struct{ Got, Want uint32 }

func (e *ChecksumError) Error() string {
	return fmt.Sprintf("frame: checksum %#08x does not match the computed %#08x", e.Got, e.Want)
}
