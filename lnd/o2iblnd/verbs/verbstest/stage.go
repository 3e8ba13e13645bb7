package verbstest

import (
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

// Parameters of an end.
const (
	arena   = 4 << 20         // bytes of registered memory
	entries = 8192            // entries of the completion queue
	timeout = 5 * time.Second // time limit for resolving an address or a route
)

// stage is a test with two ends.
type stage struct {
	*testing.T
	h Harness
	*World
	a, b *end
	port uint16
	spin atomic.Int64 // how long the ends poll before they sleep, in ns
}

// end is one side of a test: a process with a listener, memory and a completion queue. Its goroutines send
// everything that arrives to the channels.
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

// must fails the test if err is not nil.
func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// end opens an end at the address addr of the process p.
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
		n, err := e.cq.Wait(batch[:], time.Duration(e.s.spin.Load()))
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

// ended fails the test if a goroutine ended with an error other than verbs.ErrClosed.
func (e *end) ended(err error) {
	if !errors.Is(err, verbs.ErrClosed) {
		e.s.Error("a wait ended with", err)
	}
}

// close closes everything that end has opened, in the order in which a driver does.
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

// next waits for a value from a channel. what describes it if the test fails.
func next[T any](s *stage, from chan T, what string) (v T) {
	s.Helper()
	select {
	case v = <-from:
	case <-time.After(s.h.Patience):
		s.Fatalf("no %s", what)
	}
	return v
}

// expect waits for an event of the given kind. It ignores events that report the end of earlier connections.
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

// completion waits for a completion of the queue pair of i. It discards those of other queue pairs.
func (e *end) completion(i verbs.ID) verbs.Completion {
	e.s.Helper()
	for {
		c := next(e.s, e.completions, "completion")
		if c.QPN == i.QPN() {
			return c
		}
	}
}

// succeeded waits for a completion of the queue pair of i, which must have no error.
func (e *end) succeeded(i verbs.ID) verbs.Completion {
	e.s.Helper()
	c := e.completion(i)
	if c.Status != verbs.Success {
		e.s.Fatalf("request %#x: %s", c.WRID, c.Status)
	}
	return c
}

// Sizes of a queue pair.
const (
	sends = 64
	recvs = 64
)

var param = verbs.ConnParam{Retries: 5, RNRRetries: 6}

// dial resolves the address to, and creates a queue pair. The caller then calls Connect.
func (e *end) dial(to netip.AddrPort) verbs.ID {
	e.s.Helper()
	i, err := e.ch.Dial(verbs.Dial{From: e.addr.Addr(), To: to, Timeout: timeout})
	e.s.must(err)
	e.expect(verbs.EventAddrResolved)
	e.s.must(i.ResolveRoute(timeout))
	e.expect(verbs.EventRouteResolved)
	return e.pair(i)
}

// pair creates a queue pair for i and returns i.
func (e *end) pair(i verbs.ID) verbs.ID {
	e.s.Helper()
	e.s.must(i.CreateQP(&verbs.QP{CQ: e.cq, Sends: sends, Recvs: recvs, SendPieces: 2}))
	return i
}

// receives posts n receives, beginning with the number from. The number is the WRID.
func (e *end) receives(i verbs.ID, from, n int) {
	e.s.Helper()
	list := make([]verbs.Recv, n)
	for k := range list {
		list[k] = e.recv(from + k)
	}
	_, _, err := i.Post(list, nil, nil)
	e.s.must(err)
}

// buffer is the size of a receive.
const buffer = 4096

// recv returns the receive with the number k. Its memory is at the beginning of the arena.
func (e *end) recv(k int) verbs.Recv {
	return verbs.Recv{WRID: uint64(k), Addr: e.mem.Addr() + uint64(k%recvs)*buffer, Len: buffer, LKey: e.mem.LKey()}
}

// received returns the memory of the receive with the number k.
func (e *end) received(k uint64) []byte {
	return e.mem.Bytes()[int(k)%recvs*buffer:][:buffer]
}

// piece returns n bytes of the arena at the offset off.
func (e *end) piece(off, n int) verbs.Piece {
	return verbs.Piece{Addr: e.mem.Addr() + uint64(off), Len: uint32(n), LKey: e.mem.LKey()}
}

// send posts one message of n bytes at the offset off of the arena.
func (e *end) send(i verbs.ID, wrid uint64, off, n int) {
	e.s.Helper()
	_, _, err := i.Post(nil, []verbs.Request{{WRID: wrid, Count: 1, Flags: verbs.FlagSignalled}}, []verbs.Piece{e.piece(off, n)})
	e.s.must(err)
}

// connect connects the two ends, with n receives posted on both sides.
func (s *stage) connect(n int) (a, b verbs.ID) { return s.connectWith(n, param, param) }

// connectWith is connect with the given parameters of Connect and Accept.
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

// part ends a connection and destroys both IDs.
func (s *stage) part(a, b verbs.ID) {
	s.Helper()
	a.Destroy()
	s.b.expect(verbs.EventDisconnected)
	s.must(b.Disconnect())
	b.Destroy()
}
