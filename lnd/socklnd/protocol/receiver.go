package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/lnetd/lnetd/lnet"
)

// Receiver is the receiving half of an established connection as a machine
// without I/O (socklnd 13): the caller puts bytes of the stream where Buffers
// says, reports them with Filled, and calls Next until it asks for more bytes.
//
// Payload goes straight from the stream into the memory that Place names; the
// next message's beginning rides along in the tail of the same read. Only
// what came along with a header is copied. How far a read may run ahead of
// the message at hand is learned from the traffic: small payloads let it run,
// after a large one it fetches just the next header, so that the payload
// behind that header is not copied either.
//
// A Receiver is used by one goroutine at a time. After an error it is dead.
type Receiver struct {
	version Version
	order   binary.ByteOrder
	state   receiverState

	frame  Frame
	header *lnet.Header

	// buf[r:w] holds bytes of the stream that have not been consumed. buf is
	// small, or large from the pool while much arrives at once.
	buf   []byte
	r, w  int
	small [smallBuffer]byte
	large *[largeBuffer]byte // buf's array if it is large
	full  bool               // the last read filled the small buffer

	// exact forbids reading past the next header: the last payload was large.
	exact bool

	wanted [][]byte // where the wanted payload goes
	done   int      // leading elements of wanted that are full
	filled int      // bytes of wanted[done] that are full
	left   int      // bytes that wanted still takes
	slop   int      // payload bytes to discard behind them
	sum    uint32   // checksum so far, if the frame has one
	iov    [][]byte // what Buffers returns
	copied uint64   // bytes of payloads, from buf
}

const (
	// mostCopied is the payload size beyond which nothing is to be copied: copying a
	// page costs less than another read.
	mostCopied = 4096
	// smallBuffer is what an idle connection reads into: a message with so much payload,
	// and headers of any version. It bounds how much of a large payload can come
	// along with its header, and so be copied.
	smallBuffer = mostCopied + 512
	// largeBuffer is what a busy connection reads into.
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

// Event is what Receiver.Next found.
type Event uint8

const (
	// NeedBytes means that more of the stream is needed.
	NeedBytes Event = iota
	// GotNoop means that Frame holds a NOOP.
	GotNoop
	// GotAck means that Frame, of an LNET message that is still to come,
	// acknowledges a cookie; the acknowledgement counts before the payload.
	GotAck
	// GotHeader means that Frame and the header are complete and that Place
	// must be called before Next goes on.
	GotHeader
	// GotPayload means that the wanted part of the payload is in place. What
	// is left of it is discarded by the next calls.
	GotPayload
)

var largeBuffers = sync.Pool{New: func() any { return new([largeBuffer]byte) }}

// NewReceiver returns the receiver of a connection of the version whose peer
// sends its framing headers in the given order. LNet headers are decoded into
// h.
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

// Frame is the framing header of the message at hand; zero cookies and
// checksum on a V1 connection.
func (m *Receiver) Frame() Frame { return m.frame }

// Partial tells whether a message has begun and is not complete: the receive
// timer runs (socklnd 14).
func (m *Receiver) Partial() bool {
	return m.w > m.r || m.state > receiveHeader || m.state == receiveHeader && m.version.Framed()
}

// Buffers returns where the next bytes of the stream belong, in order. The
// caller fills any prefix of them. The slice is valid until Filled.
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

// tail returns the room behind the buffered bytes, need bytes of it at least,
// and just that many if reading ahead is forbidden.
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

// resize fits the buffer to the traffic. A read that fills the small one calls
// for the large one, unless it did so with the beginning of a large payload:
// that goes into place, and needs no buffer.
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

// Large tells whether the receiver holds a large buffer.
func (m *Receiver) Large() bool { return m.large != nil }

// Rest gives the large buffer back unless bytes are in it. A caller that
// finds the connection idle calls it between reads.
func (m *Receiver) Rest() {
	if m.large != nil && m.r == m.w {
		m.release()
	}
}

// Close gives back what the receiver holds. The receiver is dead afterwards.
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

// advance notes that the next n bytes of the wanted payload are in place.
func (m *Receiver) advance(n int) {
	m.left -= n
	m.filled += n
	for m.done < len(m.wanted) && m.filled >= len(m.wanted[m.done]) {
		m.filled -= len(m.wanted[m.done])
		m.done++
	}
}

// take consumes n buffered bytes.
func (m *Receiver) take(n int) []byte {
	b := m.buf[m.r : m.r+n]
	m.r += n
	return b
}

// Next consumes buffered bytes up to the next event. An error means that the
// peer broke the protocol.
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

// Place says where the payload of the message at hand goes: its first bytes
// into bufs, as many as bufs take, which must not be more than the payload
// has; the rest is discarded. bufs is not kept.
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

// takePayload copies what came along with the header.
func (m *Receiver) takePayload() {
	for m.left > 0 && m.r < m.w {
		n := copy(m.wanted[m.done][m.filled:], m.buf[m.r:m.w])
		m.r += n
		m.copied += uint64(n)
		m.advance(n)
	}
}

// Copied is how many bytes of payloads were copied since they came along with a header, and
// did not go from the stream into their place.
func (m *Receiver) Copied() uint64 { return m.copied }

// Abandon has what is left of the payload at hand discarded, since the memory that Place
// has named cannot be written or read, which Next or a read has found. It returns false if
// no payload is at hand.
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

// sumFrame begins the checksum of a message (socklnd 9): V2 sums the framing
// header, as if its checksum were 0, V3 and V4 do not.
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

// checkPayload compares the checksum, if there is one and nothing of the
// payload is discarded.
func (m *Receiver) checkPayload() error {
	if m.frame.Checksum == 0 || m.slop != 0 {
		return nil
	}
	if sum := Checksum(m.sum, m.wanted...); sum != m.frame.Checksum {
		return &ChecksumError{Got: m.frame.Checksum, Want: sum}
	}
	return nil
}

// ChecksumError is a checksum that does not match (socklnd 9).
type ChecksumError struct{ Got, Want uint32 }

func (e *ChecksumError) Error() string {
	return fmt.Sprintf("frame: checksum %#08x: computed %#08x", e.Got, e.Want)
}
