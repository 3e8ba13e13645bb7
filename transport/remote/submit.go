package remote

import (
	"errors"
	"math"

	"github.com/lnetd/lnetd/memory/shared"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/shm"
)

// opcodes maps a queue to the opcode of its ops.
var opcodes = [transport.QueueTypes]shm.Opcode{
	transport.MsgRecv: shm.OpMsgRecv, transport.MsgSend: shm.OpMsgSend,
	transport.PassiveBulkRecv: shm.OpPassiveRecv, transport.PassiveBulkSend: shm.OpPassiveSend,
	transport.ActiveBulkRecv: shm.OpActiveRecv, transport.ActiveBulkSend: shm.OpActiveSend,
}

// Submit implements transport.CoreTM. It writes the ops into the ring, and wakes lnetd once for all of them
// if it sleeps (transport 9.6). If lnetd refuses an op, the op's final completion reports the error.
func (t *tm) Submit(ops []transport.Op) (taken int, err error) {
	t.mu.Lock()
	for taken < len(ops) {
		if err = t.put(&ops[taken], taken+1 < len(ops)); err != nil {
			break
		}
		taken++
	}
	var wake shared.Wakeup
	if taken > 0 { // an accepted op shows that the ring is mapped
		t.ring.Submissions.Publish()
		wake = t.ring.Submissions.Claim()
	}
	t.mu.Unlock()
	t.ring.Submissions.Wake(wake)
	if errors.Is(err, shared.ErrRing) {
		t.domain.connection.fail(err)
	}
	return taken, err
}

// put writes one op into the ring. more means that the caller will write another op, so that lnetd can expect
// it. mu is held.
func (t *tm) put(op *transport.Op, more bool) error {
	b, ok := op.Buffer.(*buffer)
	switch {
	case t.stopped:
		return errStopped
	case t.endError != nil:
		return t.endError
	case !ok || b.domain != t.domain || b.ended.Load():
		if ok && op.Cancel && b.domain == t.domain {
			return nil // the op to be cancelled has ended
		}
		return errBuffer
	case op.Cancel:
		return t.cancel(b, op.Sequence, more)
	case op.Queue >= transport.QueueTypes:
		return errQueue
	case !b.fits(op):
		return errSizes
	}
	if !b.tm.CompareAndSwap(nil, t) {
		return errBusy
	}
	t.op = shm.Submission{
		Opcode: opcodes[op.Queue], More: more, Buffer: b.index, Generation: b.generation, Operation: b.operation + op.Sequence,
		MatchBits: uint64(op.MatchBits), Length: uint32(op.Length),
	}
	switch op.Queue {
	case transport.MsgRecv:
		t.op.MinReceive, t.op.MaxMessages = uint32(op.MinReceiveSize), uint32(op.MaxMessages)
	case transport.MsgSend, transport.ActiveBulkRecv, transport.ActiveBulkSend:
		t.op.Peer, t.op.PID, t.op.Portal, t.op.TMID = op.Peer.NID, op.Peer.PID, op.Peer.Portal, uint32(op.Peer.TMID)
	}
	b.receives = op.Queue == transport.MsgRecv || op.Queue == transport.PassiveBulkRecv || op.Queue == transport.ActiveBulkRecv
	if !b.receives {
		b.foreign.send(op.Length)
	}
	if err := t.writeOp(); err != nil {
		b.tm.Store(nil)
		return err
	}
	b.sequence = op.Sequence
	t.ops++
	return nil
}

// fits reports whether the lengths and limits in op suit the size of the buffer.
func (b *buffer) fits(op *transport.Op) bool {
	switch op.Queue {
	case transport.MsgRecv:
		return op.MinReceiveSize >= 1 && op.MinReceiveSize <= b.size && op.MaxMessages >= 1 && op.MaxMessages <= math.MaxInt32
	case transport.PassiveBulkRecv:
		return true
	}
	return op.Length >= 1 && op.Length <= b.size
}

// cancel cancels the op of b with the given sequence. It does nothing if this op has ended or is cancelled
// already. mu is held.
func (t *tm) cancel(b *buffer, sequence uint32, more bool) error {
	if b.tm.Load() != t || b.sequence != sequence || b.cancelled != 0 {
		return nil
	}
	t.op = shm.Submission{Opcode: shm.OpCancel, More: more, Buffer: b.index, Generation: b.generation, Operation: b.operation + sequence}
	if err := t.writeOp(); err != nil {
		return err
	}
	t.cancels.add(b)
	t.watchCancels()
	return nil
}
