package selftest

import (
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selftest/latency"
	"github.com/lnetd/lnetd/selftest/message"
	"github.com/lnetd/lnetd/selftest/pattern"
	"github.com/lnetd/lnetd/selftest/rpc"
)

// unit makes RPCs of a client test to one destination, one after the other (selftest 4.10). It has no
// goroutine: the event handler that ends an RPC begins the next one.
type unit struct {
	agent *Agent
	test  *test
	slot  *slot
	call  rpc.Call
	seq   uint32 // sequence number of the current ping
	phase atomic.Uint32
	begun atomic.Uint32 // number of RPCs begun
	// held is set when another unit has taken over the slot. The unit then ends after its current RPC.
	held  atomic.Bool
	works bool // the unit has the slot or an RPC in progress; test.mu guards this field

	bulk    []byte // buffer from the agent's client memory, or nil
	waiter  memoryWaiter
	latency *latency.Recorder // shared with other units of the test
}

// Phases of a unit's RPC. Client.Start may end an RPC before it returns, in phaseStarting. The loop in run
// then continues with the next RPC. So a sequence of such RPCs does not recurse.
const (
	phaseIdle uint32 = iota
	phaseStarting
	phaseWaiting
	phaseEnded
)

// inlineMax is the number of successive RPCs that may end within Client.Start before run continues in another
// goroutine.
const inlineMax = 64

// pause is the time that a unit waits after a failed RPC before it makes the next one. Without it, an
// unreachable destination would keep a processor busy. This deviates from kernels.
const pause = 100 * time.Millisecond

func (u *unit) init(a *Agent, t *test, p *slot, to lnet.ProcessID) {
	u.agent, u.test, u.slot = a, t, p
	u.call.To, u.call.Service, u.call.Timeout, u.call.Waiter = to, t.service, a.config.RPCTimeout, u
	u.waiter.granted = u.granted
}

// run makes RPCs until one is in progress, the unit waits for memory, or the unit has ended. After run has
// returned, the caller must not access the unit, because another goroutine may continue it.
func (u *unit) run() {
	for range inlineMax {
		if u.finished() {
			u.end()
			return
		}
		if !u.memory() {
			return
		}
		if !u.slot.take() {
			u.end()
			return
		}
		if !u.launch() {
			return
		}
		if !u.evaluate() {
			return
		}
	}
	u.agent.spawn(u.run)
}

// finished reports whether the unit must end before the next RPC: no RPC is left, the test is stopping, or
// another unit has taken over.
func (u *unit) finished() bool {
	return u.slot.left.Load() == 0 || u.test.stopping.Load() || u.held.Load()
}

// end ends the unit. switchUnit or begin may start it again later.
func (u *unit) end() {
	u.release()
	u.slot.leave(u)
}

// memory sets the bulk of the next RPC. It takes memory of the agent for a bulk that is received or
// corrupted. For any other bulk it uses Agent.source, which all units share. It returns false if the unit
// must wait for memory or has ended.
func (u *unit) memory() bool {
	t := u.test
	u.call.Bulk = rpc.Bulk{}
	if t.service != message.ServiceBRW {
		return true
	}
	if u.bulk == nil {
		if t.op == message.BRWWrite && !u.agent.inject() {
			u.call.Bulk.Bytes = u.agent.source()[:t.length:t.length]
			return true
		}
		b := u.agent.clientMemory.take(&u.waiter, u.call.To.NID, int(t.length))
		if b == nil {
			// A stop before the unit was queued for memory has not found it in the queue.
			if t.stopping.Load() && u.agent.clientMemory.dequeue(&u.waiter) {
				u.end()
			}
			return false
		}
		u.bulk = b
	}
	u.call.Bulk = rpc.Bulk{Bytes: u.bulk, Sink: t.op == message.BRWRead, Discard: t.check == message.CheckDiscard}
	if u.call.Bulk.Sink {
		pattern.Poison(u.bulk, t.check)
	} else {
		u.agent.corrupt(u.bulk, t.check)
	}
	return true
}

// granted gives the unit the memory b that it has waited for, and continues the unit.
func (u *unit) granted(b []byte) {
	u.bulk = b
	u.run()
}

// launch starts the next RPC. It returns true if the RPC has already ended, so that the caller evaluates it.
// Otherwise Ended evaluates it later.
func (u *unit) launch() bool {
	a, t := u.agent, u.test
	h := message.NewHeader(t.batch.session.features)
	if t.service == message.ServicePing {
		u.seq = a.pingSeq.Add(1) - 1
		now := a.config.Wall()
		q := message.PingRequest{
			Header: h, Magic: message.PingMagic, Seq: u.seq,
			Seconds: now.Unix(), Nanoseconds: int64(now.Nanosecond()),
		}
		q.Append(u.call.Request()[:0])
	} else {
		q := message.BRWRequest{Header: h, Op: t.op, Length: t.length, Check: t.check}
		q.Append(u.call.Request()[:0])
	}
	u.begun.Add(1)
	u.phase.Store(phaseStarting)
	a.client.Start(&u.call)
	if t.aborting.Load() { // a stop with force has not found this RPC, because it was not started yet
		u.call.Abort()
	}
	return !u.phase.CompareAndSwap(phaseStarting, phaseWaiting)
}

// Ended implements rpc.Waiter.
func (u *unit) Ended(*rpc.Call) {
	if u.phase.Swap(phaseEnded) == phaseStarting {
		return
	}
	if len(u.bulk) >= asyncSize && u.test.check == message.CheckFull {
		u.agent.spawn(u.proceed)
		return
	}
	u.proceed()
}

// proceed handles the result of an RPC and continues with the next one.
func (u *unit) proceed() {
	if u.evaluate() {
		u.run()
	}
}

// evaluate handles the result of an RPC. It returns true if the caller must continue run. Otherwise the unit
// has ended or continues later.
func (u *unit) evaluate() bool {
	err := u.call.Err()
	if err == nil {
		u.latency.Record(u.call.Took())
		err = u.examine()
	} else if u.test.stopping.Load() {
		err = nil // the stop has probably caused the error; run ends the unit
	}
	if u.call.Abandoned() {
		u.abandon()
		return false
	}
	u.release()
	if err == nil {
		return true
	}
	u.countError(err)
	if u.test.stopOnError {
		u.slot.left.Store(0)
		u.end()
		return false
	}
	u.agent.later(pause, u.run)
	return false
}

// examine checks the reply of the current RPC and, for a read, the bulk.
func (u *unit) examine() error {
	t := u.test
	if t.service == message.ServicePing {
		var r message.PingReply
		switch err := r.Decode(u.call.Reply()); {
		case err != nil:
			return err
		case r.Status != message.OK:
			return r.Status.Err()
		case r.Magic != message.PingMagic || r.Seq != u.seq:
			return message.EBADMSG.Err()
		}
		return nil
	}
	var r message.BRWReply
	switch err := r.Decode(u.call.Reply()); {
	case err != nil:
		return err
	case r.Status != message.OK:
		return r.Status.Err()
	}
	if t.op == message.BRWRead {
		return pattern.Check(u.bulk, t.check, r.Order)
	}
	return nil
}

func (u *unit) countError(err error) {
	u.agent.log.Debug("selftest: test request failed", "to", u.call.To.String(), "err", err)
	s := u.test.batch.session
	if u.test.service == message.ServicePing {
		s.pingErrors.Add(1)
	} else {
		s.brwErrors.Add(1)
	}
}

// release returns the memory for bulk data, if the unit has any.
func (u *unit) release() {
	if u.bulk != nil {
		u.agent.clientMemory.put(&u.waiter, u.bulk)
		u.bulk = nil
	}
	u.call.Bulk = rpc.Bulk{}
}

// abandon ends the unit because the node was closed during an RPC. The memory for bulk data is lost.
func (u *unit) abandon() {
	if u.bulk != nil {
		u.agent.clientMemory.markLost(&u.waiter, u.bulk)
		u.bulk = nil
	}
	u.test.stopping.Store(true)
	u.slot.leave(u)
}

// stop ends the unit: immediately if it waits for memory, and otherwise after its current RPC, which it
// aborts if force is set. The caller has set test.stopping.
func (u *unit) stop(force bool) {
	if u.agent.clientMemory.dequeue(&u.waiter) {
		u.end()
		return
	}
	if force {
		u.call.Abort()
	}
}

// later runs f in another goroutine after duration d. Close waits for it.
func (a *Agent) later(d time.Duration, f func()) {
	a.work.Add(1)
	time.AfterFunc(d, func() {
		defer a.work.Done()
		f()
	})
}
