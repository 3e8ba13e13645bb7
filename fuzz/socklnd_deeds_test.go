package fuzz

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"time"

	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// streamsMost is the largest number of streams that the stranger has at a time.
const streamsMost = 24

// dial connects to the victim, from a privileged port or another one.
func (s *stranger) dial() {
	b := s.byte()
	if len(s.streams) >= streamsMost {
		return
	}
	from := netip.AddrPortFrom(strangerAddr[b&1], 0)
	if b&6 != 6 {
		s.port--
		from = netip.AddrPortFrom(from.Addr(), 512+s.port%512)
	}
	c, err := s.host.Dial(context.Background(), from, netip.AddrPortFrom(victimAddr, 988))
	if err != nil {
		return // while the victim's NI is removed
	}
	s.dialled++
	s.streams = append(s.streams, &strangerStream{
		Stream: c, us: from.Addr(), version: protocol.V1 + protocol.Version(b>>3&3), order: s.order(b >> 5),
	})
}

func (s *stranger) order(b byte) byteOrder {
	if b&1 == 1 {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// hello returns a HELLO of the stranger, which is valid in most cases. It never has the NID of the
// victim's friend, because the victim could not distinguish the two.
func (s *stranger) hello(c *strangerStream, b byte) []byte {
	h := protocol.Hello{
		Version: c.version, Src: tcpNID(c.us), Dst: s.victimID.NID, SrcPID: lnet.PIDLustre,
		SrcIncarnation: uint64(s.life), Type: protocol.ConnType(b & 3),
	}
	switch b >> 2 & 15 {
	case 1:
		h.Src = tcpNID(strangerAddr[b>>6&1])
	case 2:
		h.Src = s.victimID.NID
	case 3:
		h.SrcPID = 77
	case 4:
		h.Type = protocol.ConnType(4 + b>>6)
	case 5:
		h.SrcIncarnation = 0
	case 6:
		h.Dst = s.friendID.NID
	}
	out, err := h.Append(nil, c.order)
	if err != nil {
		return nil
	}
	if b>>2&15 == 7 {
		out[int(s.byte())%len(out)] ^= 1 << (s.byte() & 7)
	}
	return out
}

// introduce sends an acceptor request and a HELLO, or one of them.
func (s *stranger) introduce() {
	c, b := s.stream(), s.byte()
	if c == nil {
		return
	}
	request := lnet.AcceptorRequest{NID: s.victimID.NID}
	switch b & 7 {
	case 6:
		request.NID = s.friendID.NID
	case 7:
		request.Version = 2
	}
	var out []byte
	if b&24 != 24 {
		out = request.Append(out, c.order)
	}
	if b&96 != 96 {
		out = append(out, s.hello(c, s.byte())...)
	}
	s.write(c, out, b>>7 == 1)
}

// write writes all of b, or only a part for now.
func (s *stranger) write(c *strangerStream, b []byte, cut bool) {
	c.rest = append(c.rest, b...)
	n := len(c.rest)
	if cut && n > 0 {
		n = int(s.byte()) * n / 256
	}
	done, err := c.TryWrite([][]byte{c.rest[:n]})
	c.rest = c.rest[done:]
	if err != nil {
		c.rest = nil
	}
}

// finishWrite writes the rest of a partial write.
func (s *stranger) finishWrite() {
	if c := s.stream(); c != nil {
		s.write(c, nil, s.byte()&1 == 1)
	}
}

// babble writes bytes of the program.
func (s *stranger) babble() {
	c := s.stream()
	n := min(int(s.byte())%40, len(s.bytes))
	if c != nil {
		s.write(c, s.bytes[:n], false)
	}
	s.bytes = s.bytes[n:]
}

// Sizes of payloads.
var strangerSizes = [...]int{0, 1, 300, 4096, 5000, 70_000, 1 << 20}

// send sends a message, which is valid in most cases.
func (s *stranger) send() {
	c, b := s.stream(), s.byte()
	if c == nil {
		return
	}
	size := strangerSizes[int(b>>2)%len(strangerSizes)]
	h := lnet.Header{
		Dest: s.victimID.NID, Src: tcpNID(c.us), DestPID: lnet.PIDLustre, SrcPID: lnet.PIDLustre,
		Type: lnet.MsgAck + lnet.MsgType(b&3), Portal: openPortal, Handle: lnet.Handle{Interface: 1, Object: 1},
	}
	f := protocol.Frame{Type: protocol.FrameLNet}
	e := s.byte()
	switch e & 15 {
	case 1, 2:
		h.Portal = lazyPortal
	case 3:
		h.Portal, h.MatchBits = lnet.ReservedPortal, lnet.PingMatchBits
	case 4:
		h.Src = lnet.NIDFromNumber(h.Src.Net(), uint32(e))
	case 5:
		h.Dest = s.friendID.NID
	case 6:
		h.Type = lnet.MsgType(e)
	case 7:
		f.Request = uint64(e)
	case 8:
		f.Ack = uint64(e)
	case 9:
		f.Checksum = uint32(e) + 1
	case 10:
		f.Type = uint32(e)
	case 11:
		h.Portal = 1 << (e >> 4)
	}
	if len(s.handles) > 0 && e&128 != 0 {
		h.Handle = s.handles[int(s.byte())%len(s.handles)]
	}
	if h.Type == lnet.MsgPut || h.Type == lnet.MsgReply {
		h.PayloadLength = uint32(size)
	} else {
		h.Length = uint32(size)
	}
	if e&15 == 12 { // announces one length, and sends another
		h.PayloadLength = uint32(strangerSizes[int(s.byte())%len(strangerSizes)] + 1)
	}
	var out []byte
	if c.version.Framed() {
		out = f.Append(out, c.order)
	}
	out, err := c.version.AppendHeader(out, &h)
	if err != nil {
		return
	}
	if h.Type == lnet.MsgPut || h.Type == lnet.MsgReply {
		out = append(out, make([]byte, size)...)
	}
	s.write(c, out, e&64 != 0)
}

// noop sends a frame without a message.
func (s *stranger) noop() {
	c := s.stream()
	f := protocol.Frame{Type: protocol.FrameNoop, Request: uint64(s.byte() & 3), Ack: uint64(s.byte() & 3)}
	if c != nil {
		s.write(c, f.Append(nil, c.order), s.byte()&7 == 7)
	}
}

// pass lets time pass.
func (s *stranger) pass() {
	s.await([...]time.Duration{
		time.Millisecond, 100 * time.Millisecond, 3 * time.Second, 11 * time.Second, 26 * time.Second,
		55 * time.Second, 5 * time.Minute, 0,
	}[s.byte()&7])
}

// hangUp closes a stream.
func (s *stranger) hangUp() {
	if c := s.stream(); c != nil {
		_ = c.Close()
		s.forget(c)
	}
}

// breaks breaks a stream in the middle.
func (s *stranger) breaks() {
	conns := s.conns()
	b := s.byte()
	if len(conns) == 0 {
		return
	}
	c := conns[int(s.byte())%len(conns)]
	switch b & 7 {
	case 0:
		c.Reset()
	case 1:
		c.Stall(simlnd.Backward)
	case 2:
		c.Resume(simlnd.Both)
	case 3:
		c.Corrupt(simlnd.Forward, c.Sent(simlnd.Forward)+uint64(s.byte()), 1<<(b>>5))
	default:
		c.Cut(simlnd.Forward, c.Sent(simlnd.Forward)+uint64(s.byte()), simlnd.CutMode(b>>5%3))
	}
}

func (s *stranger) forget(c *strangerStream) {
	for k, o := range s.streams {
		if o == c {
			s.streams = append(s.streams[:k], s.streams[k+1:]...)
			return
		}
	}
}

// read reads what has arrived on a stream.
func (s *stranger) read() {
	c, b := s.stream(), s.byte()
	if c == nil {
		return
	}
	room := make([]byte, 1+int(b)*256)
	for len(room) > 0 {
		if err := c.SetReadDeadline(time.Now().Add(time.Microsecond)); err != nil {
			return
		}
		n, err := c.Read([][]byte{room})
		room = room[n:]
		if err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				s.forget(c)
				_ = c.Close()
			}
			return
		}
	}
}

// answer answers a HELLO of the victim for a connection of any type.
func (s *stranger) answer() {
	if c := s.stream(); c != nil {
		s.write(c, s.hello(c, s.byte()), s.byte()&7 == 7)
	}
}

// isSentTo makes the victim send a message to the stranger.
func (s *stranger) isSentTo() {
	b := s.byte()
	to := lnet.ProcessID{NID: tcpNID(strangerAddr[b>>7]), PID: lnet.PIDLustre}
	if b&64 != 0 && b&2 != 0 {
		to.PID = lnet.PIDUserFlag | lnet.PID(32768)
	}
	s.victim.ask(to, strangerSizes[int(b>>2)%len(strangerSizes)], b)
}

// restartVictim removes the victim's NI and opens it again in a new life.
func (s *stranger) restartVictim() {
	s.renewed = true
	s.victim.restart(time.Duration(s.byte()&3) * time.Second)
	s.victim.checkWorks()
}

// resetAll ends all streams at once.
func (s *stranger) resetAll() {
	for _, c := range s.conns() {
		c.Reset()
	}
}

// conns returns the connections to the victim, opened from either side.
func (s *stranger) conns() []*simlnd.Conn {
	return s.fabric.ConnsBetween(s.host, s.fabric.Host("victim"))
}

// leave closes everything that the stranger has open.
func (s *stranger) leave() {
	for _, l := range s.listeners {
		_ = l.Close()
	}
	s.accepting.Wait()
	for c := s.stream(); c != nil; c = s.stream() {
		_ = c.Close()
		s.forget(c)
	}
	s.victim.setLazy(2)
	for _, c := range s.conns() {
		c.Resume(simlnd.Both)
	}
	s.host.Crash()
}
