package mem

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/completion"
)

// buckets is the number of lists into which a TM divides its passive buffers. The lower bits of a buffer's
// match bits, which are consecutive numbers, select the list.
const buckets = 64

// tm is a TM without the destination of its completions, which is out.
type tm struct {
	out     completion.Outlet
	domain  *domain
	host    *host
	address transport.Address
	first   transport.MatchBits
	stopped atomic.Bool

	mu            sync.Mutex // guards the fields below; only the outlet's lock is acquired under it
	receiveQueue  list       // receive buffers, in the order in which messages fill them
	passiveQueues [buckets]list
	unanswered    list // active receives that no peer will answer; they stay until cancelled
	queued        int  // number of buffers on all lists
}

func (t *tm) Address() transport.Address { return t.address }

func (t *tm) MatchBits() transport.MatchBits { return t.first }

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

// Stop implements transport.CoreTM. It ends the TM, and discards completions that were not reaped.
func (t *queuedTM) Stop() error {
	err := t.tm.Stop()
	if err == nil {
		t.Queue.Close()
	}
	return err
}

// Submit carries out the ops. Ops that wait for a peer are queued.
func (t *tm) Submit(ops []transport.Op) (int, error) {
	for i := range ops {
		if err := t.submit(&ops[i]); err != nil {
			return i, err
		}
	}
	return len(ops), nil
}

var (
	errStopped = fmt.Errorf("mem: the TM is stopped: %w", syscall.ESHUTDOWN)
	errBuffer  = fmt.Errorf("mem: the buffer does not belong to this domain: %w", syscall.EINVAL)
	errBusy    = fmt.Errorf("mem: an operation on the buffer is still in progress: %w", syscall.EBUSY)
	errSizes   = fmt.Errorf("mem: the length of the operation is not within its buffer: %w", syscall.EINVAL)
	errQueue   = fmt.Errorf("mem: there is no such queue: %w", syscall.EINVAL)
)

func (t *tm) submit(op *transport.Op) error {
	b, ok := op.Buffer.(*buffer)
	switch {
	case t.stopped.Load():
		return errStopped
	case !ok || b.domain != t.domain:
		return errBuffer
	case op.Cancel:
		t.cancel(b, op.Sequence)
		return nil
	case b.tm.Load() != nil:
		return errBusy
	}
	switch op.Queue {
	case transport.MsgRecv:
		if op.MinReceiveSize < 1 || op.MinReceiveSize > b.size || op.MaxMessages < 1 {
			return errSizes
		}
		t.post(&t.receiveQueue, b, op)
	case transport.PassiveBulkRecv, transport.PassiveBulkSend:
		if op.Queue == transport.PassiveBulkSend && (op.Length < 1 || op.Length > b.size) {
			return errSizes
		}
		t.post(t.bucket(op.MatchBits), b, op)
	case transport.MsgSend, transport.ActiveBulkSend, transport.ActiveBulkRecv:
		if op.Length < 1 || op.Length > b.size {
			return errSizes
		}
		t.execute(b, op)
	default:
		return errQueue
	}
	return nil
}

// bucket returns the list that contains the passive buffers with match bits m.
func (t *tm) bucket(m transport.MatchBits) *list { return &t.passiveQueues[m%buckets] }

// post makes op wait at t: it stores op in b and appends b to list l.
func (t *tm) post(l *list, b *buffer, op *transport.Op) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b.op, b.offset = *op, 0
	b.tm.Store(t)
	l.append(b)
	t.queued++
}

// cancel ends the op of b with ECANCELED, if it waits at t and has this sequence number.
func (t *tm) cancel(b *buffer, sequence uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if b.tm.Load() == t && b.op.Sequence == sequence {
		t.complete(b, &transport.Completion{Err: syscall.ECANCELED, Time: time.Now()})
	}
}

// complete ends the waiting op of b with completion c. mu is held.
func (t *tm) complete(b *buffer, c *transport.Completion) {
	b.list.remove(b)
	b.tm.Store(nil)
	t.queued--
	c.Token, c.Sequence, c.Final = b.token, b.op.Sequence, true
	t.out.Push(c)
}

// execute carries out the send or active bulk op on b, and pushes its completion. If LNet would never answer
// the request, b is put on the list unanswered instead.
func (t *tm) execute(b *buffer, op *transport.Op) {
	now := time.Now()
	answered, err := t.transfer(b, op, now)
	if !answered {
		t.post(&t.unanswered, b, op)
		return
	}
	c := transport.Completion{Token: b.token, Sequence: op.Sequence, Final: true, Err: err, Time: now}
	if err == nil {
		c.Length = op.Length
	}
	t.out.Push(&c)
}

// Errors of sends and active bulk. LNet also reports errNoHost; the others occur only with Config.Strict.
var (
	errNoHost      = fmt.Errorf("mem: no host has the NID: %w", syscall.EHOSTUNREACH)
	errNoTM        = fmt.Errorf("mem: no TM has the address: %w", syscall.ENETUNREACH)
	errNoBuffer    = fmt.Errorf("mem: the receive queue is empty: %w", syscall.ENOBUFS)
	errTooLong     = fmt.Errorf("mem: the message is longer than MinReceiveSize: %w", syscall.EMSGSIZE)
	errStale       = fmt.Errorf("mem: no buffer has the descriptor: %w", syscall.ENOENT)
	errDirection   = fmt.Errorf("mem: the descriptor is for the other direction: %w", syscall.EPERM)
	errBulkTooLong = fmt.Errorf("mem: the passive buffer is shorter than the data: %w", syscall.EFBIG)
)

// transfer finds the peer of op and moves the data. answered is false if LNet would never answer op, so that
// it must wait until it is cancelled.
func (t *tm) transfer(b *buffer, op *transport.Op, now time.Time) (answered bool, err error) {
	strict := t.host.network.strict
	h := t.host.find(op.Peer.NID)
	from, routed := t.addressFor(h)
	switch {
	case routed:
	case strict:
		return true, errNoTM
	default:
		return true, errNoHost
	}
	err = errNoTM
	if d := h.tm(op.Peer.Portal, op.Peer.TMID); d != nil && op.Peer.PID == lnet.PIDLustre {
		d.mu.Lock()
		switch {
		case d.stopped.Load():
		case op.Queue == transport.MsgSend:
			err = d.receive(b, op.Length, from, now)
		default:
			err = d.transferWith(b, op, now)
		}
		d.mu.Unlock()
	}
	if err == nil || strict || errors.Is(err, syscall.EFAULT) {
		return true, err
	}
	return op.Queue != transport.ActiveBulkRecv, nil
}

// addressFor returns the address of t that a receiver on host h sees. ok is false if t cannot reach h.
func (t *tm) addressFor(h *host) (a transport.Address, ok bool) {
	a = t.address
	if h == nil {
		return a, false
	}
	if h != t.host && a.NID.IsLoopback() {
		if len(t.host.nids) == 0 {
			return a, false
		}
		a.NID = t.host.nids[0]
	}
	return a, true
}

// receive stores a message of n bytes, from buffer from, in the first receive buffer of t. It returns an
// error if the message is lost. mu is held.
func (t *tm) receive(from *buffer, n int, sender transport.Address, now time.Time) error {
	strict := t.host.network.strict
	b := t.receiveQueue.first
	switch {
	case b == nil:
		if strict {
			t.out.PushTM(&transport.Completion{Err: errNoBuffer, Time: now})
		}
		return errNoBuffer
	case n > b.op.MinReceiveSize:
		if strict {
			t.complete(b, &transport.Completion{Err: errTooLong, Time: now})
		}
		return errTooLong
	}
	if err := guardedCopy(b.segments, b.offset, from.segments, n); err != nil {
		return err
	}
	c := transport.Completion{Length: n, Offset: b.offset, Sender: sender, Time: now}
	b.offset += n
	b.op.MaxMessages--
	if b.op.MaxMessages == 0 || b.size-b.offset < b.op.MinReceiveSize {
		t.complete(b, &c)
		return nil
	}
	c.Token, c.Sequence = b.token, b.op.Sequence
	t.out.Push(&c)
	return nil
}

// transferWith carries out active bulk operation op: it moves data between buffer a of the peer and the
// matching passive buffer of t. mu is held.
func (t *tm) transferWith(a *buffer, op *transport.Op, now time.Time) error {
	b, err := t.match(op)
	if err != nil {
		return err
	}
	room := b.size
	if b.op.Queue == transport.PassiveBulkSend {
		room = b.op.Length
	}
	if op.Length > room {
		if t.host.network.strict {
			t.complete(b, &transport.Completion{Err: errBulkTooLong, Time: now})
		}
		return errBulkTooLong
	}
	to, from := a, b
	if op.Queue == transport.ActiveBulkSend {
		to, from = b, a
	}
	if err := guardedCopy(to.segments, 0, from.segments, op.Length); err != nil {
		return err
	}
	t.complete(b, &transport.Completion{Length: op.Length, Time: now})
	return nil
}

// match returns the oldest passive buffer of t that has the match bits of op and is for its direction. mu is
// held.
func (t *tm) match(op *transport.Op) (*buffer, error) {
	wanted := transport.PassiveBulkSend
	if op.Queue == transport.ActiveBulkSend {
		wanted = transport.PassiveBulkRecv
	}
	err := errStale
	for b := t.bucket(op.MatchBits).first; b != nil; b = b.next {
		switch {
		case b.op.MatchBits != op.MatchBits:
		case b.op.Queue == wanted:
			return b, nil
		default:
			err = errDirection
		}
	}
	return nil, err
}

// Stop implements completion.TM. It returns EBUSY if an op still waits.
func (t *tm) Stop() error {
	t.mu.Lock()
	waiting, stopped := t.queued, t.stopped.Load()
	if waiting == 0 {
		t.stopped.Store(true)
	}
	t.mu.Unlock()
	switch {
	case waiting > 0:
		return fmt.Errorf("mem: stop: %d operations of the TM are still in progress: %w", waiting, syscall.EBUSY)
	case stopped:
		return nil
	}
	t.host.unregister(t)
	t.domain.mu.Lock()
	defer t.domain.mu.Unlock()
	t.domain.tms--
	return nil
}
