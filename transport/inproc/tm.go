package inproc

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/completion"
)

// tm is a TM without the destination of its completions, which is outlet.
type tm struct {
	domain    *domain
	address   transport.Address
	claim     *portals.Claim
	bits      uint64 // match bits of the receive queue
	firstBits transport.MatchBits
	hdrData   uint64
	outlet    completion.Outlet

	// ops counts two things: each op in progress adds opUnderWay, and each final completion that is being
	// pushed adds 1.
	ops        atomic.Int64
	stopped    atomic.Bool
	closing    atomic.Bool // the node is closing
	downPushed atomic.Bool // a completion with Down was pushed
}

const opUnderWay = 1 << 32

var (
	errStopped    = fmt.Errorf("inproc: the TM is stopped: %w", syscall.ESHUTDOWN)
	errDown       = fmt.Errorf("inproc: the node is closed: %w", &Error{Errno: syscall.ESHUTDOWN, Err: node.ErrClosed})
	errNodeClosed = fmt.Errorf("inproc: the node is closed: %w", &Error{Errno: syscall.EPIPE, Err: node.ErrClosed})
	errBusy       = fmt.Errorf("inproc: an operation on the buffer is still in progress: %w", syscall.EBUSY)
	errForeign    = fmt.Errorf("inproc: the buffer does not belong to this domain: %w", syscall.EINVAL)
	errNoQueue    = fmt.Errorf("inproc: no such queue: %w", syscall.EINVAL)
	errLength     = fmt.Errorf("inproc: the length is not within the buffer: %w", syscall.EINVAL)
)

func (t *tm) Address() transport.Address { return t.address }

func (t *tm) MatchBits() transport.MatchBits { return t.firstBits }

// queuedTM is a CoreTM: a tm whose completions go to a queue.
type queuedTM struct {
	*tm
	*completion.Queue // Reap, Pending, Wait, Wake
}

// Flush returns immediately, because Submit has already carried out all ops.
func (t *queuedTM) Flush(time.Time) {}

func (t *queuedTM) Grow(n int) error {
	t.Queue.Grow(n)
	return nil
}

// Stop implements transport.CoreTM. It releases the address, and discards completions that were not reaped.
func (t *queuedTM) Stop() error {
	err := t.tm.Stop()
	if err == nil {
		t.Queue.Close()
	}
	return err
}

// Submit carries out the ops one by one. It tells the node whether another op follows, so that drivers can
// combine writes. Handlers may run during the call.
func (t *tm) Submit(ops []transport.Op) (taken int, err error) {
	for i := range ops {
		if err := t.submit(&ops[i], i+1 < len(ops)); err != nil {
			return i, err
		}
	}
	return len(ops), nil
}

// submit carries out one op. more means that another op follows.
func (t *tm) submit(op *transport.Op, more bool) error {
	b, _ := op.Buffer.(*buffer)
	if b == nil || b.domain != t.domain {
		return errForeign
	}
	if op.Cancel {
		b.cancel(t, op.Sequence)
		return nil
	}
	t.ops.Add(opUnderWay)
	err := b.submit(t, op, more)
	if err != nil {
		t.addOps(-opUnderWay)
	}
	return err
}

// checkOpen returns an error if the TM is stopped or the node is closing.
func (t *tm) checkOpen() error {
	switch {
	case t.stopped.Load():
		return errStopped
	case t.closing.Load():
		return errDown
	}
	return nil
}

// push sends a completion to the outlet. After a final completion, another op may already use the buffer.
func (t *tm) push(c *transport.Completion) {
	c.Time = time.Now()
	if !c.Final {
		t.outlet.Push(c)
		return
	}
	t.ops.Add(1 - opUnderWay)
	t.outlet.Push(c)
	t.addOps(-1)
}

// addOps adds n to ops. If this makes ops 0 while the node is closing, no completion will follow, and addOps
// reports that the Core is gone.
func (t *tm) addOps(n int64) {
	if t.ops.Add(n) == 0 && t.closing.Load() && t.downPushed.CompareAndSwap(false, true) {
		t.outlet.PushTM(&transport.Completion{Err: errNodeClosed, Time: time.Now(), Down: true})
	}
}

// Stop implements completion.TM. It releases the address.
func (t *tm) Stop() error {
	if t.stopped.Swap(true) {
		return nil
	}
	if n := t.ops.Load() / opUnderWay; n > 0 {
		t.stopped.Store(false)
		return fmt.Errorf("inproc: stop %s: %d operations are still in progress: %w", t.address, n, syscall.EBUSY)
	}
	t.domain.core.directory.remove(t)
	t.domain.core.node.Unclaim(t.claim)
	t.domain.mu.Lock()
	delete(t.domain.tms, t)
	t.domain.mu.Unlock()
	return nil
}

// start begins op on b as the table of transport 6.7 defines, and returns the handle of the op's memory
// descriptor. After an error no event follows.
func (t *tm) start(op *transport.Op, b *buffer, more bool) (lnet.Handle, error) {
	d := portals.MD{Memory: b.memory, Threshold: 1, Unlink: true, Handler: b}
	switch op.Queue {
	case transport.MsgRecv:
		d.Options, d.MaxSize = portals.OpPut|portals.MaxSize, op.MinReceiveSize
		d.Threshold = op.MaxMessages
		return t.attach(t.bits, &d)
	case transport.PassiveBulkRecv:
		d.Options = portals.OpPut
		return t.attach(uint64(op.MatchBits), &d)
	}
	if op.Length < 1 || op.Length > b.memory.Length {
		return lnet.NoHandle, errLength
	}
	d.Memory.Length = op.Length
	switch op.Queue {
	case transport.PassiveBulkSend:
		d.Options = portals.OpGet
		return t.attach(uint64(op.MatchBits), &d)
	case transport.MsgSend:
		return t.put(op, uint64(transport.MakeMatchBits(op.Peer.TMID, 0)), &d, more)
	case transport.ActiveBulkSend:
		return t.put(op, uint64(op.MatchBits), &d, more)
	case transport.ActiveBulkRecv:
		d.Threshold = 2 // a GET has two events: SEND and REPLY
		return t.get(op, &d, more)
	}
	return lnet.NoHandle, errNoQueue
}

// attach attaches a memory descriptor for PUTs or GETs with the given match bits, behind the existing entries
// of the portal.
func (t *tm) attach(bits uint64, d *portals.MD) (lnet.Handle, error) {
	return t.domain.core.node.Attach(portals.Entry{
		Portal: t.address.Portal, MatchBits: bits, Position: portals.After, Claim: t.claim,
	}, *d)
}

func (t *tm) put(op *transport.Op, bits uint64, d *portals.MD, more bool) (lnet.Handle, error) {
	n := t.domain.core.node
	h, err := n.Bind(*d)
	if err != nil {
		return h, err
	}
	return h, n.Put(h, t.domain.core.directory.destination(&op.Peer), node.PutOptions{
		Source: t.address.NID, Portal: op.Peer.Portal, MatchBits: bits, HdrData: t.hdrData, More: more,
	})
}

func (t *tm) get(op *transport.Op, d *portals.MD, more bool) (lnet.Handle, error) {
	n := t.domain.core.node
	h, err := n.Bind(*d)
	if err != nil {
		return h, err
	}
	return h, n.Get(h, t.domain.core.directory.destination(&op.Peer), node.GetOptions{
		Source: t.address.NID, Portal: op.Peer.Portal, MatchBits: uint64(op.MatchBits), More: more,
	})
}
