package fuzz

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/recording"
	driver "github.com/lnetd/lnetd/lnd/o2iblnd"
	o2iblnd "github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/fabric"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// FuzzO2iblndStranger has a node on a fabric meet a host that does with the connection
// manager, with messages and with RDMA what a program of bytes says: it calls, answers,
// rejects, and talks on connections that it has. Whatever it does, what the node was
// asked for ends once, nothing is left of it, memory and connections are bounded, no key
// allows what it must not, and the node and another peer go on talking.
func FuzzO2iblndStranger(f *testing.F) {
	eachRDMA(f, func(x *recording.Transfer) {
		if x.Kind == recording.CMRequest || x.Kind == recording.CMReply || x.Kind == recording.Sent && len(x.Data) < 250 {
			b := append([]byte{actCallRaw, byte(len(x.Data))}, x.Data...)
			f.Add(b)
			f.Add(append([]byte{actCall, 8, 0, actSayRaw, 0, byte(len(x.Data))}, x.Data...))
		}
	})
	for _, m := range madeMessages(f) {
		body := append([]byte{m[6], 1, byte(len(m) - 48)}, m[48:]...)
		f.Add(append([]byte{actCall, 8, 0, actSay, 0}, body...))
		f.Add(append([]byte{actPut, 200, actAnswer, 8, actSay, 0}, body...))
		f.Add(append([]byte{actGet, 200, actAnswer, 8, actSay, 0}, body...))
		f.Add(append([]byte{actPut, 200, actAnswerRaw, byte(len(m))}, m...))
		f.Add(append([]byte{actPut, 1, actReject, byte(len(m))}, m...))
	}
	f.Add([]byte{actGet, 255, actAnswer, 8, actDone, 0, 200, actWait, 60})
	f.Add([]byte{actPut, 255, actAnswer, 8, actDone, 0, 200, actWait, 60, actWrite, 0, 9})
	f.Add([]byte{actCall, 8, 0, actCall, 8, 0, actCall, 8, 1, actCall, 8, 2, actWait, 3, actCall, 255, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > rdmaProgramMost {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			s := newRDMAStranger(t, b)
			defer s.close()
			for len(s.bytes) > 0 {
				s.step()
			}
			s.check()
		})
	})
}

// What a program may have the stranger do.
const (
	actCall      byte = iota // depth, life: a good request
	actCallRaw               // n, bytes: any request
	actAnswer                // depth: a good answer to a request of the victim's
	actAnswerRaw             // n, bytes: any answer
	actReject                // n, bytes: any reject
	actSay                   // connection, type, credits, n, bytes: a good header and any body
	actSayRaw                // connection, n, bytes: anything
	actDone                  // connection, status: an end to what the victim has asked for last
	actWrite                 // connection, n: into memory that the victim has lent last
	actHangUp                // connection
	actPut                   // length: the victim sends the stranger something
	actGet                   // length: it fetches something
	actWait                  // seconds
	actions
)

// rdmaProgramMost bounds a program: what a longer one does, shorter ones do.
const rdmaProgramMost = 1024

var (
	rdmaVictim   = netip.MustParseAddr("10.8.0.1")
	rdmaFriend   = netip.MustParseAddr("10.8.0.2")
	rdmaStranger = netip.MustParseAddr("10.8.0.3")
)

// rdmaHost is a node on the fabric.
type rdmaHost struct {
	node   *node.Node
	driver *driver.Driver
	proc   *fabric.Process
	id     lnet.ProcessID
}

type rdmaAttack struct {
	*testing.T
	bytes          []byte
	fab            *fabric.Fabric
	victim, friend *rdmaHost
	peer           *rdmaPeer
	lines          []*rdmaLine
	operations     []*strangerOperation
	stamp          uint64 // the victim's
	allocated      uint64
}

const (
	rdmaPool   = 4 << 20          // of the victim
	rdmaMoment = time.Millisecond // in which all that is under way arrives
)

func newRDMAStranger(t *testing.T, b []byte) *rdmaAttack {
	t.Helper()
	s := &rdmaAttack{T: t, bytes: b, fab: fabric.New(fabric.Config{Link: fabric.Link{Latency: time.Microsecond}}), allocated: allocatedBytes()}
	s.peer = newRDMAPeer(t, s.fab.Host("stranger", rdmaStranger.String()), rdmaStranger)
	s.stamp = uint64(time.Now().UnixMicro())
	s.victim, s.friend = s.host(rdmaVictim), s.host(rdmaFriend)
	s.neighbourIsWell()
	return s
}

func o2ibNID(a netip.Addr) lnet.NID { return lnet.NIDFromIP(lnet.MakeNet(lnet.TypeO2IB, 0), a) }

func (s *rdmaAttack) host(a netip.Addr) *rdmaHost {
	s.Helper()
	h := &rdmaHost{proc: s.fab.Host(a.String(), a.String()).Open(), id: lnet.ProcessID{NID: o2ibNID(a), PID: lnet.PIDLustre}}
	c := driver.DefaultConfig()
	c.Provider, c.Pool = h.proc, rdmaPool
	c.Wall = func() time.Time { return time.UnixMicro(int64(s.stamp)) }
	var err error
	if h.driver, err = driver.New(c); err != nil {
		s.Fatal(err)
	}
	p := node.DefaultParameters()
	p.Discovery = discovery.Static
	if h.node, err = node.New(node.Config{Parameters: &p, Seed: 1}); err != nil {
		s.Fatal(err)
	}
	addNI(s.T, h.node, h.driver, h.id.NID)
	_, err = h.node.Attach(portals.Entry{Portal: openPortal, IgnoreBits: ^uint64(0)}, portals.MD{
		Bytes: make([]byte, 1<<16), Threshold: portals.Unlimited,
		Options: portals.OpPut | portals.OpGet | portals.Truncate | portals.ManageRemote,
	})
	if err != nil {
		s.Fatal(err)
	}
	return h
}

func (s *rdmaAttack) byte() byte {
	if len(s.bytes) == 0 {
		return 0
	}
	b := s.bytes[0]
	s.bytes = s.bytes[1:]
	return b
}

// raw is the next so many bytes.
func (s *rdmaAttack) raw() []byte {
	n := min(int(s.byte()), len(s.bytes))
	b := s.bytes[:n]
	s.bytes = s.bytes[n:]
	return b
}

func (s *rdmaAttack) step() {
	switch s.byte() % actions {
	case actCall:
		m := s.message(o2iblnd.ConnReq)
		m.Params = o2iblnd.Params{Depth: uint16(s.byte()), Fragments: 256, Size: o2iblnd.MaxMessage}
		m.SrcStamp += uint64(s.byte() % 4)
		m.DstStamp = 0
		s.call(s.encode(&m))
	case actCallRaw:
		b := s.raw()
		s.call(b[:min(len(b), verbs.MaxConnectPrivate)])
	case actAnswer:
		m := s.message(o2iblnd.ConnAck)
		m.Params = o2iblnd.Params{Depth: uint16(s.byte()), Fragments: 256, Size: o2iblnd.MaxMessage}
		s.answer(s.encode(&m))
	case actAnswerRaw:
		b := s.raw()
		s.answer(b[:min(len(b), verbs.MaxAcceptPrivate)])
	case actReject:
		b := s.raw()
		if e, ok := s.peer.take(); ok {
			_ = e.ID.Reject(b[:min(len(b), verbs.MaxRejectPrivate)]) // the victim may have given up
			e.ID.Destroy()
		}
	case actSay:
		s.say()
	case actSayRaw:
		if l := s.line(); l != nil {
			_ = l.say(s.raw()) // the connection may have ended
		}
	case actDone:
		s.done()
	case actWrite:
		s.write()
	case actHangUp:
		if l := s.line(); l != nil {
			_ = l.id.Disconnect()
		}
	case actPut:
		s.ask(lnet.MsgPut)
	case actGet:
		s.ask(lnet.MsgGet)
	case actWait:
		time.Sleep(time.Duration(s.byte()) * time.Second)
	}
	time.Sleep(rdmaMoment)
}

// message has a header as the victim expects it.
func (s *rdmaAttack) message(t o2iblnd.Type) o2iblnd.Message {
	return o2iblnd.Message{
		Version: o2iblnd.V2, Type: t, Src: o2ibNID(rdmaStranger), SrcStamp: 77, Dst: s.victim.id.NID, DstStamp: s.stamp,
	}
}

func (s *rdmaAttack) encode(m *o2iblnd.Message) []byte {
	s.Helper()
	b, err := m.Append(nil, binary.LittleEndian)
	if err != nil {
		s.Fatal(err)
	}
	return b
}

// call calls the victim, and waits for what it says.
func (s *rdmaAttack) call(private []byte) {
	s.peer.call(rdmaVictim, private)
	time.Sleep(rdmaMoment)
	for e, ok := s.peer.event(); ok; e, ok = s.peer.event() {
		if e.Kind == verbs.EventEstablished {
			s.lines = append(s.lines, s.peer.line(e.ID))
		}
	}
}

// answer accepts a call of the victim's.
func (s *rdmaAttack) answer(private []byte) {
	if e, ok := s.peer.take(); ok {
		s.peer.accept(e.ID, private)
		s.lines = append(s.lines, s.peer.line(e.ID))
	}
}

// line is one of the connections that there are, or were; nil if there was none.
func (s *rdmaAttack) line() *rdmaLine {
	k := int(s.byte())
	if len(s.lines) == 0 {
		return nil
	}
	return s.lines[k%len(s.lines)]
}

// say says something with a good header and any body.
func (s *rdmaAttack) say() {
	l, kind, credits, body := s.line(), s.byte(), s.byte(), s.raw()
	if l == nil {
		return
	}
	m := s.message(o2iblnd.Noop)
	m.Credits = credits
	b := append(s.encode(&m), body...)
	b[6] = kind
	binary.LittleEndian.PutUint32(b[8:], uint32(len(b)))
	_ = l.say(b)
}

// asked is what the victim has said last on a connection, if it makes sense.
func (s *rdmaAttack) asked(l *rdmaLine) (m o2iblnd.Message, ok bool) {
	heard := l.heard()
	if len(heard) == 0 {
		return m, false
	}
	_, err := m.Decode(heard[len(heard)-1], o2iblnd.Check)
	return m, err == nil
}

// done ends what the victim has asked for last, or says where to write what it wants to.
func (s *rdmaAttack) done() {
	l, status := s.line(), int32(int8(s.byte()))
	if l == nil {
		return
	}
	m, ok := s.asked(l)
	if !ok {
		return
	}
	answer := s.message(o2iblnd.GetDone)
	answer.Cookie, answer.Status = m.Cookie, status
	if m.Type == o2iblnd.PutReq {
		answer.Type, answer.SinkCookie = o2iblnd.PutAck, 5
		answer.Sink = o2iblnd.Descriptor{Key: s.peer.bulk.RKey() + uint32(status&1), Fragments: []o2iblnd.Fragment{
			{Addr: s.peer.bulk.Addr(), Length: uint32(rdmaBulk)},
		}}
	}
	_ = l.say(s.encode(&answer))
}

// write writes into memory that the victim has lent last, or beyond it.
func (s *rdmaAttack) write() {
	l, n := s.line(), int(s.byte())<<6
	if l == nil {
		return
	}
	if m, ok := s.asked(l); ok && len(m.Sink.Fragments) > 0 {
		_ = l.write(n, m.Sink.Fragments[0].Addr, m.Sink.Key)
	}
}

// ask has the victim send the stranger something, or fetch something there.
func (s *rdmaAttack) ask(t lnet.MsgType) {
	n := int(s.byte()) << 8
	o := &strangerOperation{}
	s.operations = append(s.operations, o)
	md := portals.MD{Bytes: make([]byte, n), Threshold: 2, Handler: o}
	h, err := s.victim.node.Bind(md)
	if err != nil {
		s.Fatal(err)
	}
	o.handle = h
	to := lnet.ProcessID{NID: o2ibNID(rdmaStranger), PID: lnet.PIDLustre}
	if t == lnet.MsgGet {
		err = s.victim.node.Get(h, to, node.GetOptions{Portal: openPortal})
	} else {
		err = s.victim.node.Put(h, to, node.PutOptions{Portal: openPortal, Ack: n%512 == 0})
	}
	o.refused = err != nil
}

// neighbourIsWell has the victim and its friend send each other something.
func (s *rdmaAttack) neighbourIsWell() {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), friendPatience)
	defer cancel()
	for _, n := range []int{100, 1 << 16} {
		if _, err := s.friend.node.PutWait(ctx, make([]byte, n), s.victim.id, node.PutOptions{Portal: openPortal, Ack: true}); err != nil {
			s.Errorf("the friend cannot send %d bytes: %v", n, err)
		}
		if _, err := s.victim.node.GetWait(ctx, make([]byte, n), s.friend.id, node.GetOptions{Portal: openPortal}); err != nil {
			s.Errorf("the victim cannot fetch %d bytes: %v", n, err)
		}
	}
}

// check looks at the victim after the attack, and again when all that waits has ended.
func (s *rdmaAttack) check() {
	s.Helper()
	s.neighbourIsWell()
	s.bounded()
	s.peer.proc.Kill() // while it is there the victim asks now and then how it is
	time.Sleep(longEnough)
	for k, o := range s.operations {
		if err := s.victim.node.Unlink(o.handle); err == nil {
			synctest.Wait()
		}
		o.mu.Lock()
		if o.sends > 1 || o.sends == 0 && !o.refused || o.unlinked != 1 || o.answers > 1 {
			s.Errorf("operation %d: refused %t, %d SEND events, %d answers, %d ends", k, o.refused, o.sends, o.answers, o.unlinked)
		}
		o.mu.Unlock()
	}
	s.neighbourIsWell()
	s.checkQuiet()
	if f := s.fab.Faults(); f.Overflows > 0 {
		s.Errorf("%d completion queues have overflowed", f.Overflows)
	}
	if got := allocatedBytes() - s.allocated; got > memoryMost {
		s.Errorf("%d MiB were allocated", got>>20)
	}
}

// checkQuiet waits until nothing is under way at the victim: it may be asking just now how the
// stranger is, or itself.
func (s *rdmaAttack) checkQuiet() {
	s.Helper()
	var left string
	for range friendPatience / (100 * time.Millisecond) {
		c, i := s.victim.node.Counters(), s.victim.node.NIs()[1]
		n := s.counter("connections") // with the friend, which both may have made, and both ends of one with itself
		if c.Committed == 0 && i.Credits.Available == i.Credits.Max && n <= 2+2 {
			return
		}
		left = fmt.Sprintf("%d messages are under way, credits are %+v, %d connections are left", c.Committed, i.Credits, n)
		time.Sleep(100 * time.Millisecond)
	}
	s.Error(left)
}

// bounded looks whether the stranger has more than its share of the victim (docs/spec/README.md,
// settled questions).
func (s *rdmaAttack) bounded() {
	if n := s.counter("arena_bytes"); n > 3*rdmaPool+uint64(len(s.lines)+4)*2*rdmaReceives*rdmaBuffer {
		s.Errorf("%d bytes are registered for %d connections", n, len(s.lines))
	}
}

func (s *rdmaAttack) counter(name string) uint64 {
	for _, c := range s.victim.node.NIs()[1].Driver {
		if c.Name == name {
			return c.Value
		}
	}
	s.Errorf("no counter %s", name)
	return 0
}

func (s *rdmaAttack) close() {
	for _, h := range []*rdmaHost{s.victim, s.friend} {
		if err := h.node.Close(context.Background()); err != nil {
			s.Error(err)
		}
		if err := h.driver.Close(); err != nil {
			s.Error(err)
		}
		if err := h.proc.Close(); err != nil {
			s.Error(err)
		}
	}
	s.peer.proc.Kill()
	s.fab.Close()
}
