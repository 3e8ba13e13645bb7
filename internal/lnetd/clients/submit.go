package clients

import (
	"fmt"
	"math"
	"syscall"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory/shared"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/shm"
)

// queues maps the opcodes of submissions to the queues of a TM.
var queues = [...]transport.QueueType{
	shm.OpMsgRecv: transport.MsgRecv, shm.OpMsgSend: transport.MsgSend,
	shm.OpPassiveRecv: transport.PassiveBulkRecv, shm.OpPassiveSend: transport.PassiveBulkSend,
	shm.OpActiveRecv: transport.ActiveBulkRecv, shm.OpActiveSend: transport.ActiveBulkSend,
}

// processRound processes up to perRound submissions from the ring and returns their number. If a submission
// violates the protocol, it disconnects the client and returns the error, as do all later calls. The caller
// must make sure that the ring stays mapped during the call.
func (t *tm) processRound() (n int, err error) {
	n, wake, err := t.processWithoutWake()
	t.ring.Completions.Wake(wake.completions)
	if wake.posted {
		t.ring.Submissions.WakePosted()
	}
	return n, err
}

// wakes holds which waiters a round must wake after it has released roundMu: those that wait for
// completions, and those that wait until their submissions have been posted.
type wakes struct {
	completions shared.Wakeup
	posted      bool
}

// processWithoutWake does what processRound does, except that it wakes no waiters. It returns which ones the
// caller must wake.
func (t *tm) processWithoutWake() (n int, wake wakes, err error) {
	t.roundMu.Lock()
	defer t.roundMu.Unlock()
	if t.ringError != nil {
		return 0, wake, t.ringError
	}
	t.ops, t.opBuffers, t.rejections, t.began = t.ops[:0], t.opBuffers[:0], t.rejections[:0], t.client.server.now()
	if err = guardFault(func() (err error) { n, err = t.readSubmissions(); return err }); err != nil {
		t.ringError = fmt.Errorf("TM at %v: %w", t.address, err)
		t.client.cutOff(t.ringError) // before the client sees the completions of cancelRound
		t.cancelRound()
		return n, wake, t.ringError
	}
	t.ineffective = max(0, t.ineffective+n-2*len(t.ops))
	for i := 0; i < len(t.ops); i++ {
		taken, err := t.core.Submit(t.ops[i:])
		if i += taken; i < len(t.ops) {
			t.reject(i, errnoOf(err))
		}
	}
	t.writeRejections()
	err = guardFault(func() error {
		if n > 0 {
			wake.posted = t.ring.Submissions.MarkPosted()
		}
		if t.wakeDue {
			t.wakeDue = false
			wake.completions = t.ring.Completions.Claim()
		}
		return nil
	})
	return n, wake, err
}

// readSubmissions reads up to perRound submissions from the ring and returns their number. It collects in
// t.ops the operations to submit to the Core, and in t.rejections those to reject.
func (t *tm) readSubmissions() (n int, err error) {
	if err := t.checkCompletions(); err != nil {
		return 0, err
	}
	for n < perRound {
		ok, err := t.ring.Submissions.Next(&t.entry)
		if err == nil && ok {
			err = t.prepareSubmission(&t.entry)
		}
		if err != nil {
			return n, err
		}
		if !ok {
			break
		}
		n++
	}
	// This comes before the operations are submitted, because the client relies on it: an operation
	// leaves the submission ring before it completes.
	t.ring.Submissions.Release()
	return n, nil
}

// checkCompletions moves kept completions to the ring, if there is room. It returns an error if the head of
// the completion ring, which the client writes, is invalid (transport 9.9 rule 2).
func (t *tm) checkCompletions() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.kept); n > 0 {
		err := t.moveKept()
		t.wakeDue = t.wakeDue || len(t.kept) < n
		return err
	}
	_, err := t.ring.Completions.Room()
	return err
}

// reject records that the Core has rejected t.ops[i]. A request to cancel an operation has no completion, so
// its rejection is not recorded.
func (t *tm) reject(i int, errno syscall.Errno) {
	if !t.ops[i].Cancel {
		t.rejections = append(t.rejections, rejection{t.opBuffers[i], errno})
	}
}

// cancelRound ends the operations of this round that have not been submitted to the Core, because the
// client is being disconnected. They get completions with ECANCELED.
func (t *tm) cancelRound() {
	for i := range t.ops {
		t.reject(i, syscall.ECANCELED)
	}
	t.writeRejections()
}

// writeRejections writes the completions of the operations in t.rejections.
func (t *tm) writeRejections() {
	for _, r := range t.rejections {
		b := r.buffer
		t.finish(b, &shm.Completion{
			Buffer: b.index, Generation: b.generation, Operation: b.operation.Load(),
			Errno: r.errno, Time: t.client.server.now(), Final: true, Rejected: true,
		})
	}
}

// prepareSubmission validates one submission and adds its operation to t.ops or, if it is only invalid, to
// t.rejections. If the submission violates the protocol (transport 9.9), prepareSubmission returns an
// error, and the client must be disconnected.
func (t *tm) prepareSubmission(s *shm.Submission) error {
	if s.Opcode == shm.OpNop {
		return nil
	}
	b, err := t.client.buffers.find(s.Buffer, s.Generation)
	if err != nil {
		return fmt.Errorf("submission of %v: %w", s.Opcode, err)
	}
	if s.Opcode == shm.OpCancel {
		if b != nil && b.owner.Load() == t && b.operation.Load() == s.Operation {
			t.addOp(b, &transport.Op{Cancel: true, Buffer: b.core, Sequence: s.Operation})
		}
		return nil
	}
	if b == nil {
		return fmt.Errorf("submission of %v: buffer %d has another generation than %d, because it was registered again: %w", s.Opcode, s.Buffer, s.Generation, syscall.EBADR)
	}
	queue := queues[s.Opcode]
	m := transport.MatchBits(s.MatchBits)
	if queue == transport.PassiveBulkRecv || queue == transport.PassiveBulkSend {
		if m.TMID() != t.address.TMID || !t.passive.permit(m) {
			return fmt.Errorf("submission of %v: match bits %#x do not belong to TM %d: %w", s.Opcode, s.MatchBits, t.address.TMID, syscall.EINVAL)
		}
	}
	began, err := t.begin(b, queue, s)
	if err != nil || !began {
		return err
	}
	if !validOperation(s, queue, b.size) {
		t.rejections = append(t.rejections, rejection{b, syscall.EINVAL})
		return nil
	}
	op := transport.Op{Queue: queue, Buffer: b.core, Sequence: s.Operation, Length: int(s.Length), MatchBits: m}
	switch queue {
	case transport.MsgRecv:
		op.Length, op.MatchBits = 0, 0
		op.MinReceiveSize, op.MaxMessages = int(s.MinReceive), int(s.MaxMessages)
	case transport.MsgSend, transport.ActiveBulkRecv, transport.ActiveBulkSend:
		op.Peer = transport.Address{NID: s.Peer, PID: s.PID, Portal: s.Portal, TMID: uint16(s.TMID)}
	}
	t.addOp(b, &op)
	return nil
}

// addOp adds op, an operation on b, to those that the round submits to the Core.
func (t *tm) addOp(b *buffer, op *transport.Op) {
	t.ops, t.opBuffers = append(t.ops, *op), append(t.opBuffers, b)
}

// validOperation reports whether the operation s is valid for a buffer of the given size. An invalid
// operation is rejected, but the client is not disconnected (transport 9.9 rule 6).
func validOperation(s *shm.Submission, queue transport.QueueType, size int) bool {
	length := s.Length >= 1 && uint64(s.Length) <= uint64(size)
	switch queue {
	case transport.MsgRecv:
		return s.MinReceive >= 1 && uint64(s.MinReceive) <= uint64(size) && s.MaxMessages >= 1 && s.MaxMessages <= math.MaxInt32
	case transport.PassiveBulkRecv:
		return true
	case transport.PassiveBulkSend:
		return length
	}
	peer := !s.Peer.IsZero() && (s.PID == lnet.PIDLustre || s.PID.IsApplication()) && allPortals.has(s.Portal) && allTMIDs.has(s.TMID)
	if queue == transport.MsgSend {
		return length && peer
	}
	m := transport.MatchBits(s.MatchBits)
	return length && peer && uint32(m.TMID()) == s.TMID && m.Counter() != 0
}

// begin makes the TM the owner of a buffer for the operation s. It returns false if the operation cannot
// start, because the TM is ending. It returns an error if the client must be disconnected.
func (t *tm) begin(b *buffer, queue transport.QueueType, s *shm.Submission) (began bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ending {
		return false, nil
	}
	if !b.owner.CompareAndSwap(nil, t) {
		return false, fmt.Errorf("submission of %v: buffer %d is in use by an operation: %w", s.Opcode, s.Buffer, syscall.EBUSY)
	}
	b.operation.Store(s.Operation)
	b.queue, b.length, b.began = queue, s.Length, t.began
	t.underWay++
	t.depth[queue]++
	t.figures[queue].Added++
	return true, nil
}
