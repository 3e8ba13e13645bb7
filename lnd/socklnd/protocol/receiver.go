package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/lnetd/lnetd/lnet"
)

// Receiver is the receiving half of an established connection, without I/O (socklnd 13). The caller
// reads from the stream into Buffers, reports the number of bytes with Filled, and calls Next until
// it returns NeedBytes.
//
// Payload is read from the stream directly into the memory that the caller passes to Place. The
// same read continues with the beginning of the next message. Only payload that was read together
// with its header is copied. Receiver decides by the last payload how far a read may go beyond the
// current message. After a small payload it reads as much as fits. After a large one it reads just
// the next header, so that the payload after that header is not copied either.
//
// Only one goroutine at a time may use a Receiver. After an error it must not be used again.
type Receiver struct {
	version Version
	order   binary.ByteOrder
	state   receiverState

	frame  Frame
	header *lnet.Header

	// buf[r:w] holds bytes of the stream that have not been consumed. buf is small, or a large
	// buffer from the pool while much data arrives at once.
	buf   []byte
	r, w  int
	small [smallBuffer]byte
	large *[largeBuffer]byte // buf's array if it is a large buffer
	full  bool               // the last read filled the small buffer

	// exact forbids reading past the next header, because the last payload was large.
	exact bool

	wanted [][]byte // destination of the wanted payload
	done   int      // number of leading elements of wanted that are full
	filled int      // bytes of wanted[done] that are full
	left   int      // wanted bytes that are still missing
	slop   int      // payload bytes after them, to be discarded
	sum    uint32   // checksum so far, if the frame has one
	iov    [][]byte // result of Buffers
	copied uint64   // payload bytes that were copied from buf
}

const (
	// mostCopied is the largest payload, in bytes, for which copying is accepted. Up to about a
	// page, copying costs less than another read.
	mostCopied = 4096
	// smallBuffer is the size of an idle connection's buffer: room for a payload of mostCopied
	// bytes and the headers of any version. It limits how much of a large payload can be read
	// together with its header and must be copied.
	smallBuffer = mostCopied + 512
	// largeBuffer is the size of a busy connection's buffer.
	largeBuffer = 64 << 10
)

type receiverState uint8

const (
	receiveFrame   receiverState = iota // a framing header, if the version has one
	receiveHeader                       // an LNet header
	receivePlace                        // waiting for Place
	receivePayload                      // wanted payload
	receiveSlop                         // unwanted payload
)

// Event is the result of Receiver.Next.
type Event uint8

const (
	// NeedBytes means that more bytes of the stream are needed.
	NeedBytes Event = iota
	// GotNoop means that Frame holds a NOOP.
	GotNoop
	// GotAck means that Frame acknowledges a cookie and belongs to an LNET message that has not
	// been read yet. The acknowledgement takes effect before the payload.
	GotAck
	// GotHeader means that Frame and the header are complete. Place must be called before the next
	// call of Next.
	GotHeader
	// GotPayload means that the wanted part of the payload has been stored. The next calls discard
	// the rest.
	GotPayload
)

var largeBuffers = sync.Pool{New: func() any { return new([largeBuffer]byte) }}

// NewReceiver returns the receiver of a connection of version v. order is the byte order of the
// frames that the peer sends. LNet headers are decoded into h.
func NewReceiver(v Version, order binary.ByteOrder, h *lnet.Header) *Receiver {
	m := &Receiver{version: v, order: order, header: h}
	m.buf = m.small[:]
	m.start()
	return m
}

// start begins a message.
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

// Partial reports whether a message has begun and is not complete. While it is true, the receive
// timer runs (socklnd 14).
func (m *Receiver) Partial() bool {
	return m.w > m.r || m.state > receiveHeader || m.state == receiveHeader && m.version.Framed()
}

// Buffers returns where to store the next bytes of the stream, in order. The caller fills any
// prefix of them and calls Filled. The slice is valid until Filled is called.
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

// tail returns the free space after the buffered bytes, at least need bytes. If reading ahead is
// forbidden, it returns exactly need bytes.
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

// Filled reports that the first n bytes of Buffers have been filled.
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

// resize adapts the buffer to the traffic. It switches to a large buffer after a read that filled
// the small one. It does not do so if the current payload is large, because such a payload is read
// directly into its destination and needs no buffer.
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

func (m *Receiver) grow() {
	m.large = largeBuffers.Get().(*[largeBuffer]byte)
	m.w = copy(m.large[:], m.buf[m.r:m.w])
	m.r = 0
	m.buf = m.large[:]
}

// Large reports whether the receiver holds a large buffer.
func (m *Receiver) Large() bool { return m.large != nil }

// Rest releases the large buffer if it is empty. The caller calls it between reads when the
// connection is idle.
func (m *Receiver) Rest() {
	if m.large != nil && m.r == m.w {
		m.release()
	}
}

// Close releases the memory of the receiver, which must not be used afterwards.
func (m *Receiver) Close() {
	m.forget()
	if m.large != nil {
		m.release()
	}
}

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

// Next consumes buffered bytes up to the next event. It returns an error if the peer violated the
// protocol.
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

// Place sets where to store the payload of the current message. The first bytes go into bufs, and
// the rest is discarded. bufs must not be larger than the payload. Place does not keep the slice.
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

// takePayload copies the payload bytes that were read together with the header.
func (m *Receiver) takePayload() {
	for m.left > 0 && m.r < m.w {
		n := copy(m.wanted[m.done][m.filled:], m.buf[m.r:m.w])
		m.r += n
		m.copied += uint64(n)
		m.advance(n)
	}
}

// Copied returns the number of payload bytes that were copied because they were read together with
// a header.
func (m *Receiver) Copied() uint64 { return m.copied }

// Abandon discards the rest of the current payload. The caller uses it if Next or a read finds that
// the memory passed to Place cannot be accessed. It returns false if there is no current payload.
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

// sumFrame starts the checksum of a message (socklnd 9). In V2 it covers the frame with its
// checksum field set to 0, in V3 and V4 it does not cover the frame.
func (m *Receiver) sumFrame(raw []byte) uint32 {
	if m.version != V2 {
		return ChecksumInit
	}
	return Checksum(ChecksumInit, raw[:4], zeroSum[:], raw[8:])
}

func (m *Receiver) checkNoop(raw []byte) error {
	if m.frame.Checksum == 0 {
		return nil
	}
	if sum := m.sumFrame(raw); sum != m.frame.Checksum {
		return &ChecksumError{Got: m.frame.Checksum, Want: sum}
	}
	return nil
}

// checkPayload verifies the checksum of a frame that has one, unless a part of the payload is discarded.
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
	return fmt.Sprintf("frame: checksum %#08x: computed %#08x", e.Got, e.Want)
}
