package fuzz

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/internal/recording"
	"github.com/lnetd/lnetd/internal/testenv"
	"github.com/lnetd/lnetd/lnd"
	driver "github.com/lnetd/lnetd/lnd/o2iblnd"
	o2iblnd "github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/fabric"
	"github.com/lnetd/lnetd/lnet"
)

// FuzzO2iblndStranger has a driver on a fabric meet a host that does with the connection
// manager, with messages and with RDMA what a program of bytes says: it calls, answers,
// rejects, and talks on connections that it has. Whatever it does, each message of the driver
// ends once, nothing is left of the stranger, memory and connections are bounded, and no key
// allows what it must not. TestO2iblndStrangers plays the same programs with a whole node.
func FuzzO2iblndStranger(f *testing.F) {
	for _, b := range rdmaPrograms(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > rdmaProgramMost {
			return
		}
		playRDMAStranger(t, b, newRDMADriver)
	})
}

// TestO2iblndStrangers plays strangers beside a peer that means well, against a whole node. In
// addition to what FuzzO2iblndStranger checks, each PUT and GET of the node ends once, its
// credits come back, and the node and the other peer go on talking.
func TestO2iblndStrangers(t *testing.T) {
	all := rdmaPrograms(t)
	tries := testenv.Fewer(len(all))
	for k := range tries {
		playRDMAStranger(t, all[k*len(all)/tries], newRDMANode)
	}
}

// playRDMAStranger has a stranger do what b says, against a victim.
func playRDMAStranger(t *testing.T, b []byte, build func(*rdmaAttack) rdmaVictim) {
	synctest.Test(t, func(t *testing.T) {
		s := newRDMAStranger(t, b, build)
		defer s.close()
		for steps := 0; len(s.bytes) > 0 && steps < rdmaStepsMost; steps++ {
			s.step()
		}
		s.check()
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
	rdmaVictimAddr = netip.MustParseAddr("10.8.0.1")
	rdmaFriendAddr = netip.MustParseAddr("10.8.0.2")
	rdmaStranger   = netip.MustParseAddr("10.8.0.3")
)

// rdmaVictim is what a stranger attacks: a driver alone, or a whole node.
type rdmaVictim interface {
	// ask sends the stranger a PUT of n bytes, or a GET.
	ask(t lnet.MsgType, n int)
	// isWell checks that a peer beside the stranger can talk with the victim.
	isWell()
	counters() []lnd.Counter
	// check waits until the stranger, which has died, is forgotten, and checks that nothing is left.
	check()
	close()
}

type rdmaAttack struct {
	*testing.T
	bytes     []byte
	fab       *fabric.Fabric
	victim    rdmaVictim
	peer      *rdmaPeer
	lines     []*rdmaLine
	stamp     uint64 // the victim's
	allocated uint64
}

const (
	rdmaPool      = 4 << 20          // of the victim
	rdmaMoment    = time.Millisecond // in which all that is under way arrives
	rdmaStepsMost = 48
	rdmaWaitMost  = 64 // seconds
)

// rdmaMemory is what fabrics of strangers share, since a pool costs more than what most programs do.
var rdmaMemory = new(fabric.Recycler)

func newRDMAStranger(t *testing.T, b []byte, build func(*rdmaAttack) rdmaVictim) *rdmaAttack {
	t.Helper()
	s := &rdmaAttack{
		T: t, bytes: b, allocated: allocatedBytes(),
		fab: fabric.New(fabric.Config{Link: fabric.Link{Latency: time.Microsecond}, Recycler: rdmaMemory}),
	}
	s.peer = newRDMAPeer(t, s.fab.Host("stranger", rdmaStranger.String()), rdmaStranger)
	s.stamp = uint64(time.Now().UnixMicro())
	s.victim = build(s)
	s.victim.isWell()
	return s
}

// newDriver returns a driver on a new host of the fabric, and the host's process.
func (s *rdmaAttack) newDriver(a netip.Addr) (*driver.Driver, *fabric.Process) {
	s.Helper()
	proc := s.fab.Host(a.String(), a.String()).Open()
	c := driver.DefaultConfig()
	c.Provider, c.Pool = proc, rdmaPool
	c.Wall = func() time.Time { return time.UnixMicro(int64(s.stamp)) }
	d, err := driver.New(c)
	if err != nil {
		s.Fatal(err)
	}
	return d, proc
}

func o2ibNID(a netip.Addr) lnet.NID { return lnet.NIDFromIP(lnet.MakeNet(lnet.TypeO2IB, 0), a) }

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
		s.victim.ask(lnet.MsgPut, int(s.byte())<<8)
	case actGet:
		s.victim.ask(lnet.MsgGet, int(s.byte())<<8)
	case actWait:
		time.Sleep(time.Duration(s.byte()%rdmaWaitMost) * time.Second)
	}
	time.Sleep(rdmaMoment)
}

// message has a header as the victim expects it.
func (s *rdmaAttack) message(t o2iblnd.Type) o2iblnd.Message {
	return o2iblnd.Message{
		Version: o2iblnd.V2, Type: t, Src: o2ibNID(rdmaStranger), SrcStamp: 77, Dst: o2ibNID(rdmaVictimAddr), DstStamp: s.stamp,
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
	s.peer.call(rdmaVictimAddr, private)
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

// check looks at the victim after the attack, and again when all that waits has ended.
func (s *rdmaAttack) check() {
	s.Helper()
	s.victim.isWell()
	s.checkBounds()
	s.peer.proc.Kill() // while it is there the victim asks now and then how it is
	s.victim.check()
	if f := s.fab.Faults(); f.Overflows > 0 {
		s.Errorf("%d completion queues have overflowed", f.Overflows)
	}
	if got := allocatedBytes() - s.allocated; got > memoryMost {
		s.Errorf("%d MiB were allocated", got>>20)
	}
}

// checkBounds checks that the stranger has no more than its share of the victim
// (docs/spec/README.md, settled questions).
func (s *rdmaAttack) checkBounds() {
	if n := s.counter("arena_bytes"); n > 3*rdmaPool+uint64(len(s.lines)+4)*2*rdmaReceives*rdmaBuffer {
		s.Errorf("%d bytes are registered for %d connections", n, len(s.lines))
	}
}

func (s *rdmaAttack) counter(name string) uint64 {
	for _, c := range s.victim.counters() {
		if c.Name == name {
			return c.Value
		}
	}
	s.Errorf("no counter %s", name)
	return 0
}

func (s *rdmaAttack) close() {
	s.victim.close()
	s.peer.proc.Kill()
	s.fab.Close()
}

// rdmaPrograms are programs for strangers: recorded and made messages in place of each other,
// and stories.
func rdmaPrograms(t testing.TB) (all [][]byte) {
	t.Helper()
	add := func(b []byte) { all = append(all, b) }
	eachRDMA(t, func(x *recording.Transfer) {
		if x.Kind == recording.CMRequest || x.Kind == recording.CMReply || x.Kind == recording.Sent && len(x.Data) < 250 {
			b := append([]byte{actCallRaw, byte(len(x.Data))}, x.Data...)
			add(b)
			add(append([]byte{actCall, 8, 0, actSayRaw, 0, byte(len(x.Data))}, x.Data...))
		}
	})
	for _, m := range madeMessages(t) {
		body := append([]byte{m[6], 1, byte(len(m) - 48)}, m[48:]...)
		add(append([]byte{actCall, 8, 0, actSay, 0}, body...))
		add(append([]byte{actPut, 200, actAnswer, 8, actSay, 0}, body...))
		add(append([]byte{actGet, 200, actAnswer, 8, actSay, 0}, body...))
		add(append([]byte{actPut, 200, actAnswerRaw, byte(len(m))}, m...))
		add(append([]byte{actPut, 1, actReject, byte(len(m))}, m...))
	}
	add([]byte{actGet, 255, actAnswer, 8, actDone, 0, 200, actWait, 60})
	add([]byte{actPut, 255, actAnswer, 8, actDone, 0, 200, actWait, 60, actWrite, 0, 9})
	add([]byte{actCall, 8, 0, actCall, 8, 0, actCall, 8, 1, actCall, 8, 2, actWait, 3, actCall, 255, 0})
	slices.SortFunc(all, bytes.Compare)
	return slices.CompactFunc(all, bytes.Equal)
}
