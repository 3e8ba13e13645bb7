package node

import (
	"context"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
	"github.com/lnetd/lnetd/selection"
)

// loopback is the interface of 0@lo. Messages sent to 0@lo arrive in the goroutine of a
// caller of Send. The first caller processes the queue until it is empty; concurrent and
// nested callers only append to it. So no message arrives while another one is being
// handled, and handlers may send any number of messages without growing the stack. If
// messages keep coming, the caller hands the queue over to a new goroutine after a while.
type loopback struct {
	up   *ni
	pool sync.Pool

	mu         sync.Mutex // guards the fields below
	running    bool
	head, tail *loopMessage
}

// loopMessage is a message from 0@lo to 0@lo.
type loopMessage struct {
	tx        *lnd.Tx
	rx        lnd.Rx
	placement lnd.Placement
	state     atomic.Uint32
	next      *loopMessage
}

// States of a loopMessage, from its arrival until its placement is known.
const (
	loopArriving = iota // Upper.Arrived has not returned yet
	loopParked          // Upper.Arrived has returned, but the placement is not known yet
	loopPlaced          // the placement is known
)

// newLoopback creates the NI 0@lo.
func newLoopback(n *Node) *ni {
	i := newNI(n, lnet.LoNet)
	i.Init(lnet.LoopbackNID, selection.UnknownCPT, i)
	i.loopback = true
	l := &loopback{up: i}
	l.pool.New = func() any {
		m := new(loopMessage)
		m.rx.Driver = m
		return m
	}
	i.iface = l
	i.open.Store(true)
	return i
}

func (l *loopback) NID() lnet.NID               { return lnet.LoopbackNID }
func (l *loopback) Device() string              { return "" }
func (l *loopback) Tunables() lnd.Tunables      { return lnd.Tunables{} }
func (l *loopback) Link() lnd.LinkState         { return lnd.LinkUp }
func (l *loopback) Disconnect(lnet.NID)         {}
func (l *loopback) Options() lnd.Values         { return nil }
func (l *loopback) Counters() []lnd.Counter     { return nil }
func (l *loopback) Refusals() lnd.RefusalCounts { return lnd.RefusalCounts{} }
func (l *loopback) Close(context.Context) error { return nil }
func (l *loopback) Probe(lnet.NID) bool         { return true }
func (l *loopback) Timeout() time.Duration      { return 0 }
func (l *loopback) LargeNIDs() bool             { return true }

func (l *loopback) LinkBack(lnet.NID)                   {}
func (l *loopback) Recall(lnet.NID, func(*lnd.Tx) bool) {} // messages never wait here

func (l *loopback) Send(tx *lnd.Tx) {
	m := l.pool.Get().(*loopMessage)
	m.tx = tx
	m.rx.Header = tx.Header
	m.rx.From = lnet.ProcessID{NID: lnet.LoopbackNID, PID: tx.Header.SrcPID}
	m.state.Store(loopArriving)
	l.run(m)
}

func (l *loopback) Receive(rx *lnd.Rx, p lnd.Placement) {
	m := rx.Driver.(*loopMessage)
	m.placement = p
	if m.state.Swap(loopPlaced) == loopParked {
		l.run(m)
	}
}

// run appends m to the queue. If no other goroutine is processing the queue, run processes
// it.
func (l *loopback) run(m *loopMessage) {
	l.mu.Lock()
	m.next = nil
	if l.head == nil {
		l.head = m
	} else {
		l.tail.next = m
	}
	l.tail = m
	if l.running {
		l.mu.Unlock()
		return
	}
	l.running = true
	l.work()
}

// loopTurn is how much work one caller does before it hands the queue over to a goroutine,
// in bytes. Each message counts as its payload plus loopMessageCost.
const (
	loopTurn        = 4 << 20
	loopMessageCost = 16 << 10
)

// work processes the queue until it is empty or the work of loopTurn is done. The caller
// must hold mu; work releases it.
func (l *loopback) work() {
	for turn := loopTurn; l.head != nil; {
		if turn <= 0 {
			l.mu.Unlock()
			go func() {
				l.mu.Lock()
				l.work()
			}()
			return
		}
		m := l.head
		l.head = m.next
		turn -= loopMessageCost + m.tx.Payload.Length
		l.mu.Unlock()
		l.step(m)
		l.mu.Lock()
	}
	l.running = false
	l.mu.Unlock()
}

// step passes m to the node, unless that was done before, and completes m if its placement
// is known. Otherwise Receive continues with m later.
func (l *loopback) step(m *loopMessage) {
	if m.state.Load() == loopArriving {
		if err := l.up.Arrived(&m.rx); err != nil {
			l.complete(m, &lnd.Error{Driver: "loopback", Op: "send", Status: lnd.StatusLocalError, Err: err})
			return
		}
		if m.state.CompareAndSwap(loopArriving, loopParked) {
			return
		}
	}
	if m.placement.Done != nil {
		if fault := memory.Guard(func() { m.placement.Memory.CopyVector(m.tx.Payload) }); fault != nil {
			l.failed(m, fault)
			return
		}
		m.placement.Done.Received(&m.rx, nil)
	}
	l.complete(m, nil)
}

// failed completes m after a memory fault. The side whose memory faulted gets EFAULT, the
// other side EIO.
func (l *loopback) failed(m *loopMessage, fault *memory.Fault) {
	err := &lnd.Error{Driver: "loopback", Op: "copy", Status: lnd.StatusLocalError, Err: fault}
	if !fault.In(m.tx.Payload) {
		m.placement.Done.Received(&m.rx, err)
		l.complete(m, nil)
		return
	}
	lost := *err
	lost.Err = syscall.EIO
	m.placement.Done.Received(&m.rx, &lost)
	l.complete(m, err)
}

func (l *loopback) complete(m *loopMessage, err error) {
	tx := m.tx
	m.tx = nil
	m.placement = lnd.Placement{}
	l.pool.Put(m)
	tx.Done.Sent(tx, err)
}
