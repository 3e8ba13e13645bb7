package fuzz

import (
	"bytes"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/fabric"
)

// rdmaPeer is a process on a fabric that sends what a test wants. Tests use it as a kernel or an
// attacker. By itself, it only completes the connections that it opens. In a bubble, it is idle while the
// test checks it.
type rdmaPeer struct {
	t    *testing.T
	at   netip.Addr
	proc *fabric.Process
	ch   verbs.Channel
	dev  verbs.Device
	cq   verbs.CQ
	mem  verbs.Memory // buffers of receives, and of what is said
	bulk verbs.Memory // what others write to, and what is written from

	mu     sync.Mutex // guards the rest
	asked  []verbs.Event
	events []verbs.Event
	lines  map[uint32]*rdmaLine // by queue pair
}

// rdmaLine is a connection of a peer, and what has come on it.
type rdmaLine struct {
	p     *rdmaPeer
	id    verbs.ID
	first int // of its buffers
	got   [][]byte
}

const (
	rdmaPort      = 987
	rdmaBuffer    = 4096
	rdmaReceives  = 18 // of a connection of depth 8 (o2iblnd 9.2)
	rdmaLinesMost = 16
	rdmaBulk      = 1 << 20
)

func newRDMAPeer(t *testing.T, h *fabric.Host, at netip.Addr) *rdmaPeer {
	t.Helper()
	p := &rdmaPeer{t: t, at: at, proc: h.Open(), lines: map[uint32]*rdmaLine{}}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	p.ch, err = p.proc.OpenChannel()
	must(err)
	l, err := p.ch.Listen(netip.AddrPortFrom(at, rdmaPort), 128)
	must(err)
	p.dev, _, err = l.Device()
	must(err)
	p.cq, err = p.dev.NewCQ(30_000, 0)
	must(err)
	p.mem, err = p.dev.Alloc((rdmaReceives*rdmaLinesMost+1)*rdmaBuffer, false, verbs.AccessLocalWrite)
	must(err)
	p.bulk, err = p.dev.Alloc(rdmaBulk, false, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	must(err)
	go p.run()
	go p.harvest()
	return p
}

// run handles the events of the connection manager until the process ends.
func (p *rdmaPeer) run() {
	var ev [1]verbs.Event
	for {
		if _, err := p.ch.Events(ev[:]); err != nil {
			return
		}
		p.mu.Lock()
		switch e := ev[0]; e.Kind {
		case verbs.EventConnectRequest:
			p.asked = append(p.asked, e)
		case verbs.EventAddrResolved:
			_ = e.ID.ResolveRoute(time.Second)
		case verbs.EventRouteResolved:
			p.prepare(e.ID)
			_ = e.ID.Connect(verbs.ConnParam{Private: e.ID.Owner().([]byte), Retries: 5, RNRRetries: 6})
		default:
			p.events = append(p.events, e)
		}
		p.mu.Unlock()
	}
}

// harvest receives messages on connections until the process ends.
func (p *rdmaPeer) harvest() {
	var wc [16]verbs.Completion
	for {
		n, err := p.cq.Wait(wc[:], 0)
		if err != nil {
			return
		}
		p.mu.Lock()
		for _, c := range wc[:n] {
			if l := p.lines[c.QPN]; l != nil && c.Op == verbs.CompletedRecv && c.Status == verbs.Success {
				l.got = append(l.got, bytes.Clone(l.buffer(c.WRID)[:c.Bytes]))
				l.receive(c.WRID)
			}
		}
		p.mu.Unlock()
	}
}

// prepare creates the queue pair of a connection. p.mu is held.
func (p *rdmaPeer) prepare(id verbs.ID) {
	l := &rdmaLine{p: p, id: id, first: len(p.lines) % rdmaLinesMost * rdmaReceives}
	if err := id.CreateQP(&verbs.QP{CQ: p.cq, Sends: 64, Recvs: rdmaReceives, SendPieces: 1}); err != nil {
		p.t.Error(err)
		return
	}
	p.lines[id.QPN()] = l
	for k := range uint64(rdmaReceives) {
		l.receive(k)
	}
}

func (l *rdmaLine) buffer(n uint64) []byte {
	at := (l.first + int(n)) * rdmaBuffer
	return l.p.mem.Bytes()[at : at+rdmaBuffer]
}

func (l *rdmaLine) receive(n uint64) {
	at := l.p.mem.Addr() + uint64((l.first+int(n))*rdmaBuffer)
	_, _, _ = l.id.Post([]verbs.Recv{{WRID: n, Addr: at, Len: rdmaBuffer, LKey: l.p.mem.LKey()}}, nil, nil) // it may have ended
}

// call requests a connection, with private data of the test.
func (p *rdmaPeer) call(to netip.Addr, private []byte) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	id, err := p.ch.Dial(verbs.Dial{From: p.at, To: netip.AddrPortFrom(to, rdmaPort), Privileged: true, Timeout: time.Second})
	if err != nil {
		p.t.Fatal(err)
	}
	id.SetOwner(private)
}

// take returns the oldest connection request, or false without one.
func (p *rdmaPeer) take() (verbs.Event, bool) {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.asked) == 0 {
		return verbs.Event{}, false
	}
	e := p.asked[0]
	p.asked = p.asked[1:]
	return e, true
}

// accept accepts a connection request.
func (p *rdmaPeer) accept(id verbs.ID, private []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.prepare(id)
	_ = id.Accept(verbs.ConnParam{Private: private, Retries: 5, RNRRetries: 6}) // the caller may have given up
}

// event returns the oldest other event, or false without one.
func (p *rdmaPeer) event() (verbs.Event, bool) {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.events) == 0 {
		return verbs.Event{}, false
	}
	e := p.events[0]
	p.events = p.events[1:]
	return e, true
}

// line returns the connection of an ID, or nil.
func (p *rdmaPeer) line(id verbs.ID) *rdmaLine {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lines[id.QPN()]
}

// say sends bytes. It returns an error if the connection has ended.
func (l *rdmaLine) say(b []byte) error {
	at := rdmaReceives * rdmaLinesMost * rdmaBuffer
	n := copy(l.p.mem.Bytes()[at:], b)
	_, _, err := l.id.Post(nil, []verbs.Request{{Count: 1, Op: verbs.Send, Flags: verbs.FlagSignalled}},
		[]verbs.Piece{{Addr: l.p.mem.Addr() + uint64(at), Len: uint32(n), LKey: l.p.mem.LKey()}})
	synctest.Wait()
	return err
}

// write writes the first n bytes of p.bulk to another's memory.
func (l *rdmaLine) write(n int, to uint64, key uint32) error {
	_, _, err := l.id.Post(nil, []verbs.Request{{Count: 1, Op: verbs.RDMAWrite, Flags: verbs.FlagSignalled, Remote: to, RKey: key}},
		[]verbs.Piece{{Addr: l.p.bulk.Addr(), Len: uint32(n), LKey: l.p.bulk.LKey()}})
	synctest.Wait()
	return err
}

// heard returns all messages that have arrived and were not dropped.
func (l *rdmaLine) heard() [][]byte {
	synctest.Wait()
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	return l.got
}

// drop removes the n-th message.
func (l *rdmaLine) drop(n int) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.got = append(l.got[:n:n], l.got[n+1:]...)
}
