package clients

import (
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/remote/protocol"
	"github.com/lnetd/lnetd/transport/shm"
)

// 10,000 operations run in batches of 100. Each batch wakes lnetd at most once. lnetd wakes the client at
// most once for each time that it sleeps. There are no requests. STATS_GET confirms it.
//
// transport-tests P (124)
// transport 9.7
func TestFiguresOfSteadyTraffic(t *testing.T) {
	const batches, batch = 100, 100
	w := newWorld(t, nil)
	o := w.one(7, 128)
	var buffers []protocol.BufRegisterReply
	for range batch {
		buffers = append(buffers, o.register(protocol.Range{Area: o.memory.id, Length: 1}))
	}
	asked := w.server.Clients()[0].Requests
	for k := range uint32(batches) {
		all := make([]shm.Submission, batch)
		for i := range all {
			// No TM receives it; the sender gets no error for that.
			all[i] = of(to(shm.Submission{Opcode: shm.OpMsgSend, Length: 1}, o.tm.at), buffers[i], k)
		}
		o.tm.submit(all...)
		for range all {
			if c := o.tm.next(); c.Errno != 0 || !c.Final {
				t.Fatalf("%+v", c)
			}
		}
	}
	info := w.server.Clients()[0]
	if f := info.TMs[0].Queues[transport.MsgSend]; f.Added != batches*batch || f.Completed != f.Added || f.Cancelled != 0 || f.Bytes != f.Added || f.MaxBytes != 1 || f.InQueue < 0 {
		t.Errorf("figures of the queue %+v", f)
	}
	// A canceled operation was on the queue, and is counted once.
	o.tm.submit(of(shm.Submission{Opcode: shm.OpMsgRecv, MinReceive: 1, MaxMessages: 1}, buffers[0], batches))
	o.tm.submit(of(shm.Submission{Opcode: shm.OpCancel}, buffers[0], batches))
	if c := o.tm.next(); c.Errno != syscall.ECANCELED || !c.Final {
		t.Fatalf("%+v", c)
	}
	if f := w.server.Clients()[0].TMs[0].Queues[transport.MsgRecv]; f.Added != 1 || f.Cancelled != 1 || f.Failed != 1 || f.Depth != 0 || f.InQueue <= 0 {
		t.Errorf("figures of the queue of a cancelled operation %+v", f)
	}
	if n := w.server.Clients()[0].Requests; n != asked {
		t.Errorf("%d requests in steady traffic", n-asked)
	}
	var got, all protocol.Counters
	o.must(&protocol.StatsGet{Handle: o.tm.handle}, &got)
	o.must(&protocol.StatsGet{Handle: protocol.NoHandle}, &all)
	if got.Submissions != batches*batch+2 || got.Completions != batches*batch+1 || got.Requests != asked+1 {
		t.Errorf("figures %+v", got)
	}
	rung, slept := o.tm.Submissions.Stats().Wakeups, o.tm.Completions.Stats().Sleeps
	if rung > batches+2 || got.BellReads > rung {
		t.Errorf("the client has written to the bell %d times, lnetd has read it %d times", rung, got.BellReads)
	}
	if got.BellWrites > slept {
		t.Errorf("lnetd has written to the bell %d times, the client has slept %d times", got.BellWrites, slept)
	}
	if all.Submissions != got.Submissions || all.BellWrites < got.BellWrites || all.Requests != got.Requests+1 {
		t.Errorf("figures of the connection %+v", all)
	}
}
