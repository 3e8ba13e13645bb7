package o2iblnd_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/fabric"
	"github.com/lnetd/lnetd/lnet"
)

// put sends a PUT without payload that wants an ACK, and ack sends the ACK of one.
func (s *station) put(to lnet.NID) { s.sendEmpty(to, lnet.MsgPut, lnet.Handle{Object: 1}) }
func (s *station) ack(to lnet.NID) { s.sendEmpty(to, lnet.MsgAck, lnet.Handle{Object: 1}) }

func (s *station) sendEmpty(to lnet.NID, typ lnet.MsgType, h lnet.Handle) {
	s.i.Send(&lnd.Tx{
		Header: lnet.Header{Type: typ, Src: s.i.NID(), Dest: to, SrcPID: lnet.PIDLustre, DestPID: lnet.PIDLustre, Handle: h},
		To:     lnet.ProcessID{NID: to, PID: lnet.PIDLustre}, Done: s,
	})
}

// TestExchangeSleepsOnce: in an exchange of a PUT and its ACK, one at a time, each node sleeps once. The completions
// of its SENDs do not wake it. The last ones are delivered soon, and nothing runs after that.
func TestExchangeSleepsOnce(t *testing.T) {
	onFabric(t, func(t *testing.T, f *fabric.Fabric) {
		const rounds = 100
		a, b := newStation(t, f, 0, nil), newStation(t, f, 1, nil)
		a.works(b)
		a.outcome()
		time.Sleep(time.Second)
		sleeps := func() uint64 { return a.proc.Crossings().Sleeps + b.proc.Crossings().Sleeps }
		before := sleeps()
		for range rounds {
			a.put(b.i.NID())
			time.Sleep(time.Millisecond)
			b.ack(a.i.NID())
			time.Sleep(time.Millisecond)
		}
		if n := sleeps() - before; n > 2*rounds+2 {
			t.Errorf("%d exchanges: both nodes have slept %d times, want %d", rounds, n, 2*rounds)
		}
		time.Sleep(2 * verbs.MaxDefer)
		sent, errs := a.outcome()
		if more, wrong := b.outcome(); sent != rounds || more != rounds || len(errs)+len(wrong) > 0 {
			t.Errorf("%d PUTs and %d ACKs were sent, %v, %v", sent, more, errs, wrong)
		}
		before = sleeps()
		time.Sleep(time.Minute)
		if n := sleeps() - before; n > 0 {
			t.Errorf("the nodes have slept %d times without messages", n)
		}
		a.close()
		b.close()
	})
}

// TestAwaitedCompletions: the completion of a PUT that wants no ACK, which the program waits for, wakes the node at
// once, as do the completions of all but a few of many ACKs.
func TestAwaitedCompletions(t *testing.T) {
	onFabric(t, func(t *testing.T, f *fabric.Fabric) {
		a, b := newStation(t, f, 0, nil), newStation(t, f, 1, nil)
		a.works(b)
		a.outcome()
		for range 50 {
			begin := time.Now()
			a.send(b.i.NID(), 1, 0)
			for sent := 0; sent == 0; {
				time.Sleep(time.Microsecond)
				sent, _ = a.outcome()
			}
			if took := time.Since(begin); took > time.Millisecond {
				t.Errorf("a PUT was sent after %v", took)
			}
			a.put(b.i.NID()) // the next sleep defers completions
			time.Sleep(time.Millisecond)
			a.outcome()
		}
		time.Sleep(time.Second)
		a.outcome()
		const many = 6
		for range many {
			b.ack(a.i.NID())
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if sent, errs := b.outcome(); sent != many || len(errs) > 0 {
			t.Errorf("%d of %d ACKs were sent, %v", sent, many, errs)
		}
		a.close()
		b.close()
	})
}

// TestWithoutInline: a device that copies no bytes when they are posted can be used.
func TestWithoutInline(t *testing.T) {
	onFabric(t, func(t *testing.T, f *fabric.Fabric) {
		a, b := newStation(t, f, 0, nil), newStation(t, f, 1, nil)
		a.host.Device(0).LimitInline(0)
		a.works(b)
		b.works(a)
		a.close()
		b.close()
	})
}
