package fabric_test

import (
	"errors"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/fabric"
)

const port = 987

// node is a process with everything that a driver has open. Its waiting goroutines end with the fabric.
type node struct {
	t           *testing.T
	p           *fabric.Process
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

// bubble runs a test with a fabric in a bubble.
func bubble(t *testing.T, c fabric.Config, test func(t *testing.T, f *fabric.Fabric)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := fabric.New(c)
		defer f.Close()
		test(t, f)
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func start(t *testing.T, h *fabric.Host, addr string) *node {
	t.Helper()
	n := &node{
		t: t, p: h.Open(), addr: netip.AddrPortFrom(netip.MustParseAddr(addr), port),
		events: make(chan verbs.Event, 256), completions: make(chan verbs.Completion, 1<<16), asyncs: make(chan verbs.AsyncEvent, 256),
	}
	var err error
	n.ch, err = n.p.OpenChannel()
	must(t, err)
	n.listener, err = n.ch.Listen(n.addr, 64)
	must(t, err)
	n.dev, _, err = n.listener.Device()
	must(t, err)
	n.cq, err = n.dev.NewCQ(4096, 0)
	must(t, err)
	n.mem, err = n.dev.Alloc(1<<16, false, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	must(t, err)
	collect(n, n.events, n.ch.Events)
	collect(n, n.asyncs, n.dev.Events)
	q := n.cq
	collect(n, n.completions, func(wc []verbs.Completion) (int, error) { return q.Wait(wc, 0) })
	return n
}

func collect[T any](n *node, into chan T, wait func([]T) (int, error)) {
	n.waiters.Go(func() {
		batch := make([]T, 8)
		for {
			k, err := wait(batch)
			for _, v := range batch[:k] {
				into <- v
			}
			if err != nil {
				if !errors.Is(err, verbs.ErrClosed) {
					n.t.Error(err)
				}
				return
			}
		}
	})
}

func next[T any](t *testing.T, from chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(time.Hour):
		t.Fatal("nothing happens")
	}
	return v
}

// nothing checks that no more events have come.
func nothing[T any](t *testing.T, from chan T) {
	t.Helper()
	synctest.Wait()
	select {
	case v := <-from:
		t.Fatalf("unexpected: %+v", v)
	default:
	}
}

func (n *node) event(kind verbs.EventKind, status int32) verbs.Event {
	n.t.Helper()
	e := next(n.t, n.events)
	if e.Kind != kind || e.Status != status {
		n.t.Fatalf("%s, status %d, want %s, %d", e.Kind, e.Status, kind, status)
	}
	return e
}

func (n *node) async(kind verbs.AsyncKind) verbs.AsyncEvent {
	n.t.Helper()
	e := next(n.t, n.asyncs)
	if e.Kind != kind {
		n.t.Fatalf("%s, want %s", e.Kind, kind)
	}
	return e
}

func (n *node) completed(wrid uint64, s verbs.Status) verbs.Completion {
	n.t.Helper()
	c := next(n.t, n.completions)
	if c.WRID != wrid || c.Status != s {
		n.t.Fatalf("request %d: %s, want %d: %s", c.WRID, c.Status, wrid, s)
	}
	return c
}

// Sizes of queue pairs, and the number of retries of a connection.
const (
	queueSize = 64
	retries   = 3
)

func (n *node) resolved(to *node) verbs.ID {
	n.t.Helper()
	i, err := n.ch.Dial(verbs.Dial{From: n.addr.Addr(), To: to.addr, Timeout: 5 * time.Second})
	must(n.t, err)
	n.event(verbs.EventAddrResolved, 0)
	must(n.t, i.ResolveRoute(5*time.Second))
	n.event(verbs.EventRouteResolved, 0)
	return n.pair(i)
}

func (n *node) pair(i verbs.ID) verbs.ID {
	n.t.Helper()
	must(n.t, i.CreateQP(&verbs.QP{CQ: n.cq, Sends: queueSize, Recvs: queueSize, SendPieces: 1}))
	return i
}

func (n *node) receives(i verbs.ID, wrids ...uint64) {
	n.t.Helper()
	for _, w := range wrids {
		_, _, err := i.Post([]verbs.Recv{{WRID: w, Addr: n.mem.Addr(), Len: 64, LKey: n.mem.LKey()}}, nil, nil)
		must(n.t, err)
	}
}

func (n *node) send(i verbs.ID, wrids ...uint64) {
	n.t.Helper()
	must(n.t, n.trySend(i, wrids...))
}

func (n *node) trySend(i verbs.ID, wrids ...uint64) error {
	for _, w := range wrids {
		_, _, err := i.Post(nil, []verbs.Request{{WRID: w, Count: 1, Flags: verbs.FlagSignalled}}, []verbs.Piece{{Addr: n.mem.Addr() + 4096, Len: 16, LKey: n.mem.LKey()}})
		if err != nil {
			return err
		}
	}
	return nil
}

var param = verbs.ConnParam{Retries: retries, RNRRetries: 2}

// connect connects two nodes. It fails the test if any other event comes.
func connect(a, b *node) (i, j verbs.ID) {
	a.t.Helper()
	i = a.resolved(b)
	must(a.t, i.Connect(param))
	j = b.pair(b.event(verbs.EventConnectRequest, 0).ID)
	must(a.t, j.Accept(param))
	a.event(verbs.EventEstablished, 0)
	b.event(verbs.EventEstablished, 0)
	return i, j
}

func pairOf(t *testing.T, f *fabric.Fabric) (a, b *node) {
	t.Helper()
	return start(t, f.Host("a", addrA), addrA), start(t, f.Host("b", addrB), addrB)
}
