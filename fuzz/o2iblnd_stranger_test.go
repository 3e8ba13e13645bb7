package fuzz

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/internal/testing/recording"
	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnd"
	driver "github.com/lnetd/lnetd/lnd/o2iblnd"
	o2iblnd "github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/fabric"
	"github.com/lnetd/lnetd/lnet"
)

// FuzzO2iblndStranger runs a driver on a fabric against a hostile host. A program of bytes decides what
// that host does with the connection manager, with messages and with RDMA: it dials, answers, rejects,
// and sends on its connections. Each message of the driver must end once, nothing of the host may be
// left, memory and connections must be bounded, and no key may be used for what it does not allow.
// TestO2iblndStrangers runs the same programs against a whole node.
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

// TestO2iblndStrangers runs hostile hosts beside a well-behaved peer, against a whole node. In addition
// to the checks of FuzzO2iblndStranger, each PUT and GET of the node must end once, its credits must come
// back, and the node and the other peer must still be able to exchange messages.
func TestO2iblndStrangers(t *testing.T) {
	all := rdmaPrograms(t)
	tries := testenv.Fewer(len(all))
	for k := range tries {
		playRDMAStranger(t, all[k*len(all)/tries], newRDMANode)
	}
}

// playRDMAStranger runs the program b against a victim.
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

// Actions of a program, with their arguments.
const (
	actCall      byte = iota // depth, life: a valid request
	actCallRaw               // n, bytes: any request
	actAnswer                // depth: a valid answer to a request of the victim
	actAnswerRaw             // n, bytes: any answer
	actReject                // n, bytes: any rejection
	actSay                   // connection, type, credits, n, bytes: a valid header and any body
	actSayRaw                // connection, n, bytes: anything
	actDone                  // connection, status: ends the victim's last request
	actWrite                 // connection, n: writes to the victim's last sink
	actHangUp                // connection
	actPut                   // length: the victim sends the stranger something
	actGet                   // length: it fetches something
	actWait                  // seconds
	actions
)

// rdmaProgramMost is the longest program. Longer ones do nothing that shorter ones cannot do.
const rdmaProgramMost = 1024

var (
	rdmaVictimAddr = netip.MustParseAddr("10.8.0.1")
	rdmaFriendAddr = netip.MustParseAddr("10.8.0.2")
	rdmaStranger   = netip.MustParseAddr("10.8.0.3")
)

// rdmaVictim is the target of the attack: a driver alone, or a whole node.
type rdmaVictim interface {
	// ask sends the stranger a PUT of n bytes, or a GET.
	ask(t lnet.MsgType, n int)
	// checkWorks checks that a well-behaved peer can exchange messages with the victim.
	checkWorks()
	counters() []lnd.Counter
	// check waits until the victim has forgotten the dead stranger, and checks that nothing is left.
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
	rdmaMoment    = time.Millisecond // long enough for everything in transit to arrive
	rdmaStepsMost = 48
	rdmaWaitMost  = 64 // seconds
)

// rdmaMemory is shared by all fabrics, because allocating a pool takes longer than most programs.
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
	s.victim.checkWorks()
	return s
}

// newDriver returns a driver on a new host of the fabric, and the host's process.
func (s *rdmaAttack) newDriver(a netip.Addr) (*driver.Driver, *fabric.Process) {
	s.Helper()
	proc := s.fab.Host(a.String(), a.String()).Open()
	c := driver.DefaultConfig()
	c.Provider, c.Host, c.Pool = proc, proc.Host(), rdmaPool
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

// raw returns the next n bytes.
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

// message returns a message with the header that the victim expects.
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

// call dials the victim and waits for its reaction.
func (s *rdmaAttack) call(private []byte) {
	s.peer.call(rdmaVictimAddr, private)
	time.Sleep(rdmaMoment)
	for e, ok := s.peer.event(); ok; e, ok = s.peer.event() {
		if e.Kind == verbs.EventEstablished {
			s.lines = append(s.lines, s.peer.line(e.ID))
		}
	}
}

// answer accepts a request of the victim.
func (s *rdmaAttack) answer(private []byte) {
	if e, ok := s.peer.take(); ok {
		s.peer.accept(e.ID, private)
		s.lines = append(s.lines, s.peer.line(e.ID))
	}
}

// line draws a connection, open or closed. It returns nil if there has been none so far.
func (s *rdmaAttack) line() *rdmaLine {
	k := int(s.byte())
	if len(s.lines) == 0 {
		return nil
	}
	return s.lines[k%len(s.lines)]
}

// say sends a message with a valid header and any body.
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

// asked returns the victim's last message on a connection, if it is valid.
func (s *rdmaAttack) asked(l *rdmaLine) (m o2iblnd.Message, ok bool) {
	heard := l.heard()
	if len(heard) == 0 {
		return m, false
	}
	_, err := m.Decode(heard[len(heard)-1], o2iblnd.Check)
	return m, err == nil
}

// done ends the victim's last request, or gives the address for its data.
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

// write writes to the victim's last sink, or beyond it.
func (s *rdmaAttack) write() {
	l, n := s.line(), int(s.byte())<<6
	if l == nil {
		return
	}
	if m, ok := s.asked(l); ok && len(m.Sink.Fragments) > 0 {
		_ = l.write(n, m.Sink.Fragments[0].Addr, m.Sink.Key)
	}
}

// check checks the victim after the attack, and again when everything that waits has ended.
func (s *rdmaAttack) check() {
	s.Helper()
	s.victim.checkWorks()
	s.checkBounds()
	s.peer.proc.Kill() // while it lives, the victim probes it now and then
	s.victim.check()
	if f := s.fab.Faults(); f.Overflows > 0 {
		s.Errorf("%d completion queues have overflowed", f.Overflows)
	}
	if got := allocatedBytes() - s.allocated; got > memoryMost {
		s.Errorf("%d MiB were allocated", got>>20)
	}
}

// checkBounds checks that the stranger uses only its share of the victim's resources
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

// rdmaPrograms returns programs: recorded and generated messages in all places, and whole stories.
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
