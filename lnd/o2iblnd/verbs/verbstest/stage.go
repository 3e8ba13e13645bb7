package verbstest

import (
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

// Sizes of an end.
const (
	arena   = 4 << 20
	entries = 8192
	timeout = 5 * time.Second // of resolutions
)

// stage is a test with two ends.
type stage struct {
	*testing.T
	h Harness
	*World
	a, b *end
	port uint16
}

// end is one side of a test: a process with a listener.
type end struct {
	s           *stage
	p           verbs.Provider
	addr        netip.AddrPort
	ch          verbs.Channel
	listener    verbs.ID
	dev         verbs.Device
	cq          verbs.CQ
	mem         verbs.Memory
	events      chan verbs.Event
	completions chan verbs.Completion
	asyncs      chan verbs.AsyncEvent
	waiters     sync.WaitGroup
}

func (s *stage) open() {
	s.Helper()
	s.port = s.World.Port
	s.a, s.b = s.end(s.A, s.AddrA), s.end(s.B, s.AddrB)
}

func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// end opens what a driver opens in a process.
func (s *stage) end(p verbs.Provider, addr netip.Addr) *end {
	s.Helper()
	e := &end{s: s, p: p, addr: netip.AddrPortFrom(addr, s.port), events: make(chan verbs.Event, 1024), completions: make(chan verbs.Completion, 4*entries), asyncs: make(chan verbs.AsyncEvent, 1024)}
	var err error
	e.ch, err = p.OpenChannel()
	s.must(err)
	e.listener, err = e.ch.Listen(e.addr, 128)
	s.must(err)
	e.dev, _, err = e.listener.Device()
	s.must(err)
	e.mem, err = e.dev.Alloc(arena, true, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	s.must(err)
	e.cq, err = e.dev.NewCQ(entries, 0)
	s.must(err)
	e.waiters.Go(func() { e.harvestEvents() })
	e.waiters.Go(func() { e.harvestCompletions() })
	e.waiters.Go(func() { e.harvestAsyncs() })
	return e
}

func (e *end) harvestEvents() {
	var batch [8]verbs.Event
	for {
		n, err := e.ch.Events(batch[:])
		for k := range batch[:n] {
			e.events <- batch[k]
		}
		if err != nil {
			e.ended(err)
			return
		}
	}
}

func (e *end) harvestCompletions() {
	var batch [64]verbs.Completion
	for {
		n, err := e.cq.Wait(batch[:], 0)
		for k := range batch[:n] {
			e.completions <- batch[k]
		}
		if err != nil {
			e.ended(err)
			return
		}
	}
}

func (e *end) harvestAsyncs() {
	var batch [8]verbs.AsyncEvent
	for {
		n, err := e.dev.Events(batch[:])
		for k := range batch[:n] {
			e.asyncs <- batch[k]
		}
		if err != nil {
			e.ended(err)
			return
		}
	}
}

func (e *end) ended(err error) {
	if !errors.Is(err, verbs.ErrClosed) {
		e.s.Error("a wait ended with", err)
	}
}

// close closes everything in the order in which a driver does.
func (e *end) close() {
	e.s.Helper()
	if e.listener != nil {
		e.listener.Destroy()
	}
	e.s.must(e.cq.Close())
	e.s.must(e.mem.Close())
	e.s.must(e.dev.Close())
	e.s.must(e.ch.Close())
	e.s.must(e.p.Close())
	e.waiters.Wait()
}

func (s *stage) close() {
	s.Helper()
	s.a.close()
	s.b.close()
}

// next waits for a value from a channel.
func next[T any](s *stage, from chan T, what string) (v T) {
	s.Helper()
	select {
	case v = <-from:
	case <-time.After(s.h.Patience):
		s.Fatalf("no %s", what)
	}
	return v
}

// expect waits for an event. It ignores the ends of earlier connections.
func (e *end) expect(kind verbs.EventKind) verbs.Event {
	e.s.Helper()
	for {
		ev := next(e.s, e.events, kind.String())
		if ev.Kind == kind {
			return ev
		}
		if ev.Kind != verbs.EventTimewaitExit && ev.Kind != verbs.EventDisconnected {
			e.s.Fatalf("%s of status %d, want %s", ev.Kind, ev.Status, kind)
		}
	}
}

// completion waits for a completion of a queue pair.
func (e *end) completion(i verbs.ID) verbs.Completion {
	e.s.Helper()
	for {
		c := next(e.s, e.completions, "completion")
		if c.QPN == i.QPN() {
			return c
		}
	}
}

// succeeded waits for a completion without an error.
func (e *end) succeeded(i verbs.ID) verbs.Completion {
	e.s.Helper()
	c := e.completion(i)
	if c.Status != verbs.Success {
		e.s.Fatalf("request %#x: %s", c.WRID, c.Status)
	}
	return c
}

// Default sizes of a queue pair, and retries of a connection.
const (
	sends = 64
	recvs = 64
)

var param = verbs.ConnParam{Retries: 5, RNRRetries: 6}

// dial resolves the other end and creates a queue pair.
func (e *end) dial(to netip.AddrPort) verbs.ID {
	e.s.Helper()
	i, err := e.ch.Dial(verbs.Dial{From: e.addr.Addr(), To: to, Timeout: timeout})
	e.s.must(err)
	e.expect(verbs.EventAddrResolved)
	e.s.must(i.ResolveRoute(timeout))
	e.expect(verbs.EventRouteResolved)
	return e.pair(i)
}

func (e *end) pair(i verbs.ID) verbs.ID {
	e.s.Helper()
	e.s.must(i.CreateQP(&verbs.QP{CQ: e.cq, Sends: sends, Recvs: recvs, SendPieces: 2}))
	return i
}

// receives posts n buffers of 4 KiB at the beginning of the arena. Their WRID is their number.
func (e *end) receives(i verbs.ID, from, n int) {
	e.s.Helper()
	list := make([]verbs.Recv, n)
	for k := range list {
		list[k] = e.recv(from + k)
	}
	_, _, err := i.Post(list, nil, nil)
	e.s.must(err)
}

const buffer = 4096

func (e *end) recv(k int) verbs.Recv {
	return verbs.Recv{WRID: uint64(k), Addr: e.mem.Addr() + uint64(k%recvs)*buffer, Len: buffer, LKey: e.mem.LKey()}
}

func (e *end) received(k uint64) []byte {
	return e.mem.Bytes()[int(k)%recvs*buffer:][:buffer]
}

// piece returns a piece of the arena.
func (e *end) piece(off, n int) verbs.Piece {
	return verbs.Piece{Addr: e.mem.Addr() + uint64(off), Len: uint32(n), LKey: e.mem.LKey()}
}

// send posts one message.
func (e *end) send(i verbs.ID, wrid uint64, off, n int) {
	e.s.Helper()
	_, _, err := i.Post(nil, []verbs.Request{{WRID: wrid, Count: 1, Flags: verbs.FlagSignalled}}, []verbs.Piece{e.piece(off, n)})
	e.s.must(err)
}

// connect connects a and b, with n receives posted on both sides.
func (s *stage) connect(n int) (a, b verbs.ID) { return s.connectWith(n, param, param) }

func (s *stage) connectWith(n int, call, answer verbs.ConnParam) (a, b verbs.ID) {
	s.Helper()
	a = s.a.dial(s.b.addr)
	s.a.receives(a, 0, n)
	s.must(a.Connect(call))
	b = s.b.pair(s.b.expect(verbs.EventConnectRequest).ID)
	s.b.receives(b, 0, n)
	s.must(b.Accept(answer))
	s.a.expect(verbs.EventEstablished)
	s.b.expect(verbs.EventEstablished)
	return a, b
}

// part ends a connection.
func (s *stage) part(a, b verbs.ID) {
	s.Helper()
	a.Destroy()
	s.b.expect(verbs.EventDisconnected)
	s.must(b.Disconnect())
	b.Destroy()
}
